"""A store in memory: complete, fast, and gone with the process."""

from __future__ import annotations

from .contract import StorageError, StorageEvent
from .local import LocalStorage


class MemoryStorage(LocalStorage):
    """Keeps everything in this process."""

    def _next_revision(self) -> int:
        if not self._opened:
            raise StorageError("the store is not open")
        return self._keyspace.revision + 1

    async def _commit(self, event: StorageEvent, expires: float | None) -> None:
        self._apply(event, expires)

    async def _forget(self, revision: int) -> None:
        self._keyspace.compact(revision)
