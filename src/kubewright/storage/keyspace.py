"""The state of a store in memory: current values, recent history, and who watches what.

Everything here is synchronous and runs in one event-loop step, so there are no locks. `apply` takes changes
in revision order; what it has taken is visible to every reader and queued for every interested watch before
it returns. History is a log of events. An event carries the value that it replaced, so the state at an older
revision is the current state with the later events undone, and a write costs nothing for history but one
append.

A watch has a queue of its own. A reader that falls too far behind loses the queue, not its place: it goes on
from the log, and gets `Compacted` only when the log no longer reaches back that far.
"""

# ruff: noqa: D102 (the contract says what the methods of a watch do)

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from operator import attrgetter

from .contract import Compacted, FutureRevision, KeyValue, Page, StorageEvent, StorageWatch
from .sorted_keys import SortedKeys, prefix_end

QUEUE_LIMIT = 10_000
"""Events queued for one watch before it is sent back to read the log."""

_revision_of = attrgetter("revision")


@dataclass(frozen=True, slots=True)
class History:
    """How much history is kept without anyone asking for a compaction.

    An event is forgotten once it is older than `seconds` and more than `min_events` came after it, or
    earlier when the log outgrows `max_events` or the values that it alone still holds outgrow `max_bytes`.
    """

    seconds: float = 300.0
    min_events: int = 1_000
    max_events: int = 20_000
    max_bytes: int = 16 * 1024 * 1024


class KeyspaceWatch(StorageWatch):
    """A watch on a `Keyspace`."""

    def __init__(self, keyspace: Keyspace, prefix: str, revision: int) -> None:
        self.prefix = prefix
        self._keyspace = keyspace
        self._position = revision or keyspace.revision
        self._lagging = self._position != keyspace.revision
        self._queue: list[StorageEvent] = []
        self._reader: asyncio.Future[None] | None = None
        self._closed = False

    def offer(self, event: StorageEvent) -> None:
        """Queue an event under this prefix."""
        if self._lagging or event.revision <= self._position:
            return
        if len(self._queue) >= QUEUE_LIMIT:
            self._position = self._queue[0].revision - 1
            self._queue = []
            self._lagging = True
            return
        self._queue.append(event)
        if self._reader is not None:
            self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
        self._reader = None

    def __aiter__(self) -> AsyncIterator[list[StorageEvent]]:
        return self

    async def __anext__(self) -> list[StorageEvent]:
        while not self._closed:
            if self._lagging:
                self._queue = self._keyspace.events_after(self._position, self.prefix)
                self._lagging = False
            if self._queue:
                batch, self._queue = self._queue, []
                self._position = batch[-1].revision
                return batch
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        raise StopAsyncIteration

    async def progress(self) -> int:
        return self._keyspace.revision

    @property
    def pending(self) -> bool:
        return bool(self._queue) or self._lagging

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._queue = []
            self._keyspace.unregister(self)
            self._wake()


