"""`ChangeLog`: the last changes of informers, as references to what their stores have anyway.

Appending a change costs a tuple: nothing is copied, decoded or encoded. An entry has the version before, so
the state at the start of the log is the current state without its changes, and old versions stay in memory
only as long as the log has them. It is bounded by age, number and bytes.

Whether the process itself has made a change is known when the response to its request was received, which can
be after the watch event; entries are asked `SETTLE_SECONDS` later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kubewright.api.values.times import wall_time

from .recording import RecordedChange

if TYPE_CHECKING:
    from kubewright.api.gvk import GroupVersionKind
    from kubewright.cache.informers.informer import Informer
    from kubewright.cache.stores.store import CacheEntry, ObjectChange, ObjectKey

SETTLE_SECONDS = 2.0
Object = dict[str, Any]
StoredObject = tuple["GroupVersionKind", "CacheEntry"]


class LogEntry:
    """A change of one object."""

    __slots__ = ("change", "informer", "is_own", "time")

    def __init__(self, time: float, informer: Informer, change: ObjectChange) -> None:
        self.time = time
        self.informer = informer
        self.change = change
        self.is_own: bool | None = None

    @property
    def size(self) -> int:
        """Bytes that only the log has: the version before."""
        old = self.change.old
        return old.size if old is not None else 0

    def check_owner(self) -> None:
        """Find out whether this process has made the change."""
        new = self.change.new
        self.is_own = new is not None and new.revision in self.informer.own_writes.revisions


class ChangeLog:
    """The changes of the last `seconds`."""

    def __init__(
        self,
        *,
        seconds: float = float("inf"),
        max_changes: int = 100_000,
        max_bytes: int = 64 << 20,
        clock: Callable[[], float] = wall_time,
    ) -> None:
        self.seconds = seconds
        self.max_changes = max_changes
        self.max_bytes = max_bytes
        self.bytes = 0
        self.clock = clock
        self.started = clock()
        """Time of the oldest state that is known."""
        self._entries: deque[LogEntry] = deque()
        self._unsettled: deque[LogEntry] = deque()
        self._informers: dict[GroupVersionKind, Informer] = {}
        self._unsubscribe: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def follow(self, informer: Informer) -> None:
        """Record the changes of an informer from now on."""
        if informer.gvk in self._informers:
            return
        self._informers[informer.gvk] = informer
        is_joining = True

        def handle(change: ObjectChange) -> None:
            # Existing objects are part of the state at the start, and resyncs change nothing.
            if change.old is change.new or is_joining or (change.initial and not informer.has_synced):
                return
            self._append(LogEntry(self.clock(), informer, change))

        informer.add_handler(handle, resync=0)
        is_joining = False
        self._unsubscribe.append(lambda: informer.remove_handler(handle))

    def close(self) -> None:
        """Record nothing any more."""
        for each in self._unsubscribe:
            each()
        self._unsubscribe.clear()

    def _append(self, entry: LogEntry) -> None:
        self._entries.append(entry)
        self._unsettled.append(entry)
        self.bytes += entry.size
        while self._unsettled[0].time < entry.time - SETTLE_SECONDS:
            self._unsettled.popleft().check_owner()
        if (
            self.bytes > self.max_bytes
            or len(self._entries) > self.max_changes
            or self._entries[0].time < entry.time - self.seconds
        ):
            self._forget(entry.time - self.seconds)

    def _forget(self, oldest: float) -> None:
        entries = self._entries
        while entries and (
            entries[0].time < oldest or self.bytes > self.max_bytes or len(entries) > self.max_changes
        ):
            entry = entries.popleft()
            self.bytes -= entry.size
            self.started = entry.time
            if self._unsettled and self._unsettled[0] is entry:
                self._unsettled.popleft()
        self.started = max(self.started, oldest)

    # Contents

    def objects(self) -> list[StoredObject]:
        """Return the objects at the start of the log, not decoded."""
        before: dict[tuple[GroupVersionKind, ObjectKey], CacheEntry | None] = {}
        for entry in self._entries:
            before.setdefault((entry.informer.gvk, entry.change.key), entry.change.old)
        found = [
            (gvk, current)
            for gvk, informer in self._informers.items()
            for key, current in informer.store.entries()
            if (gvk, key) not in before
        ]
        found += [(gvk, old) for (gvk, _), old in before.items() if old is not None]
        return found

    def entries(self, *, drain: bool = False) -> list[LogEntry]:
        """Return the changes, not decoded; `drain`: they are removed from the log."""
        found = list(self._entries)
        for entry in found:
            if entry.is_own is None:
                entry.check_owner()
        if drain:
            self._entries.clear()
            self._unsettled.clear()
            self.bytes = 0
        return found


def decode_changes(entries: Iterable[LogEntry], started: float) -> Iterator[RecordedChange]:
    """Decode changes; their times become relative to `started`. Can run in another thread."""
    for entry in entries:
        change = entry.change
        yield RecordedChange(
            at=round(max(entry.time - started, 0.0), 4),
            type=change.type,  # type: ignore[arg-type]
            object=typed(change.entry.object, entry.informer.gvk),
            own=bool(entry.is_own),
        )


def decode_objects(objects: Iterable[StoredObject]) -> Iterator[Object]:
    """Decode objects. Can run in another thread."""
    for gvk, entry in objects:
        yield typed(entry.object, gvk)


def typed(obj: Object, gvk: GroupVersionKind) -> Object:
    """Return an object with its type, which items of lists do not have."""
    if obj.get("kind") == gvk.kind and obj.get("apiVersion"):
        return obj
    return {**obj, "apiVersion": gvk.api_version, "kind": gvk.kind}


def mark_own_deletions(
    changes: Iterable[RecordedChange], spans: Iterable[dict[str, Any]], start: float
) -> None:
    """Mark deletions that a reconcile has requested; `start` is the time of the recording."""
    requested: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for span in spans:
        for write in span.get("writes") or ():
            if write["verb"] in ("delete", "deletecollection") and 200 <= write["status"] < 300:
                at = span["started"] / 1000 - start + write["offset"]
                requested.setdefault((write["namespace"], write["name"]), []).append((write["resource"], at))
    for change in changes:
        if change.type != "DELETED" or change.own:
            continue
        key = change.key
        for resource, at in requested.get((key.namespace, key.name), ()):
            plural, _, group = resource.partition(".")
            is_kind = group == key.group and plural.startswith(key.kind.lower().removesuffix("y"))
            if is_kind and at - 0.5 <= change.at <= at + 60.0:
                change.own = True
