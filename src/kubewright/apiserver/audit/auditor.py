"""Creates the audit events of requests: the part of the request pipeline that exists if auditing is on.

The pipeline calls `receive` after authentication, then reports impersonation and authorization to
`request.audit`, and calls `respond` with the response. A request whose level is None has no `audit` and costs
the evaluation of the policy only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace
from prometheus_client.core import CounterMetricFamily, Metric

from kubewright.api.errors import InternalError
from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.authorization import AuthorizationAttributes, Decision
from kubewright.apiserver.encoding.negotiation import JSON, PROTOBUF, YAML
from kubewright.apiserver.encoding.protobuf import builtin_codec
from kubewright.apiserver.encoding.yaml import load_yaml
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse, WebSocketHandler, WrappedStream
from kubewright.apiserver.http.request_info import RequestInfo

from .backends import AuditBackend, accepts_all, monitored, monitors
from .batching import BatchBackend
from .event import AuditEvent, encodable, new_event, timestamp
from .policy import LEVEL_NAMES, AuditConfig, AuditLevel, AuditPolicy

if TYPE_CHECKING:
    from kubewright.apiserver.http.messages import TunnelHandler
    from kubewright.apiserver.router import Router

logger = logging.getLogger("kubewright.apiserver.audit")

_STREAM_TIMEOUT = 1.0
"""Seconds that streams have to end when the server stops."""

_BODY_VERBS = frozenset(("create", "update", "patch", "delete", "deletecollection"))
_READING = frozenset(("get", "list", "watch", "head", "options"))
_LONG_RUNNING = frozenset(("attach", "exec", "log", "portforward", "proxy"))
"""Subresources whose responses have the stage `ResponseStarted`, also if they are short."""

_STATUS_FIELDS = ("status", "message", "reason", "details", "code")
_DECISION = "authorization.k8s.io/decision"
_REASON = "authorization.k8s.io/reason"

_decode = msgspec.json.Decoder().decode


class Auditor:
    """Applies a policy to requests and sends their events to backends."""

    def __init__(self, policy: AuditPolicy, backends: Iterable[AuditBackend]) -> None:
        self.policy = policy
        self.backends = [monitored(backend) for backend in backends]
        self._strict = [backend for backend in self.backends if not accepts_all(backend)]
        """Backends whose rejection of an event rejects the request."""
        self.router: Router | None = None
        """Tells which requests are long-running, and which bodies are objects; set by the server."""
        self._levels = dict.fromkeys(LEVEL_NAMES.values(), 0)
        self._events = 0
        self._rejected = 0
        self._streams = 0
        self._idle = asyncio.Event()

    async def start(self) -> None:
        """Start the backends; raises `OSError` or `ValueError`."""
        for backend in self.backends:
            await backend.start()

    async def stop(self) -> None:
        """Wait until streams have ended, process queued events and stop the backends."""
        if self._streams:
            self._idle.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STREAM_TIMEOUT):
                    await self._idle.wait()
        for backend in self.backends:
            await backend.stop()

    async def receive(self, request: HTTPRequest, info: RequestInfo) -> None:
        """Create the audit of an authenticated request and emit `RequestReceived`.

        Raises `InternalError` if a backend in the mode `blocking-strict` cannot store the event.
        """
        attributes = AuthorizationAttributes.of(request.user, info)
        config = self.policy.evaluate(attributes)
        name = LEVEL_NAMES[config.level]
        self._levels[name] += 1
        if config.level is AuditLevel.NONE:
            return
        audit = request.audit = RequestAudit(self, config, new_event(request, info, request.user, name))
        audit.annotations.update(getattr(request, "audit_annotations", ()))
        accepted = audit.emit("RequestReceived")
        if self._strict and info.verb not in _READING and "RequestReceived" in config.omit_stages:
            # Only an event that is stored before the request can prevent it.
            accepted = audit.emit("RequestReceived", self._strict)
        if accepted is not True and not (isinstance(accepted, Awaitable) and await accepted):
            self._rejected += 1
            raise InternalError("Internal error occurred: failed to store audit event")

    async def respond(self, request: HTTPRequest, info: RequestInfo, response: HTTPResponse) -> None:
        """Emit the events of a response; streams are wrapped, to emit `ResponseComplete` at their end.

        Parts of the request and response that cannot be recorded are logged, and missing in the events.
        """
        audit = request.audit
        if audit is None:
            if not hasattr(request, "user"):
                await self._reject(request, info, response)
            return
        if audit.panic:
            audit.event.response_status = {
                "metadata": {},
                "status": "Failure",
                "message": f"APIServer panic'd: {audit.panic}",
                "reason": "InternalError",
                "code": 500,
            }
            await _wait(audit.emit("Panic"))
            return
        router = self.router
        is_object = router is not None and router.endpoint(info) is not None
        is_long_running = info.subresource in _LONG_RUNNING or (
            router is not None and router.is_long_running(info)
        )
        try:
            if is_object and not is_long_running and info.verb in _BODY_VERBS:
                audit.set_request_object(request, info)
            audit.set_response(response, info, is_object=is_object)
        except Exception:
            logger.exception("cannot record objects of a request", extra={"audit_id": request.audit_id})
            audit.event.response_status = {"metadata": {}, "code": response.status}
        if not is_long_running:
            await _wait(audit.emit("ResponseComplete"))
            return
        await _wait(audit.emit("ResponseStarted"))
        if not audit.follow(response):
            await _wait(audit.emit("ResponseComplete"))

    async def _reject(self, request: HTTPRequest, info: RequestInfo, response: HTTPResponse) -> None:
        """Emit the event of a request that failed authentication."""
        attributes = AuthorizationAttributes.of(User(""), info)
        config = self.policy.evaluate(attributes, authenticated=False)
        self._levels[LEVEL_NAMES[config.level]] += 1
        if config.level is not AuditLevel.NONE:
            audit = RequestAudit(self, config, new_event(request, info, None, LEVEL_NAMES[config.level]))
            audit.set_response(response, info, is_object=False)
            await _wait(audit.emit("ResponseStarted"))

    def count_streams(self, change: int) -> None:
        """Count responses that have started and not ended."""
        self._streams += change
        if not self._streams:
            self._idle.set()

    def process(
        self, event: AuditEvent, backends: Sequence[AuditBackend] | None = None
    ) -> bool | Awaitable[bool]:
        """Send an event to backends, by default to all; the result is whether all accepted it."""
        self._events += 1
        results = [backend.process([event]) for backend in (self.backends if backends is None else backends)]
        if all(result is True for result in results):
            return True
        return self._wait_for_all(results)

    async def _wait_for_all(self, results: list[bool | Awaitable[bool]]) -> bool:
        accepted = [result if isinstance(result, bool) else await result for result in results]
        return all(accepted)

    def check(self) -> None:
        """Raise `RuntimeError` if requests are rejected because a backend does not accept their events.

        Failures of backends in other modes are logged and counted only: they do not affect requests.
        """
        for backend in self._strict:
            if any(each.is_failing for each in monitors(backend)):
                raise RuntimeError(f"the audit backend {backend.name} does not accept events")

    def collect(self) -> Iterable[Metric]:
        """Return the samples of the metrics."""
        events = CounterMetricFamily(
            "apiserver_audit_event", "Counter of audit events generated and sent to the audit backend."
        )
        events.add_metric((), self._events)
        levels = CounterMetricFamily(
            "apiserver_audit_level",
            "Counter of policy levels for audit events (1 per request).",
            labels=("level",),
        )
        for name, count in self._levels.items():
            levels.add_metric((name,), count)
        rejected = CounterMetricFamily(
            "apiserver_audit_requests_rejected",
            "Counter of apiserver requests rejected due to an error in audit logging backend.",
        )
        rejected.add_metric((), self._rejected)
        errors = CounterMetricFamily(
            "apiserver_audit_error",
            "Number of audit events that a backend did not store.",
            labels=("plugin",),
        )
        for backend in self.backends:
            lost = sum(each.failed_events for each in monitors(backend))
            lost += backend.dropped_events if isinstance(backend, BatchBackend) else 0
            errors.add_metric((backend.name,), lost)
        return [events, levels, rejected, errors]


class RequestAudit:
    """The audit of one request."""

    __slots__ = ("_auditor", "_config", "annotations", "event", "panic")

    def __init__(self, auditor: Auditor, config: AuditConfig, event: AuditEvent) -> None:
        self._auditor = auditor
        self._config = config
        self.event = event
        self.annotations: dict[str, str] = {}
        """Annotations of the event; authorization and admission add theirs."""
        self.panic = ""
        """The exception that ended the request, if it was not an expected error."""

    def emit(self, stage: str, backends: Sequence[AuditBackend] | None = None) -> bool | Awaitable[bool]:
        """Send the event of a stage: to all backends, unless the policy omits it, or to given ones."""
        if backends is None and stage in self._config.omit_stages:
            return True
        event = replace(self.event, stage=stage)
        if event.object_ref is not None:
            event.object_ref = replace(event.object_ref)
        if stage != "RequestReceived":
            event.stage_timestamp = timestamp()
        if self.annotations:
            event.annotations = dict(sorted(self.annotations.items()))
        return self._auditor.process(event, backends)

    def set_impersonated_user(self, user: User, mode: str) -> None:
        """Record the user of an impersonating request, and the constrained mode that allowed it."""
        self.event.impersonated_user = user.to_info()
        if mode:
            self.event.authentication_metadata = {"impersonationConstraint": mode}

    def set_decision(self, decision: Decision, reason: str) -> None:
        """Record the decision of the authorizer."""
        self.annotations[_DECISION] = "allow" if decision is Decision.ALLOW else "forbid"
        self.annotations[_REASON] = reason

    def close_early(self) -> None:
        """Emit the last event of a request whose client has disconnected before the response."""
        self.event.response_status = {
            "metadata": {},
            "status": "Success",
            "message": "Connection closed early",
            "code": 200,
        }
        accepted = self.emit("ResponseComplete")
        if not isinstance(accepted, bool):
            asyncio.ensure_future(accepted)  # noqa: RUF006 - the backend reports its errors

    def set_request_object(self, request: HTTPRequest, info: RequestInfo) -> None:
        """Record the request body as JSON, and what it says about the object."""
        body = request.received_body
        level = self._config.level
        if not body or (level is AuditLevel.METADATA and info.verb not in ("create", "update")):
            return
        media = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        obj = _decode_body(body, media)
        if obj is None:
            return
        if isinstance(obj, dict) and info.verb in ("create", "update"):
            self._set_reference(obj)
        if level < AuditLevel.REQUEST:
            return
        if self._config.omit_managed_fields:
            remove_managed_fields(obj)
            self.event.request_object = _encode_object(obj)
        else:
            is_json = media in ("", JSON) or media.endswith("+json")
            self.event.request_object = _one_line(body) if is_json else _encode_object(obj)

    def _set_reference(self, obj: dict[str, Any]) -> None:
        reference, metadata = self.event.object_ref, obj.get("metadata")
        if reference is None or not isinstance(metadata, dict):
            return
        for field, key in (
            ("namespace", "namespace"),
            ("name", "name"),
            ("uid", "uid"),
            ("resource_version", "resourceVersion"),
        ):
            value = metadata.get(key)
            if isinstance(value, str) and not getattr(reference, field):
                setattr(reference, field, value)

    def set_response(self, response: HTTPResponse, info: RequestInfo, *, is_object: bool) -> None:
        """Record the status of the response, and its body if the level asks for it."""
        status: dict[str, Any] = {"metadata": {}}
        is_complete = response.stream is None and response.websocket is None and response.tunnel is None
        is_failed = response.status >= 400
        wanted = self._config.level is AuditLevel.REQUEST_RESPONSE and (is_object or is_failed)
        if is_complete and (wanted or is_failed or info.verb in ("delete", "deletecollection")):
            media = response.content_type.partition(";")[0].strip().lower()
            body = response.body
            obj = _decode_body(body, media) if media in (JSON, YAML, PROTOBUF) else None
            if isinstance(obj, dict):
                if obj.get("kind") == "Status":
                    status |= {name: obj[name] for name in _STATUS_FIELDS if obj.get(name)}
                if wanted:
                    self._set_response_object(obj, body, media)
        status["code"] = 101 if response.websocket is not None else response.status
        self.event.response_status = status

    def _set_response_object(self, obj: Any, body: bytes, media: str) -> None:
        if self._config.omit_managed_fields:
            remove_managed_fields(obj)
        elif media == JSON:
            self.event.response_object = _one_line(body)
            return
        self.event.response_object = _encode_object(obj)

    def follow(self, response: HTTPResponse) -> bool:
        """Emit `ResponseComplete` when a response that has started ends; false if it is complete."""
        if response.stream is not None:
            response.stream = AuditedStream(response.stream, self)
        elif response.websocket is not None:
            response.websocket = self._follow_websocket(response.websocket)
        elif response.tunnel is not None:
            response.tunnel = self._follow_tunnel(response.tunnel)
        else:
            return False
        self._auditor.count_streams(1)
        return True

    async def complete(self) -> None:
        """Emit `ResponseComplete` of a response that has ended."""
        try:
            await _wait(self.emit("ResponseComplete"))
        finally:
            self._auditor.count_streams(-1)

    def _follow_websocket(self, handler: WebSocketHandler) -> WebSocketHandler:
        return self._follow(handler)

    def _follow_tunnel(self, handler: TunnelHandler) -> TunnelHandler:
        return self._follow(handler)

    def _follow(self, handler: Callable[[Any], Awaitable[None]]) -> Callable[[Any], Awaitable[None]]:
        async def handle(connection: Any) -> None:
            try:
                await handler(connection)
            finally:
                await self.complete()

        return handle


class AuditedStream(WrappedStream):
    """A streamed response that emits `ResponseComplete` when it ends or is closed."""

    def __init__(self, stream: AsyncIterator[bytes], audit: RequestAudit) -> None:
        super().__init__(stream)
        self._audit: RequestAudit | None = audit

    async def __anext__(self) -> bytes:
        try:
            chunk: bytes = await self._stream.__anext__()
        except StopAsyncIteration:
            await self._complete()
            raise
        return chunk

    async def aclose(self) -> None:
        """Close the stream."""
        try:
            await super().aclose()
        finally:
            await self._complete()

    async def _complete(self) -> None:
        audit, self._audit = self._audit, None
        if audit is not None:
            await audit.complete()


def _decode_body(body: bytes, media: str) -> Any:
    """Return a body as plain data, or `None` if it cannot be decoded."""
    try:
        if media == PROTOBUF:
            return builtin_codec().decode(body)
        if "yaml" in media:
            return load_yaml(body)[0]
        return _decode(body)
    except Exception:
        # The request was rejected for the same reason, which its response tells.
        return None


def _one_line(body: bytes) -> msgspec.Raw:
    """Return JSON without line ends, because an event is one line of the log."""
    return msgspec.Raw(msgspec.json.format(body, indent=-1) if b"\n" in body or b"\r" in body else body)


def _encode_object(obj: Any) -> msgspec.Raw:
    try:
        return msgspec.Raw(msgspec.json.encode(obj))
    except (ValueError, TypeError, RecursionError, NotImplementedError):
        return msgspec.Raw(msgspec.json.encode(encodable(obj)))


def remove_managed_fields(obj: Any) -> None:
    """Remove `managedFields` from an object, from the items of a list and from the rows of a Table."""
    pending = [obj]
    while pending:
        one = pending.pop()
        if not isinstance(one, dict):
            continue
        metadata, items, rows = one.get("metadata"), one.get("items"), one.get("rows")
        if isinstance(metadata, dict):
            metadata.pop("managedFields", None)
        if isinstance(items, list):
            pending += items
        if one.get("kind") == "Table" and isinstance(rows, list):
            pending += [row.get("object") for row in rows if isinstance(row, dict)]


async def _wait(accepted: bool | Awaitable[bool]) -> None:
    """Wait until blocking backends have stored an event. The response is sent in any case."""
    if not isinstance(accepted, bool):
        await accepted
