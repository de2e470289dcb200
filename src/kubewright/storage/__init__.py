"""A revisioned key-value store with watch, in memory, in SQLite or in etcd.

`Storage` is the contract: one counter for all writes, reads at a revision, writes that lose if somebody else
was first, a stream of changes without gaps. `open_storage` makes one from a URL. The laws that every
implementation keeps are written as tests (tests/storage/test_laws.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.lazy import lazy

from .contract import (
    Compacted,
    Event,
    FutureRevision,
    KeyExists,
    KeyValue,
    Page,
    RevisionMismatch,
    Storage,
    StorageError,
    Watch,
)
from .keyspace import History
from .memory import MemoryStorage
from .url import open_storage

if TYPE_CHECKING:
    from .etcd import EtcdStorage
    from .sqlite import SQLiteStorage

__all__ = [
    "Compacted",
    "EtcdStorage",
    "Event",
    "FutureRevision",
    "History",
    "KeyExists",
    "KeyValue",
    "MemoryStorage",
    "Page",
    "RevisionMismatch",
    "SQLiteStorage",
    "Storage",
    "StorageError",
    "Watch",
    "open_storage",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "etcd": "EtcdStorage",
        "sqlite": "SQLiteStorage",
    },
)
