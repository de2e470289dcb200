"""Event handlers that map objects to requests."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterable
from typing import Any

from kubewright.cache.stores.store import CacheEntry, MemoryEntry, ObjectChange, ObjectKey
from kubewright.controller import Request, enqueue_mapped


def change() -> ObjectChange:
    old, new = (MemoryEntry(raw=b"{}", revision=number, uid="u") for number in (1, 2))
    return ObjectChange(ObjectKey("default", "a"), old, new)


async def requests_for(obj: Any) -> Iterable[Request]:
    return [Request("default", f"r{obj}")]


def plain_function(obj: Any) -> Awaitable[Iterable[Request]]:
    """A plain function that returns an awaitable, such as a lambda around an async one."""
    return requests_for(obj)


async def test_map_functions() -> None:
    def revision(entry: CacheEntry) -> int:
        return entry.revision

    for function in (requests_for, plain_function):
        found: Any = enqueue_mapped(revision, function)(change())
        assert inspect.isawaitable(found)
        assert list(await found) == [Request("default", "r1"), Request("default", "r2")]
    direct: Any = enqueue_mapped(revision, lambda obj: [Request("default", f"r{obj}")])(change())
    assert list(direct) == [Request("default", "r1"), Request("default", "r2")]
