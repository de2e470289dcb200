"""Spans of admission: calls of webhooks, in their server or in the API server, and evaluations of policies.

Both have the same plain data (`to_dict`); reviews are decoded there. Values of Secrets are replaced.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final, Literal

from kubewright.api.encoding.codec import DecodeError, loads
from kubewright.api.redaction import REDACTED, is_secret, redact_secret

from .spans import MAX_TEXT, MAX_TRACEBACK, Span

MAX_BODY: Final = 64 * 1024
"""Size of a review whose objects are stored."""

_PUBLIC_PATHS: Final = ("/metadata/labels", "/metadata/finalizers", "/metadata/ownerReferences", "/type")

WebhookType = Literal["mutating", "validating", "conversion", "other"]


class WebhookSpan(Span):
    """One call of a webhook."""

    __slots__ = ("body", "code", "headers", "id", "path", "response", "type")

    def __init__(
        self, id: str, path: str, *, type: WebhookType, headers: Mapping[str, str], body: bytes
    ) -> None:
        super().__init__()
        self.id = id
        self.path = path
        self.type = type
        self.headers = headers
        self.body = body
        self.response = b""
        self.code = 200

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; objects of a large review are left out."""
        request = _decode(self.body).get("request") or {}
        response = _decode(self.response).get("response") or {}
        kind = request.get("kind") or {}
        objects = request.get("objects")
        first = objects[0] if isinstance(objects, list) and objects else request.get("object")
        meta = (first.get("metadata") or {}) if isinstance(first, dict) else {}
        group, slash, version = str((first or {}).get("apiVersion") or "").rpartition("/")
        status = response.get("status") or response.get("result") or {}
        complete = len(self.body) <= MAX_BODY
        return {
            "id": self.id,
            "path": self.path,
            "type": self.type,
            "operation": request.get("operation") or ("CONVERT" if self.type == "conversion" else ""),
            "group": kind.get("group") or (group if slash else ""),
            "version": kind.get("version") or version,
            "kind": kind.get("kind") or (first or {}).get("kind") or "",
            "namespace": request.get("namespace") or meta.get("namespace") or "",
            "name": request.get("name") or meta.get("name") or meta.get("generateName") or "",
            "user": (request.get("userInfo") or {}).get("username") or "",
            "dryRun": bool(request.get("dryRun")),
            "started": self.started * 1000,
            "duration": self.duration,
            "code": self.code,
            "allowed": bool(response.get("allowed", self.code == 200)),
            "message": str(status.get("message") or self.error)[:MAX_TEXT],
            "warnings": response.get("warnings") or [],
            "patch": _redact_patch(_patch(response), first) if complete else [],
            "object": _object(first) if complete else None,
            "oldObject": _object(request.get("oldObject")) if complete else None,
            "response": _without_objects(response),
            "error": self.error[:MAX_TEXT],
            "traceback": self.traceback[-MAX_TRACEBACK:],
        }


class PolicySpan(Span):
    """One evaluation of a ValidatingAdmissionPolicy or MutatingAdmissionPolicy with one binding."""

    __slots__ = (
        "allowed",
        "attributes",
        "id",
        "message",
        "object",
        "old_object",
        "patch",
        "path",
        "response",
        "user",
    )

    def __init__(
        self,
        id: str,
        path: str,
        *,
        attributes: dict[str, Any],
        user: str,
        object: dict[str, Any] | None,
        old_object: dict[str, Any] | None,
        response: dict[str, Any],
    ) -> None:
        """`path`: kind and name of the policy. `attributes`: operation, kind and name of the request."""
        super().__init__()
        self.id = id
        self.path = path
        self.attributes = attributes
        self.user = user
        self.object = object
        self.old_object = old_object
        self.response = response
        """The binding, its actions and its parameter."""
        self.allowed = True
        self.message = ""
        self.patch: list[Any] = []

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "id": self.id,
            "path": self.path,
            "type": "policy",
            **self.attributes,
            "user": self.user,
            "started": self.started * 1000,
            "duration": self.duration,
            "code": 200,
            "allowed": self.allowed,
            "message": self.message[:MAX_TEXT],
            "warnings": [],
            "patch": _redact_patch(self.patch, self.object),
            "object": _object(self.object),
            "oldObject": _object(self.old_object),
            "response": self.response,
            "error": self.error[:MAX_TEXT],
            "traceback": "",
        }


def _decode(body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    try:
        data = loads(body)
    except DecodeError:
        return {}
    return data if isinstance(data, dict) else {}


def _object(obj: Any) -> dict[str, Any] | None:
    if not isinstance(obj, dict):
        return None
    meta = obj.get("metadata")
    if isinstance(meta, dict) and "managedFields" in meta:
        obj = {**obj, "metadata": {name: value for name, value in meta.items() if name != "managedFields"}}
    return redact_secret(obj)


def _patch(response: dict[str, Any]) -> list[Any]:
    text = response.get("patch")
    if not isinstance(text, str):
        return []
    try:
        operations = loads(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return []
    return operations if isinstance(operations, list) else []


def _redact_patch(patch: list[Any], obj: Any) -> list[Any]:
    """Replace the values of a patch of a Secret, except those of its other metadata."""
    if not isinstance(obj, dict) or not is_secret(obj):
        return patch
    return [
        each
        if not isinstance(each, dict) or str(each.get("path")).startswith(_PUBLIC_PATHS)
        else {**each, "value": REDACTED}
        for each in patch
    ]


def _without_objects(response: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in response.items() if name not in ("patch", "convertedObjects")}
