"""The storage contract: a revisioned key-value store with history and watch.

Every successful write gets the next *revision*: one counter for all keys, strictly increasing, never reused,
not even after a crash. A key has the revision that created it and the one that last changed it; a writer
names the one it has read and fails if the key has changed since. History is available until it is compacted:
a list at a compacted revision, or a watch that starts before it, raises `Compacted`.

Values are opaque bytes. Keys are text in the form of paths (`/registry/pods/default/web`), ordered by code
point.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, Self

if TYPE_CHECKING:
    from kubewright.api.selectors.field_selectors import FieldSelector
    from kubewright.api.selectors.label_selectors import Selector


class KeyValue(NamedTuple):
    """A key and its value at a revision."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int


class Page(NamedTuple):
    """A page of a range. `revision` is that of the whole range."""

    items: list[KeyValue]
    revision: int
    more: bool
    """Whether the range has further keys."""
    remaining: int
    """Number of further keys."""


class StorageEvent(NamedTuple):
    """One change. A delete has no `value`, and the last value in `previous`."""

    type: Literal["put", "delete"]
    key: str
    value: bytes | None
    previous: KeyValue | None
    create_revision: int
    revision: int


class StorageError(Exception):
    """The store failed (disk full, file locked, server unreachable); the message names the remedy."""


class StorageUnavailable(StorageError):
    """The server of the store is unreachable, starting or stopping; a later call can succeed."""


class RequestTooLarge(StorageError):
    """A key and its value exceed the limit of one request; nothing was written."""

    def __init__(self) -> None:
        super().__init__("etcdserver: request is too large")


class KeyExists(Exception):
    """The key of a create exists; `current` is its value."""

    def __init__(self, current: KeyValue) -> None:
        super().__init__(current.key)
        self.current = current


class RevisionMismatch(Exception):
    """The key of an update or delete has another revision; `current` is its value, `None` if it does not
    exist."""

    def __init__(self, key: str, current: KeyValue | None) -> None:
        super().__init__(key)
        self.current = current


class Compacted(Exception):
    """The requested revision is compacted; `oldest` is the oldest that can be read."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} has been compacted; the oldest is {oldest}")
        self.revision = revision
        self.oldest = oldest


class FutureRevision(Exception):
    """The requested revision is in the future."""

    def __init__(self, revision: int, current: int) -> None:
        super().__init__(f"revision {revision} is in the future; the current one is {current}")
        self.revision = revision
        self.current = current


class ListSelection(Protocol):
    """The objects that a list selects, for storages that can read a part of a range."""

    @property
    def labels(self) -> Selector | None:
        """The label selector."""

    @property
    def fields(self) -> FieldSelector | None:
        """The field selector."""

    @property
    def name(self) -> str:
        """The name that selected objects must have, or an empty string."""

    @property
    def converts(self) -> bool:
        """Whether the fields are those of another version than the stored one."""

    def selects(self, value: bytes) -> bool:
        """Whether a stored object is selected; not with `converts`."""


class StorageWatch(ABC):
    """A stream of all changes, in revision order, each exactly once.

    Iterate over it for batches: all changes since the last batch, never an empty list. It ends when it is
    closed; it raises `Compacted` when the reader is too slow for the history, `StorageError` when the storage
    is lost.
    """

    @abstractmethod
    def __aiter__(self) -> AsyncIterator[list[StorageEvent]]:
        """Return the batches."""

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

    def set_connected(self, connected: bool) -> None:
        """Set `connected`, for implementations."""
        if connected != self.connected:
            self.connected = connected
            if self.on_connection_change is not None:
                self.on_connection_change(connected)

    @abstractmethod
    def close(self) -> None:
        """End the watch."""


class Storage(ABC):
    """A revisioned storage. Open it with `async with`, or `open()` and `close()`."""

    shares_values: bool = False
    """Whether `list` returns references to values that the storage keeps in memory, not copies."""

    @abstractmethod
    async def open(self) -> None:
        """Connect, lock, recover."""

    @abstractmethod
    async def close(self) -> None:
        """Flush and release; all watches end."""

    manages_compaction: bool = False
    """Whether the storage compacts its history itself or leaves that to another process; if not, the API
    server compacts it."""

    rewrites: bool = False
    """Whether another value can be stored than the one that was written."""

    decrypts: bool = False
    """Whether values are decrypted; one that cannot be decrypted is returned as it is stored."""

    is_shared: bool = False
    """Whether several API servers can use the same state at the same time."""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @abstractmethod
    async def revision(self) -> int:
        """Return the current revision: that of the last visible write."""

    @abstractmethod
    async def get(self, key: str) -> KeyValue | None:
        """Return the current value of a key."""

    @abstractmethod
    async def list(self, prefix: str, *, start: str | None = None, limit: int = 0, revision: int = 0) -> Page:
        """Return the keys with a prefix, in order, from `start` (a key, inclusive) on.

        `limit` 0 means unlimited, `revision` 0 the current revision.
        """

    @abstractmethod
    async def create(self, key: str, value: bytes, *, ttl: int | None = None) -> int:
        """Write a key that does not exist; return the new revision. Raises `KeyExists`."""

    @abstractmethod
    async def update(self, key: str, value: bytes, *, expected: int, ttl: int | None = None) -> int:
        """Replace a key last changed at revision `expected`; return the new revision."""

    @abstractmethod
    async def delete(self, key: str, *, expected: int) -> int:
        """Delete a key last changed at revision `expected`; return the revision of the deletion."""

    @abstractmethod
    def watch(self, prefix: str, revision: int) -> StorageWatch:
        """Watch the changes of keys with a prefix after `revision` (0: from now on)."""

    @abstractmethod
    async def compact(self, revision: int) -> None:
        """Remove the history before `revision`; current values stay."""

    async def refresh(
        self,
        prefix: str,
        *,
        start: str | None = None,
        limit: int = 0,
        selection: ListSelection | None = None,
    ) -> int:
        """Read what `list` is going to return from the system that this storage is a copy of; return the
        revision to list at. 0, the current revision, if there is no such system."""
        return 0

    def is_stale(self, item: KeyValue) -> bool:
        """Return whether a value that was read here should be written again, because it is not stored as it
        would be now: encrypted with an old key, for example."""
        return False

    def check_health(self) -> None:  # noqa: B027 - most storages have no state to report
        """Raise an exception if the storage cannot be used at present, as far as that is known."""

    async def size(self) -> int | None:
        """Return the bytes on disk; `None` if there is no file."""
        return None