class Keyspace:
    """Keys, history and watches as of `revision`; `compacted` is the oldest revision that can be read."""

    def __init__(self, history: History) -> None:
        self.revision = 0
        self.compacted = 0
        self.live: dict[str, KeyValue] = {}
        self._history = history
        self._keys = SortedKeys()
        self._log: list[StorageEvent] = []
        self._history_bytes = 0
        self._marks: deque[tuple[float, int]] = deque()
        self._watches: dict[str, dict[KeyspaceWatch, None]] = {}
        self._prefix_lengths: dict[int, int] = {}

    def restore(
        self, live: Iterable[KeyValue], events: Iterable[StorageEvent], revision: int, compacted: int
    ) -> None:
        """Take over a recovered state: the current values and the events since `compacted`."""
        self.live = {item.key: item for item in live}
        self._keys = SortedKeys(self.live)
        self._log = list(events)
        self._history_bytes = sum(_weight(event) for event in self._log)
        self.revision = revision
        self.compacted = compacted

    def apply(self, event: StorageEvent) -> None:
        """Make the next change visible."""
        key = event.key
        if event.value is not None:
            if key not in self.live:
                self._keys.add(key)
            self.live[key] = KeyValue(key, event.value, event.create_revision, event.revision)
        else:
            del self.live[key]
            self._keys.remove(key)
        self._log.append(event)
        if event.previous is not None:
            self._history_bytes += len(event.previous.value)
        self.revision = event.revision
        for length in self._prefix_lengths:
            if length <= len(key):
                watches = self._watches.get(key[:length])
                if watches is not None:
                    for watch in watches:
                        watch.offer(event)

    def range(self, prefix: str, start: str | None, limit: int, revision: int) -> Page:
        """See `Storage.list`."""
        low = prefix if start is None or start < prefix else start
        high = prefix_end(prefix) if prefix else None
        live = self.live
        if revision in (0, self.revision):
            keys = self._keys.slice(low, high, limit or None)
            left = self._keys.count(low, high) - len(keys) if limit else 0
            return Page([live[key] for key in keys], self.revision, left > 0, left)
        before: dict[str, KeyValue | None] = {}
        for event in self.events_after(revision, prefix):
            if event.key >= low:
                before.setdefault(event.key, event.previous)
        revived = [item.key for item in before.values() if item is not None and item.key not in live]
        hidden = sum(1 for key, item in before.items() if item is None and key in live)
        total = self._keys.count(low, high) + len(revived) - hidden
        keys = self._keys.slice(low, high, limit + hidden if limit else None)
        if revived:
            keys = sorted(keys + revived)
        items = []
        for key in keys:
            item = before[key] if key in before else live[key]
            if item is not None:
                items.append(item)
        if limit:
            del items[limit:]
        left = total - len(items)
        return Page(items, revision, left > 0, left)

    def events_after(self, revision: int, prefix: str) -> list[StorageEvent]:
        """Events under `prefix` later than `revision`."""
        if revision < self.compacted:
            raise Compacted(revision, self.compacted)
        if revision >= self.revision:
            return []
        at = bisect_right(self._log, revision, key=_revision_of)
        return [event for event in self._log[at:] if event.key.startswith(prefix)]

    def check_revision(self, revision: int) -> None:
        """Raise unless the state at `revision` can be read."""
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)
        if revision and revision < self.compacted:
            raise Compacted(revision, self.compacted)

    def watch(self, prefix: str, revision: int) -> KeyspaceWatch:
        """See `Storage.watch`."""
        watch = KeyspaceWatch(self, prefix, revision)
        group = self._watches.get(prefix)
        if group is None:
            group = self._watches[prefix] = {}
            self._count_prefix(len(prefix), 1)
        group[watch] = None
        return watch

    def unregister(self, watch: KeyspaceWatch) -> None:
        """Forget a watch that was closed."""
        group = self._watches[watch.prefix]
        del group[watch]
        if not group:
            del self._watches[watch.prefix]
            self._count_prefix(len(watch.prefix), -1)

    def close_watches(self) -> None:
        """End every watch."""
        for group in list(self._watches.values()):
            for watch in list(group):
                watch.close()

    def _count_prefix(self, length: int, change: int) -> None:
        """Note that a watched prefix of this length came or went."""
        count = self._prefix_lengths.get(length, 0) + change
        if count:
            self._prefix_lengths[length] = count
        else:
            del self._prefix_lengths[length]

    def mark(self, now: float) -> None:
        """Remember which revision was current at `now`; ages of events are judged by these marks."""
        self._marks.append((now, self.revision))

    def compaction_due(self, now: float) -> int:
        """The revision up to which history may be forgotten now; not above `compacted` if none may."""
        rules = self._history
        due = self.compacted
        while self._marks and self._marks[0][0] <= now - rules.seconds:
            due = max(due, self._marks.popleft()[1])
        at = bisect_right(self._log, due, key=_revision_of)
        at = max(at, len(self._log) - rules.max_events)
        weight = self._history_bytes - sum(_weight(event) for event in self._log[:at])
        while weight > rules.max_bytes and at < len(self._log):
            weight -= _weight(self._log[at])
            at += 1
        at = min(at, len(self._log) - rules.min_events)
        return self._log[at - 1].revision if at > 0 else self.compacted

    @property
    def overgrown(self) -> bool:
        """Whether the log is past the limits that do not depend on time (with some slack)."""
        length = len(self._log)
        if length <= self._history.min_events * 1.1:
            return False
        return length > self._history.max_events * 1.1 or self._history_bytes > self._history.max_bytes * 1.1

    def compact(self, revision: int) -> list[int]:
        """Forget events up to `revision`.

        Returns the revisions whose records nobody needs any more: replaced values, and deletions.
        """
        if revision <= self.compacted:
            return []
        self.compacted = revision
        at = bisect_right(self._log, revision, key=_revision_of)
        obsolete = []
        for event in self._log[:at]:
            if event.previous is not None:
                obsolete.append(event.previous.mod_revision)
                self._history_bytes -= len(event.previous.value)
            if event.value is None:
                obsolete.append(event.revision)
        del self._log[:at]
        return obsolete


def _weight(event: StorageEvent) -> int:
    """Bytes that only history keeps alive."""
    return 0 if event.previous is None else len(event.previous.value)
