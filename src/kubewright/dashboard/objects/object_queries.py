"""Queries over all kinds of the index: by words, and by health."""

from __future__ import annotations

import asyncio
import heapq
from typing import Any, Final

from .object_index import ObjectIndex
from .object_records import KindState, ObjectRecord

MAX_RESULTS: Final = 200
_YIELD_INTERVAL: Final = 20_000
"""Objects after which other tasks run."""


def objects_of(index: ObjectIndex, health: str, *, namespace: str, limit: int) -> dict[str, Any]:
    """Return the objects of all kinds with a health, those that have it longest first."""
    if health == "Current":
        found = [
            each for kind in index.kinds.values() for each in kind.objects.values() if each.health == health
        ]
    else:
        found = [
            each for name, records in index.by_health.items() if name == health for each in records.values()
        ]
    if namespace:
        found = [each for each in found if each.namespace == namespace]
    oldest = heapq.nsmallest(limit, found, key=lambda each: (each.changed, each.namespace, each.name))
    return {
        "total": len(found),
        "truncated": len(found) > len(oldest) or index.truncated > 0,
        "synced": index.synced,
        "unreadable": [each.gvk.kind for each in index.kinds.values() if each.error],
        "objects": [each.node() for each in oldest],
    }


async def search(index: ObjectIndex, query: str, limit: int) -> dict[str, Any]:
    """Return the objects and kinds that contain every word of a query, the best first.

    An object whose name is or begins with a word comes before one that contains it elsewhere.
    """
    words = query.lower().split()
    limit = max(1, min(limit, MAX_RESULTS))
    results: list[tuple[tuple[int, int, str, str, int], ObjectRecord]] = []
    total = visited = 0
    if words:
        for kind in list(index.kinds.values()):
            names = _kind_words(kind)
            rest = [word for word in words if word not in names]
            for (namespace, name), record in list(kind.objects.items()):
                visited += 1
                if visited % _YIELD_INTERVAL == 0:
                    await asyncio.sleep(0)
                rank = _rank(rest, len(words), name, namespace, names)
                if rank is None:
                    continue
                total += 1
                results.append(((rank, len(name), name, namespace, total), record))
                if len(results) > 4 * limit:
                    results = heapq.nsmallest(limit, results)
    best = heapq.nsmallest(limit, results)
    matching = [
        kind.summary()
        for kind in index.kinds.values()
        if words and all(any(word in name for name in _kind_words(kind)) for word in words)
    ]
    return {
        "total": total,
        "truncated": total > len(best),
        "synced": index.synced,
        "results": [record.node() for _, record in best],
        "kinds": matching[:20],
    }


def _kind_words(kind: KindState) -> set[str]:
    resource = kind.resource
    return {kind.gvk.kind.lower(), resource.plural, resource.singular, *resource.short_names} - {""}


def _rank(words: list[str], count: int, name: str, namespace: str, kinds: set[str]) -> int | None:
    """Return the rank of an object, lower is better; `None` if a word does not match."""
    rank = 0
    for word in words:
        if name == word:
            continue
        if name.startswith(word):
            rank += 1
        elif word in name:
            rank += 2
        elif word in namespace:
            rank += 3
        elif any(word in each for each in kinds):
            rank += 4
        else:
            return None
    # Words that name the kind exactly match every object of it: names come first.
    return rank + (5 if len(words) < count and not words else 0)
