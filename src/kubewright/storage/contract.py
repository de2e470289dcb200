"""What a store must do: a revisioned key-value map with history and watch.

Every successful write takes the next *revision*: one counter for all keys, decimal, strictly growing, never
reused, not even after a crash. A key remembers the revision that created it and the one that last changed
it; a writer says which one it has seen and loses if the key has moved on. History is kept until it is
compacted: a list at a compacted revision, or a watch that starts before it, raises `Compacted`.

Values are opaque bytes. Keys are text, ordered by code point, in paths (`/registry/pods/default/web`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import Literal, NamedTuple, Self


class KeyValue(NamedTuple):
    """One key as of some revision."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int


class Page(NamedTuple):
    """Part of a range. `revision` is the revision at which the whole range is being read."""

    items: list[KeyValue]
    revision: int
    more: bool
    """Whether keys of the range follow the last item."""
    remaining: int
    """How many follow."""


class StorageEvent(NamedTuple):
    """One change. A delete carries the last value in `previous` and no `value`."""

    type: Literal["put", "delete"]
    key: str
    value: bytes | None
    previous: KeyValue | None
    create_revision: int
    revision: int


class StorageError(Exception):
    """The store failed (disk full, file locked, server unreachable); the message names the remedy."""


class KeyExists(Exception):
    """A create found the key taken; `current` is what is there."""

    def __init__(self, current: KeyValue) -> None:
        super().__init__(current.key)
        self.current = current


class RevisionMismatch(Exception):
    """An update or delete expected another revision; `current` is what is there, `None` if nothing is."""

    def __init__(self, key: str, current: KeyValue | None) -> None:
        super().__init__(key)
        self.current = current


class Compacted(Exception):
    """The revision asked for is gone; `oldest` is the oldest that can still be asked for."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} has been compacted; the oldest is {oldest}")
        self.revision = revision
        self.oldest = oldest


class FutureRevision(Exception):
    """The revision asked for has not happened yet."""

    def __init__(self, revision: int, current: int) -> None:
        super().__init__(f"revision {revision} is in the future; the current one is {current}")
        self.revision = revision
        self.current = current


class StorageWatch(ABC):
    """A stream of changes, in revision order, nothing missing and nothing twice.

    Iterate over it for batches: everything that has happened since the last batch, never an empty list. It
    ends when it is closed; it raises `Compacted` when history it still needs is gone (a reader that was far
    too slow), `StorageError` when the store is lost.
    """

    @abstractmethod
    def __aiter__(self) -> AsyncIterator[list[StorageEvent]]:
        """The batches."""

    @abstractmethod
    async def progress(self) -> int:
        """A revision up to which everything has been delivered to, or is queued for, this watch.

        Dispatch the batches that are queued (`pending`) before you report it as a bookmark.
        """

    @property
    @abstractmethod
    def pending(self) -> bool:
        """Whether events are queued that iteration has not returned yet."""

    connected: bool = True
    """Whether the stream is attached to the store. False while a remote store is unreachable: the stream
    resumes without a gap, but until then changes are delayed."""

    on_connection_change: Callable[[bool], object] | None = None
    """Called when `connected` changes."""

    @abstractmethod
    def close(self) -> None:
        """End the stream."""


class Storage(ABC):
    """A revisioned store. Open it with `async with`, or `open()` and `close()`."""

    @abstractmethod
    async def open(self) -> None:
        """Connect, lock, recover."""

    @abstractmethod
    async def close(self) -> None:
        """Flush and release; every watch ends."""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @abstractmethod
    async def revision(self) -> int:
        """The current revision: that of the last write that any reader can see."""

    @abstractmethod
    async def get(self, key: str) -> KeyValue | None:
        """The current value of a key."""

    @abstractmethod
    async def list(self, prefix: str, *, start: str | None = None, limit: int = 0, revision: int = 0) -> Page:
        """Keys that begin with `prefix`, in order, from `start` (a whole key, inclusive) on.

        `limit` 0 means all. `revision` 0 means now; otherwise the range as it was at that revision.
        """

    @abstractmethod
    async def create(self, key: str, value: bytes, *, ttl: int | None = None) -> int:
        """Write a key that must not exist; returns the new revision. Raises `KeyExists`."""

    @abstractmethod
    async def update(self, key: str, value: bytes, *, expected: int, ttl: int | None = None) -> int:
        """Replace a key last changed at revision `expected`; returns the new revision."""

    @abstractmethod
    async def delete(self, key: str, *, expected: int) -> int:
        """Remove a key last changed at revision `expected`; returns the revision of the deletion."""

    @abstractmethod
    def watch(self, prefix: str, revision: int) -> StorageWatch:
        """Changes of keys under `prefix` with a revision greater than `revision` (0: from now on)."""

    @abstractmethod
    async def compact(self, revision: int) -> None:
        """Forget history before `revision`; current values stay."""

    async def size(self) -> int | None:
        """Bytes that the store takes on disk; `None` if it is on none."""
        return None
