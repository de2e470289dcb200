"""Storage in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from .contract import StorageError, StorageEvent
from .local import LocalStorage


class MemoryStorage(LocalStorage):
    """Storage in memory; its contents are lost with the process."""

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Return the storage of the URL `memory:`."""
        if url.partition(":")[2].strip("/"):
            raise StorageError(f"{url!r}: memory storage has no path; use memory:")
        return cls(**options)

    def _next_revision(self) -> int:
        if not self._opened:
            raise StorageError("storage is not open")
        return self._keyspace.revision + 1

    async def _commit(self, event: StorageEvent, expires: float | None) -> None:
        self._apply(event, expires)

    async def _commit_all(self, create: Callable[[], list[tuple[StorageEvent, float | None]]]) -> None:
        self._next_revision()  # raises if the storage is not open
        for event, expires in create():
            self._apply(event, expires)

    async def _compact(self, revision: int) -> None:
        self._keyspace.compact(revision)
