"""`ReplayHistory`: what happens in a replay: changes with their client, reconciles, and the queues.

It is a listener of the dispatcher of the control plane, and a subscriber of the spans of the operator. Times
are seconds since the start of the recording; what the operator does before, when it starts, is negative.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.explore.state import is_ignored
from kubewright.manager.observability.trace_feed import sample_queues
from kubewright.recording.recording import Object, RecordedKey
from kubewright.tracing.spans import ReconcileSpan, Span

from .attribution import changed_paths, is_of, writers
from .inputs import Actor

if TYPE_CHECKING:
    from kubewright.apiserver.watch.cache import WatchCache
    from kubewright.apiserver.watch.event import WatchCacheEvent
    from kubewright.explore.state import RequestRecord
    from kubewright.manager.manager import Manager

WINDOW = 30.0
MAX_RECONCILES = 100
"""Reconciles of a request in `WINDOW` seconds, without an input, after which a replay ends: a hot loop."""


@dataclass(slots=True, kw_only=True, weakref_slot=True)
class ReplayedChange:
    """A change of an object in a replay."""

    at: float
    key: RecordedKey
    before: Object | None = field(repr=False)
    after: Object | None = field(repr=False)
    actor: Actor
    queues: list[dict[str, Any]] = field(default_factory=list, repr=False)

    @property
    def type(self) -> str:
        """ADDED, MODIFIED or DELETED."""
        return "DELETED" if self.after is None else "ADDED" if self.before is None else "MODIFIED"

    @property
    def paths(self) -> list[str]:
        """The fields that an update changed."""
        if self.before is None or self.after is None:
            return []
        return sorted(".".join(each) for each in changed_paths(self.before, self.after))


@dataclass(slots=True)
class ReplayedReconcile:
    """A reconcile in a replay."""

    at: float
    span: dict[str, Any] = field(repr=False)
    queues: list[dict[str, Any]] = field(default_factory=list, repr=False)


class ReplayHistory:
    """Records a replay."""

    def __init__(self, clock: Callable[[], float], epoch: float, managers: Sequence[str]) -> None:
        """`clock` returns virtual seconds; `epoch` is the time of the start of the recording."""
        self.base = 0.0
        """Virtual seconds at the start of the recording."""
        self.changes: list[ReplayedChange] = []
        self.reconciles: list[ReplayedReconcile] = []
        self.initial: dict[RecordedKey, Object] = {}
        """The objects before the operator started."""
        self.current: dict[RecordedKey, Object] = {}
        self.incarnations: dict[RecordedKey, list[str]] = {}
        """UIDs of the objects with a key, in the order of their creation."""
        self.on_created: Callable[[RecordedKey], None] | None = None
        self.hot: tuple[str, str] | None = None
        """Controller and request that are reconciled again and again."""
        self.input_revisions: set[int] = set()
        """Revisions of changes that are inputs."""
        self.over = asyncio.Event()
        """Set when a hot loop was found, which never becomes idle."""
        self._clock = clock
        self._epoch = epoch
        self._managers = managers
        self._manager: Manager | None = None
        self._recent: dict[tuple[str, str], deque[float]] = {}

    @property
    def now(self) -> float:
        """Seconds since the start of the recording."""
        return round(self._clock() - self.base, 4)

    def follow(self, manager: Manager) -> None:
        """Record the reconciles of an operator."""
        self._manager = manager
        manager.spans.subscribe(self)

    def load(self, objects: Sequence[Object]) -> None:
        """Record the objects that exist before the operator starts."""
        for each in objects:
            key = RecordedKey.of(each)
            self.initial[key] = self.current[key] = each
            self.incarnations[key] = [_uid(each)]

    def _queues(self) -> list[dict[str, Any]]:
        if self._manager is None:
            return []
        names = ("name", "depth", "waiting", "active", "failing")
        return [
            {name: each[name] for name in names} for each in sample_queues([self._manager])["controllers"]
        ]

    # Listener of the dispatcher

    def on_resource_added(self, cache: WatchCache) -> None:
        """Do nothing."""

    def on_resource_removed(self, cache: WatchCache) -> None:
        """Do nothing."""

    def on_watch_lost(self) -> None:
        """Do nothing: the storage is in this process."""

    def on_watch_restarted(self) -> None:
        """Do nothing."""

    def on_event(self, cache: WatchCache, event: WatchCacheEvent) -> None:
        """Record a change."""
        change = event.event
        if is_ignored(change.key):
            return
        before = _decode(change.previous.value) if change.previous is not None else None
        after = _decode(change.value) if change.value is not None else None
        known = after or before
        assert known is not None
        key = RecordedKey.of(known)
        if change.revision in self.input_revisions:
            actor: Actor = "input"
        else:
            actor = "operator" if after is not None and self._is_operator(before, after) else "control plane"
        self.changes.append(
            ReplayedChange(
                at=self.now, key=key, before=before, after=after, actor=actor, queues=self._queues()
            )
        )
        if after is None:
            self.current.pop(key, None)
            return
        self.current[key] = after
        if before is None:
            self.incarnations.setdefault(key, []).append(_uid(after))
            if self.on_created is not None:
                self.on_created(key)

    def _is_operator(self, before: Object | None, after: Object) -> bool:
        return is_of(writers(before, after), self._managers)

    def attribute_requests(self, requests: Sequence[RequestRecord]) -> None:
        """Find the changes that the operator has requested, and that managed fields do not name.

        Deletions have none, and objects without managed fields get none, as in kube-apiserver.
        """
        written = [
            (each.time - self.base, each.group, each.namespace, each.name)
            for each in requests
            if each.actor == "operator" and each.is_write and each.is_applied
        ]
        for change in self.changes:
            key = change.key
            if change.actor == "control plane":
                wanted = [key.group, key.namespace, key.name]
                if any(-0.01 < change.at - at < 0.1 and rest == wanted for at, *rest in written):
                    change.actor = "operator"

    def end_run(self) -> None:
        """End the replay early."""
        self.over.set()

    # Subscriber of spans

    def start(self, span: Span) -> None:
        """Do nothing: only complete spans are recorded."""

    def end(self, span: Span) -> None:
        """Record a reconcile."""
        if not isinstance(span, ReconcileSpan):
            return
        now = self.now
        request = (span.controller, span.request)
        recent = self._recent.setdefault(request, deque())
        recent.append(now)
        while recent[0] < now - WINDOW:
            recent.popleft()
        if len(recent) > MAX_RECONCILES:
            self.hot = self.hot or request
            self.end_run()
            return  # the same again and again
        at = round(span.started - self._epoch, 4)
        self.reconciles.append(ReplayedReconcile(at, span.to_dict(), self._queues()))

    def expect_input(self, revision: int) -> None:
        """Report the revision of an input: what the operator does after it may be because of it."""
        self.input_revisions.add(revision)
        for recent in self._recent.values():
            recent.clear()

    def reconcile_rate(self, request: tuple[str, str]) -> float:
        """Return the reconciles of a request per second, in the last `WINDOW` seconds."""
        now = self.now
        return sum(1 for each in self._recent.get(request, ()) if each > now - WINDOW) / WINDOW

    @property
    def requests(self) -> list[tuple[str, str]]:
        """Controllers and requests that were reconciled."""
        return list(self._recent)


_decode = msgspec.json.Decoder(dict[str, Any]).decode


def _uid(obj: Object) -> str:
    return str((obj.get("metadata") or {}).get("uid") or "")
