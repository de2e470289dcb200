"""State of a storage in memory: current values, recent history and watches.

Everything here is synchronous and runs in one step of the event loop, without locks; only long lists are read
in several steps. `apply` receives changes in revision order; a change is visible to readers and queued for
watches when it returns. History is a log of events. An event has the value that it replaced, so the state at
an earlier revision is the current state without the later events, and a write costs one append.

A watch has its own queue. A reader that is too slow loses the queue and continues from the log; it gets
`Compacted` only when the log no longer reaches back.
"""

# ruff: noqa: D102 (documented in the contract)

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol

from .contract import Compacted, FutureRevision, KeyValue, Page, StorageEvent, StorageWatch
from .sorted_keys import SortedKeys, prefix_end
from .timeline import Timeline

QUEUE_LIMIT = 10_000
"""Maximum number of queued events of one watch; above it, the watch continues from the log."""

LIST_SLICE = 4_000
"""Values of a list that are read before other tasks of the event loop run: about 1 ms."""

_revision_of = attrgetter("revision")
_key_of = attrgetter("key")


@dataclass(frozen=True, slots=True)
class History:
    """Limits of the history that is retained without explicit compaction.

    An event is removed once it is older than `seconds` and followed by more than `min_events`, or earlier
    when the log exceeds `max_events`. `max_bytes` bounds the replaced values in any case: of large objects
    there are fewer than `min_events`. The events in addition to those of the last `seconds` are for watches
    that resume; lists at a revision that was replaced more than `seconds` ago raise `Compacted`.
    With `stores_times`, a SQLite file has the times of the changes, too: otherwise the revision at a time is
    only known of changes since the start.
    """

    seconds: float = 300.0
    min_events: int = 1_000
    max_events: int = 20_000
    max_bytes: int = 16 * 1024 * 1024
    stores_times: bool = False


class KeyspaceListener(Protocol):
    """Receives the events of keys with a prefix, as part of the write."""

    prefix: str

    def offer(self, event: StorageEvent) -> None:
        """Receive an event, which is visible to readers already."""

    def close(self) -> None:
        """Called when the keyspace is closed: unregister."""


