"""Detection of reconciles that trigger themselves: a write in each reconcile, or a very short requeue.

A reconcile that writes a new value each time (`status.count += 1`) causes the event that queues the next one.
`HotLoops` counts the reconciles of a request in windows of ten seconds whose causes are requeues or writes
of reconciles of the same request. The first request above the limit is reported, with the changed fields. In
development such a request is then reconciled at most once a second, until something else changes its object.

A reconcile that makes progress is not a loop: another change starts it, it writes a status, the event of
which starts one more reconcile, and that one writes nothing. So a reconcile with another cause offsets one
that the request triggered itself. Writes of other controllers of the process are other causes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from .causes import Causes, describe_causes

R = TypeVar("R", bound=Hashable)

WINDOW_SECONDS = 10.0
LIMIT = 50
"""Reconciles of one request in a window, from which on it is reported."""
REPEAT_SECONDS = 300.0
"""A request is reported again after this time."""
SLOW_SECONDS = 1.0
"""In development, the interval of reconciles of a reported request."""
_MAX_REPORTED = 1024


class HotLoop(NamedTuple):
    """A reconcile that triggers itself."""

    reconciles: int
    """How often the request triggered itself."""
    seconds: float
    """Since the window began."""
    causes: str
    hint: str


class HotLoops(Generic[R]):
    """Counts the reconciles of one controller by request."""

    def __init__(self, now: Callable[[], float], controller: str, *, slows_down: bool = False) -> None:
        """`slows_down`: delay reported requests, for development."""
        self._now = now
        self._controller = controller
        self._slows_down = slows_down
        self._counts: dict[R, int] = {}
        self._began = now()
        self._reported: dict[R, float] = {}
        self._slowed: dict[R, float] = {}
        """The time before which a slowed request is not reconciled again."""

    def count(self, request: R, causes: Causes) -> HotLoop | None:
        """Count a reconcile; return what to report, if it is one too many."""
        now = self._now()
        if now - self._began >= WINDOW_SECONDS:
            self._counts.clear()
            self._began = now
        known = self._counts.get(request, 0)
        if not self._triggered_itself(request, causes):
            if known:
                self._counts[request] = known - 1
            return None
        count = self._counts[request] = known + 1
        if count < LIMIT:
            return None
        if self._slows_down:
            self._slowed.setdefault(request, now + SLOW_SECONDS)
        if now - self._reported.get(request, -REPEAT_SECONDS) < REPEAT_SECONDS:
            return None
        if len(self._reported) >= _MAX_REPORTED:
            self._reported.clear()
        self._reported[request] = now
        return HotLoop(count, round(now - self._began, 1), describe_causes(causes), _hint(causes))

    def delay(self, request: R, causes: Causes) -> float:
        """Seconds to wait before a request is reconciled; 0 unless it was slowed down."""
        due = self._slowed.get(request)
        if due is None:
            return 0.0
        now = self._now()
        if not self._triggered_itself(request, causes) or now - due >= WINDOW_SECONDS:
            del self._slowed[request]
            return 0.0
        if now < due:
            return due - now
        self._slowed[request] = now + SLOW_SECONDS
        return 0.0

    def _triggered_itself(self, request: R, causes: Causes) -> bool:
        writer = (self._controller, request)
        return bool(causes) and all(
            cause.source == "requeue" or (cause.change is not None and cause.writer == writer)
            for cause in causes
        )


def _hint(causes: Causes) -> str:
    written = [cause for cause in causes if cause.trigger == "own write"]
    if not written:
        return "return a longer requeue_after, or none and watch what the reconcile waits for"
    fields = dict.fromkeys(path for cause in written for path in cause.paths)
    names = ", ".join(fields) or "an object"
    return f"each reconcile writes {names}; write it only if its desired value has changed"
