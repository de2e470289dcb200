"""`ObjectEvidence`: the last failure and the last success of every reconciled object, and how often it
failed.

Spans are stored per controller and displaced by newer ones, so that a busy controller would displace the
failure of an object that is retried once in some minutes. What is stored here is bounded by the number of
objects instead: the objects that were reconciled successfully longest ago are forgotten first, those that
fail last. Spans are stored encoded, because most of them are never shown.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from kubewright.api.encoding.codec import loads

MAX_OBJECTS: Final = 10_000
MAX_BYTES: Final = 24 << 20
FAILED_RESULTS: Final = frozenset(("error", "terminal", "timeout", "panic"))
FAILING_IN_ROW: Final = 2
"""Failures in a row from which an object counts as failed: one can be a conflict that the retry resolves."""


class ReconciledObject(NamedTuple):
    """What identifies an object and the controller that reconciles it."""

    controller: str
    group: str
    kind: str
    namespace: str
    name: str


FailureListener = Callable[[ReconciledObject, str], None]
"""Called with an object and the error, or an empty text when it no longer fails."""


def is_failure(span: dict[str, Any]) -> bool:
    """Whether a reconcile failed."""
    return bool(span["error"]) or span["result"] in FAILED_RESULTS


class _Evidence:
    """What is known of one object."""

    __slots__ = (
        "errors",
        "failed_at",
        "failing_since",
        "failure",
        "failure_id",
        "first",
        "in_row",
        "last",
        "message",
        "next_retry",
        "reconciles",
        "result",
        "succeeded_at",
        "success",
        "version",
    )

    def __init__(self, first: float) -> None:
        self.first = first
        self.last = first
        self.version = ""
        self.reconciles = 0
        self.errors = 0
        self.in_row = 0
        self.failing_since: float | None = None
        self.next_retry: float | None = None
        self.message = ""
        self.result = ""
        self.failure = b""
        self.failure_id = ""
        self.failed_at: float | None = None
        self.success = b""
        self.succeeded_at: float | None = None

    @property
    def size(self) -> int:
        return len(self.failure) + len(self.success)

    @property
    def counts_as_failed(self) -> bool:
        return self.in_row >= FAILING_IN_ROW or (self.in_row > 0 and self.result == "terminal")


class ObjectEvidence:
    """Evidence by object and controller."""

    def __init__(self, *, max_objects: int = MAX_OBJECTS, max_bytes: int = MAX_BYTES) -> None:
        self._max_objects = max_objects
        self._max_bytes = max_bytes
        self._healthy: OrderedDict[ReconciledObject, _Evidence] = OrderedDict()
        self._failing: OrderedDict[ReconciledObject, _Evidence] = OrderedDict()
        self._size = 0
        self._listeners: list[FailureListener] = []
        self.forgotten = 0
        """Number of objects that were dropped because there was no space."""

    def __len__(self) -> int:
        return len(self._healthy) + len(self._failing)

    def add_listener(self, listener: FailureListener) -> None:
        """Call a function when an object begins or ceases to count as failed."""
        self._listeners.append(listener)

    def add(self, span: dict[str, Any], encoded: bytes) -> None:
        """Add a reconcile."""
        key = ReconciledObject(
            span["controller"], span["group"], span["kind"], span["namespace"], span["name"]
        )
        found = self._failing.pop(key, None) or self._healthy.pop(key, None) or _Evidence(span["started"])
        self._size -= found.size
        before = found.message if found.counts_as_failed else ""
        found.last = span["ended"]
        found.version = span["version"]
        found.reconciles += 1
        found.result = span["result"]
        delay = span["requeueAfter"]
        found.next_retry = None if delay is None else span["ended"] + delay * 1000
        if is_failure(span):
            found.errors += 1
            found.in_row += 1
            found.message = span["error"]
            found.failure, found.failure_id, found.failed_at = encoded, span["id"], span["ended"]
            if found.failing_since is None:
                found.failing_since = span["started"]
            self._failing[key] = found
        else:
            found.in_row = 0
            found.failing_since = None
            found.success, found.succeeded_at = encoded, span["ended"]
            self._healthy[key] = found
        self._size += found.size
        after = found.message if found.counts_as_failed else ""
        if before != after:
            self._report(key, after)
        self._limit()

    def _limit(self) -> None:
        while len(self) > self._max_objects or (self._size > self._max_bytes and len(self) > 1):
            key, dropped = (self._healthy or self._failing).popitem(last=False)
            self._size -= dropped.size
            self.forgotten += 1
            if dropped.counts_as_failed:
                self._report(key, "")

    def _report(self, key: ReconciledObject, message: str) -> None:
        for listener in self._listeners:
            listener(key, message)

    def spans(self, matches: Callable[[ReconciledObject], bool], *, errors: bool) -> Iterator[dict[str, Any]]:
        """Return the last failures, and unless `errors` the last successes, of the objects that match."""
        for key, found in self._entries():
            if matches(key):
                for encoded in (found.failure,) if errors else (found.failure, found.success):
                    if encoded:
                        yield loads(encoded)

    def summaries(self, matches: Callable[[ReconciledObject], bool], limit: int) -> list[dict[str, Any]]:
        """Return what is known of the objects that match; those that fail come first, the newest first."""
        chosen: list[dict[str, Any]] = []
        for key, found in self._entries():
            if len(chosen) == limit:
                break
            if matches(key):
                chosen.append(_describe(key, found))
        return chosen

    def failing(self) -> list[dict[str, Any]]:
        """Return the objects whose last reconcile failed, the newest failure first."""
        return [_describe(key, found) for key, found in reversed(self._failing.items())]

    def failed(self) -> Iterable[tuple[ReconciledObject, str]]:
        """Return the objects that count as failed, with their errors."""
        return [(key, each.message) for key, each in self._failing.items() if each.counts_as_failed]

    def _entries(self) -> Iterator[tuple[ReconciledObject, _Evidence]]:
        yield from reversed(self._failing.items())
        yield from reversed(self._healthy.items())


def _describe(key: ReconciledObject, found: _Evidence) -> dict[str, Any]:
    return {
        **key._asdict(),
        "version": found.version,
        "reconciles": found.reconciles,
        "errors": found.errors,
        "failuresInRow": found.in_row,
        "failing": found.in_row > 0,
        "failingSince": found.failing_since,
        "nextRetry": found.next_retry,
        "error": found.message if found.in_row else "",
        "first": found.first,
        "last": found.last,
        "lastFailure": found.failed_at,
        "lastFailureId": found.failure_id,
        "lastSuccess": found.succeeded_at,
    }