class KeyspaceWatch(StorageWatch):
    """A watch on a `Keyspace`."""

    def __init__(self, keyspace: Keyspace, prefix: str, revision: int) -> None:
        self.prefix = prefix
        self._keyspace = keyspace
        self._position = revision or keyspace.revision
        self._lagging = self._position != keyspace.revision
        self._queue: list[StorageEvent] = []
        self._reader: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._closed = False

    def offer(self, event: StorageEvent) -> None:
        """Queue an event."""
        if self._lagging or event.revision <= self._position:
            return
        if len(self._queue) >= QUEUE_LIMIT:
            self._read_log()
            return
        self._queue.append(event)
        if self._reader is not None:
            self._wake()

    def _read_log(self) -> None:
        """Drop the queue; its events are read from the log."""
        if self._queue:
            self._position = self._queue[0].revision - 1
            self._queue = []
        self._lagging = True

    def restart(self) -> None:
        """Continue from the log of a keyspace that was restored."""
        self._read_log()
        self._wake()

    def fail(self, error: Exception) -> None:
        """Raise `error` after the queued events."""
        self._error = error
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
            if self._error is not None:
                raise self._error
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
    """Keys, history and watches at `revision`; `compacted` is the oldest revision that can be read."""

    def __init__(self, history: History) -> None:
        self.revision = 0
        self.compacted = 0
        self._list_expired = 0
        self.live: dict[str, KeyValue] = {}
        self.timeline = Timeline()
        self._history = history
        self._keys = SortedKeys()
        self._log: list[StorageEvent] = []
        self._history_bytes = 0
        self._marks: deque[tuple[float, int]] = deque()
        self._watches: dict[str, dict[KeyspaceListener, None]] = {}
        self._prefix_lengths: dict[int, int] = {}

    def restore(
        self, live: Iterable[KeyValue], events: Iterable[StorageEvent], revision: int, compacted: int
    ) -> None:
        """Restore the current values and the events since `compacted`."""
        self.live = {item.key: item for item in live}
        self._keys = SortedKeys(self.live)
        self._log = list(events)
        self._history_bytes = sum(_weight(event) for event in self._log)
        self.revision = revision
        self.compacted = compacted

    def fork(self, revision: int) -> Keyspace:
        """Return the state and the history up to a revision, for another storage; values are shared."""
        self.check_revision(revision)
        found = Keyspace(self._history)
        end = bisect_right(self._log, revision, key=_revision_of)
        live = self.range("", None, 0, revision).items
        found.restore(live, self._log[:end], revision, self.compacted)
        found.timeline = self.timeline.until(revision)
        return found

    def apply(self, event: StorageEvent) -> None:
        """Apply the next change."""
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
        """Return a page, in one step."""
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

    async def page(self, prefix: str, start: str | None, limit: int, revision: int) -> Page:
        """See `Storage.list`; other tasks run while many values are read."""
        self.check_revision(revision)
        if limit or revision or len(self.live) <= LIST_SLICE:
            return self.range(prefix, start, limit, revision)
        return await self._range_in_slices(prefix, start)

    async def _range_in_slices(self, prefix: str, start: str | None) -> Page:
        """Return the current values as `range` does; values that change meanwhile are taken from the log."""
        low = first = prefix if start is None or start < prefix else start
        high = prefix_end(prefix) if prefix else None
        live, revision = self.live, self.revision
        items: list[KeyValue] = []
        while keys := self._keys.slice(low, high, LIST_SLICE):
            items += [live[key] for key in keys]
            if len(keys) < LIST_SLICE:
                break
            low = keys[-1] + "\0"
            await asyncio.sleep(0)
            if self.live is not live:
                return self.range(prefix, start, 0, 0)
        if self.revision != revision:
            if revision < self.compacted:
                return self.range(prefix, start, 0, 0)
            before: dict[str, KeyValue | None] = {}
            for event in self.events_after(revision, prefix):
                if event.key >= first:
                    before.setdefault(event.key, event.previous)
            for key, item in before.items():
                place = bisect_left(items, key, key=_key_of)
                found = place < len(items) and items[place].key == key
                items[place : place + found] = [item] if item is not None else []
        return Page(items, revision, False, 0)

    def events_after(self, revision: int, prefix: str) -> list[StorageEvent]:
        """Return the events with a prefix after `revision`."""
        if revision < self.compacted:
            raise Compacted(revision, self.compacted)
        if revision >= self.revision:
            return []
        at = bisect_right(self._log, revision, key=_revision_of)
        return [event for event in self._log[at:] if event.key.startswith(prefix)]

    def check_revision(self, revision: int) -> None:
        """Raise unless the state at `revision` can be listed."""
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)
        oldest = self.oldest_list
        if revision and revision < oldest:
            raise Compacted(revision, oldest)

    def watch(self, prefix: str, revision: int) -> KeyspaceWatch:
        """See `Storage.watch`."""
        watch = KeyspaceWatch(self, prefix, revision)
        self.register(watch)
        return watch

    def register(self, watch: KeyspaceListener) -> None:
        """Offer later events to a watch."""
        group = self._watches.get(watch.prefix)
        if group is None:
            group = self._watches[watch.prefix] = {}
            self._count_prefix(len(watch.prefix), 1)
        group[watch] = None

    def unregister(self, watch: KeyspaceListener) -> None:
        """Remove a closed watch."""
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

    def watches(self) -> list[KeyspaceWatch]:
        """Return all watches."""
        return [each for group in self._watches.values() for each in group if isinstance(each, KeyspaceWatch)]

    @property
    def oldest_list(self) -> int:
        """The oldest revision that can be listed."""
        return max(self.compacted, self._list_expired)

    def expire_lists(self, revision: int) -> None:
        """Reject lists at a revision before this one."""
        self._list_expired = max(self._list_expired, revision)

    def _count_prefix(self, length: int, change: int) -> None:
        """Count the watched prefixes of a length."""
        count = self._prefix_lengths.get(length, 0) + change
        if count:
            self._prefix_lengths[length] = count
        else:
            del self._prefix_lengths[length]

    def mark(self, now: float) -> None:
        """Record the current revision at `now`, to determine the age of events."""
        self._marks.append((now, self.revision))

    def compaction_due(self, now: float) -> int:
        """Return the revision up to which history can be compacted; at most `compacted` if none can."""
        rules = self._history
        due = self.compacted
        while self._marks and self._marks[0][0] <= now - rules.seconds:
            due = max(due, self._marks.popleft()[1])
        self._list_expired = max(self._list_expired, due)
        at = bisect_right(self._log, due, key=_revision_of)
        at = max(at, len(self._log) - rules.max_events)
        at = max(0, min(at, len(self._log) - rules.min_events))
        weight = self._history_bytes - sum(_weight(event) for event in self._log[:at])
        while weight > rules.max_bytes and at < len(self._log):
            weight -= _weight(self._log[at])
            at += 1
        return self._log[at - 1].revision if at > 0 else self.compacted

    @property
    def overgrown(self) -> bool:
        """Whether the log exceeds the limits that do not depend on time, by 10 %."""
        rules = self._history
        if self._history_bytes > rules.max_bytes * 1.1:
            return True
        return len(self._log) > max(rules.max_events, rules.min_events) * 1.1

    def compact(self, revision: int) -> list[int]:
        """Remove events up to `revision`.

        Returns the revisions whose records are obsolete: replaced values and deletions.
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
        self.timeline.forget(revision)
        return obsolete


def _weight(event: StorageEvent) -> int:
    """Return the bytes that only history references."""
    return 0 if event.previous is None else len(event.previous.value)
