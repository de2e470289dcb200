"""The audit event of a request, with the fields of `audit.k8s.io/v1` Event in their order."""

from __future__ import annotations

import ipaddress
import json
from datetime import UTC, datetime
from typing import Any

import msgspec

from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.http.messages import HTTPRequest
from kubewright.apiserver.http.request_info import RequestInfo
from kubewright.client.transport.headers import replace_surrogates

API_VERSION = "audit.k8s.io/v1"
_MAX_USER_AGENT = 1024


class ObjectReference(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """The object of a resource request."""

    resource: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_group: str = ""
    api_version: str = ""
    resource_version: str = ""
    subresource: str = ""


class AuditEvent(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """One stage of a request. The objects are JSON."""

    kind: str = msgspec.field(default_factory=lambda: "Event")
    api_version: str = msgspec.field(default_factory=lambda: API_VERSION)
    level: str
    audit_id: str = msgspec.field(name="auditID")
    stage: str
    request_uri: str = msgspec.field(name="requestURI")
    verb: str
    user: dict[str, Any]
    impersonated_user: dict[str, Any] | None = None
    authentication_metadata: dict[str, str] | None = None
    source_ips: list[str] | None = msgspec.field(default=None, name="sourceIPs")
    user_agent: str = ""
    object_ref: ObjectReference | None = None
    response_status: dict[str, Any] | None = None
    request_object: msgspec.Raw | None = None
    response_object: msgspec.Raw | None = None
    request_received_timestamp: str
    stage_timestamp: str
    annotations: dict[str, str] | None = None

    def encode(self) -> bytes:
        """Return the event as JSON in one line, without a line end.

        An event is never lost because of its content: what cannot be encoded is replaced.
        """
        try:
            return _encode(self)
        except (ValueError, TypeError, RecursionError, NotImplementedError):
            return _encode({name: encodable(each) for name, each in _asdict(self).items()})

    def to_text(self) -> str:
        """Return the event in the format `legacy` of the log."""
        user, impersonated = self.user, self.impersonated_user

        def groups(info: dict[str, Any], default: str) -> str:
            return ",".join(f'"{name}"' for name in info["groups"]) if info.get("groups") else default

        fields = {
            "id": self.audit_id,
            "stage": self.stage,
            "ip": self.source_ips[0] if self.source_ips else "<unknown>",
            "method": self.verb,
            "user": user.get("username") or "<none>",
            "groups": groups(user, "<none>"),
            "as": impersonated["username"] if impersonated else "<self>",
            "asgroups": groups(impersonated, "<lookup>") if impersonated else "<lookup>",
            "user-agent": self.user_agent,
            "namespace": (self.object_ref.namespace if self.object_ref else "") or "<none>",
            "uri": self.request_uri,
            "response": str(self.response_status.get("code", 0)) if self.response_status else "<deferred>",
        }
        text = " ".join(f"{name}={json.dumps(value)}" for name, value in fields.items())
        return f"{self.request_received_timestamp} AUDIT: {text}"


_encode = msgspec.json.Encoder().encode


def _asdict(event: AuditEvent) -> dict[str, Any]:
    """Return the fields of an event that are set, by their names in JSON."""
    values = ((name, getattr(event, field)) for field, name in zip(*_NAMES, strict=True))
    return {name: value for name, value in values if value is not None and value != ""}


def encodable(value: Any, depth: int = 0) -> Any:
    """Return plain data that can be encoded: other characters are U+FFFD, other values text."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if value is None or isinstance(value, bool | int | float | msgspec.Raw):
        return value
    if depth < _MAX_DEPTH:
        if isinstance(value, ObjectReference):
            value = msgspec.to_builtins(value)
        if isinstance(value, dict):
            return {replace_surrogates(str(key)): encodable(each, depth + 1) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [encodable(each, depth + 1) for each in value]
    return replace_surrogates(str(value) if depth < _MAX_DEPTH else "...TRUNCATED")


_NAMES = (AuditEvent.__struct_fields__, AuditEvent.__struct_encode_fields__)
_MAX_DEPTH = 200


def timestamp(moment: float | None = None) -> str:
    """Return a time, by default the current one, as MicroTime."""
    when = datetime.now(UTC) if moment is None else datetime.fromtimestamp(moment, UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def new_event(request: HTTPRequest, info: RequestInfo, user: User | None, level: str) -> AuditEvent:
    """Return the event of a request with its metadata."""
    agent = request.headers.get("User-Agent", "")
    if len(agent) > _MAX_USER_AGENT:
        agent = agent[:_MAX_USER_AGENT] + "...TRUNCATED"
    now = timestamp()
    query = request.query.raw
    reference = None
    if info.resource:
        reference = ObjectReference(
            resource=info.resource,
            namespace=info.namespace,
            name=info.name,
            api_group=info.group,
            api_version=info.version,
            subresource=info.subresource,
        )
    return AuditEvent(
        level=level,
        audit_id=request.audit_id,
        stage="RequestReceived",
        request_uri=f"{request.raw_path}?{query}" if query else request.raw_path,
        verb=info.verb,
        user=user.to_info() if user is not None else {},
        source_ips=source_addresses(request),
        user_agent=agent,
        object_ref=reference,
        request_received_timestamp=now,
        stage_timestamp=now,
    )


def source_addresses(request: HTTPRequest) -> list[str] | None:
    """Return the addresses in `X-Forwarded-For` and `X-Real-Ip`, then that of the connection."""
    headers = request.headers
    found = [ip for text in headers.get("X-Forwarded-For", "").split(",") if (ip := _address(text))]
    real = _address(headers.get("X-Real-Ip", ""))
    if real and real not in found:
        found.append(real)
    remote = _address(request.remote or getattr(request.native, "remote", None) or "")
    if remote and (not found or found[-1] != remote):
        found.append(remote)
    return found or None


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        return ""
