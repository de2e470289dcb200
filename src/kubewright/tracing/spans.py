"""Spans of reconciles and of API calls.

A span is created when the work starts, completed when it ends, and belongs to its subscribers from then on.
Its plain data (`to_dict`) is computed only for those that ask for it: the changed fields of a cause are
decoded there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, MutableMapping
from contextvars import ContextVar
from typing import Any, Final

MAX_CALLS: Final = 100
"""Reads, and writes, of one reconcile that are stored."""
MAX_EVENTS: Final = 20
MAX_TEXT: Final = 2000
MAX_TRACEBACK: Final = 10_000
_READ_VERBS: Final = ("get", "list", "watch")


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


current_span: ContextVar[ReconcileSpan | None] = ContextVar("kubewright_span", default=None)
"""The span of the reconcile that the current task runs, if it has subscribers."""


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
