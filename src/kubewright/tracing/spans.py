"""Spans of a process: reconciles with their API calls, and webhook calls.

A span is created when the work starts, completed when it ends, and belongs to its subscribers from then on.
Its plain data (`to_dict`) is computed only for those that ask for it: the changed fields of a cause and the
body of a review are decoded there.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, Final, Literal

from kubewright.api.codec import DecodeError, loads
from kubewright.api.redaction import redact_secret

MAX_CALLS: Final = 100
"""Reads, and writes, of one reconcile that are stored."""
MAX_EVENTS: Final = 20
MAX_TEXT: Final = 2000
MAX_TRACEBACK: Final = 10_000
MAX_BODY: Final = 64 * 1024
"""Size of a review whose objects are stored."""
_READ_VERBS: Final = ("get", "list", "watch")

WebhookType = Literal["mutating", "validating", "conversion", "other"]


class Span:
    """The common part of all spans."""

    __slots__ = ("clock", "context", "duration", "error", "exception", "started", "traceback")

    def __init__(self) -> None:
        self.started = time.time()
        """Seconds since 1970."""
        self.clock = time.perf_counter()
        self.duration = 0.0
        self.error = ""
        self.traceback = ""
        self.exception: BaseException | None = None
        """Available to subscribers while the span ends."""
        self.context: Any = None
        """State of an exporter between start and end."""

    def finish(self, exception: BaseException | None = None) -> None:
        """Set the duration and the error."""
        self.duration = time.perf_counter() - self.clock
        self.exception = exception
        if exception is not None and not self.error:
            self.error = _text(exception)


class CallSpan(Span):
    """A read or write of an API object: a request, or a read from the cache."""

    __slots__ = (
        "cached",
        "headers",
        "method",
        "name",
        "namespace",
        "offset",
        "path",
        "reconcile",
        "resource",
        "status",
        "subresource",
        "verb",
    )

    def __init__(
        self,
        verb: str,
        resource: str,
        *,
        subresource: str = "",
        namespace: str = "",
        name: str = "",
        cached: bool = False,
        method: str = "",
        path: str = "",
        headers: MutableMapping[str, str] | None = None,
        reconcile: ReconcileSpan | None = None,
    ) -> None:
        super().__init__()
        self.verb = verb
        self.resource = resource
        self.subresource = subresource
        self.namespace = namespace
        self.name = name
        self.cached = cached
        self.method = method
        self.path = path
        self.headers = headers
        """Headers of the request; an exporter can add some when the span starts."""
        self.reconcile = reconcile
        """The reconcile that sent it."""
        self.status = 0
        """Status code of the response; 0 without one."""
        self.offset = self.clock - reconcile.clock if reconcile is not None else 0.0
        if reconcile is not None:
            calls = reconcile.reads if verb in _READ_VERBS else reconcile.writes
            if len(calls) < MAX_CALLS:
                calls.append(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "verb": self.verb,
            "resource": self.resource,
            "subresource": self.subresource,
            "namespace": self.namespace,
            "name": self.name,
            "cached": self.cached,
            "status": self.status,
            "error": self.error,
            "offset": self.offset,
            "duration": self.duration,
        }


class ReconcileSpan(Span):
    """One call of a reconciler."""

    __slots__ = (
        "causes",
        "controller",
        "events",
        "id",
        "kind",
        "name",
        "namespace",
        "priority",
        "reads",
        "request",
        "requeue_after",
        "result",
        "wait",
        "writes",
    )

    def __init__(
        self,
        id: str,
        controller: str,
        request: Any,
        *,
        kind: tuple[str, str, str] = ("", "", ""),
        causes: Iterable[Any] = (),
        wait: float = 0.0,
        priority: int = 0,
    ) -> None:
        super().__init__()
        self.id = id
        self.controller = controller
        self.kind = kind
        """Group, version and kind of the object; the kind alone if the others are unknown."""
        self.request = str(request)
        self.namespace = str(getattr(request, "namespace", ""))
        self.name = str(getattr(request, "name", ""))
        self.causes = causes
        self.wait = wait
        """Seconds in the queue, from when the request was due."""
        self.priority = priority
        self.reads: list[CallSpan] = []
        self.writes: list[CallSpan] = []
        self.events: list[dict[str, Any]] = []
        self.result = ""
        self.requeue_after: float | None = None

    def add_event(self, event: dict[str, Any]) -> None:
        """Add an event that the reconcile recorded."""
        if len(self.events) < MAX_EVENTS:
            self.events.append(event)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        group, version, kind = self.kind
        return {
            "id": self.id,
            "controller": self.controller,
            "group": group,
            "version": version,
            "kind": kind,
            "namespace": self.namespace,
            "name": self.name,
            "request": self.request,
            "queued": (self.started - self.wait) * 1000,
            "started": self.started * 1000,
            "ended": (self.started + self.duration) * 1000,
            "wait": self.wait,
            "duration": self.duration,
            "priority": self.priority,
            "causes": [_cause(each) for each in self.causes],
            "reads": [each.to_dict() for each in self.reads],
            "writes": [each.to_dict() for each in self.writes],
            "result": self.result,
            "requeueAfter": self.requeue_after,
            "error": self.error[:MAX_TEXT],
            "traceback": self.traceback[-MAX_TRACEBACK:],
            "events": self.events,
        }


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
            "patch": _patch(response) if complete else [],
            "object": _object(first) if complete else None,
            "oldObject": _object(request.get("oldObject")) if complete else None,
            "response": _without_objects(response),
            "error": self.error[:MAX_TEXT],
            "traceback": self.traceback[-MAX_TRACEBACK:],
        }


def _cause(cause: Any) -> dict[str, Any]:
    key = cause.object
    return {
        "trigger": cause.trigger,
        "kind": cause.kind,
        "namespace": key.namespace if key is not None else "",
        "name": key.name if key is not None else "",
        "operation": cause.operation,
        "paths": list(cause.paths),
        "text": str(cause),
    }


def _text(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception as failure:
        return f"{type(error).__name__}: <str() raised {type(failure).__name__}>"


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


def _without_objects(response: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in response.items() if name not in ("patch", "convertedObjects")}
