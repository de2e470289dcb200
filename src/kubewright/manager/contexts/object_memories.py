"""`ObjectMemories`: the values that functions keep for single objects (`ctx.memory`).

An object has a memory from the first read of `ctx.memory` on. Most functions never read it, and a memory for
each of 100,000 objects would need as much as their entries in the cache.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from kubewright.controller.request import Request

MAX_MEMORIES = 100_000
"""Number of objects with a memory; the least recently used ones are dropped."""


class ObjectMemories:
    """Memories by kind and request. The functions of all threads share them."""

    def __init__(self, limit: int = MAX_MEMORIES) -> None:
        self._limit = limit
        self._memories: OrderedDict[tuple[Hashable, Request], tuple[str | None, dict[str, Any]]] = (
            OrderedDict()
        )
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._memories)

    def get(self, kind: Hashable, request: Request, uid: str | None) -> dict[str, Any]:
        """Return the memory of an object; create it if it does not exist or is that of a deleted object."""
        key = (kind, request)
        with self._lock:
            known = self._memories.get(key)
            if known is None or known[0] != uid:
                known = self._memories[key] = (uid, {})
                if len(self._memories) > self._limit:
                    self._memories.popitem(last=False)
            self._memories.move_to_end(key)
        return known[1]

    def discard(self, kind: Hashable, request: Request) -> None:
        """Drop the memory of a deleted object."""
        if self._memories:
            with self._lock:
                self._memories.pop((kind, request), None)
