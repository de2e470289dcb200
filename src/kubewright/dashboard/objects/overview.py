"""The overview: kinds with counts and health, unhealthy objects, and warnings."""

from __future__ import annotations

from itertools import chain, islice
from typing import Any, Final

from .object_index import ObjectIndex

MAX_UNHEALTHY: Final = 50
MAX_WARNINGS: Final = 100


def describe_overview(index: ObjectIndex) -> dict[str, Any]:
    """Return the overview of an index."""
    namespaces = index.kinds.get(("", "namespaces"))
    failed, progressing = index.by_health["Failed"], index.by_health["InProgress"]
    unhealthy = islice(chain(failed.values(), progressing.values()), MAX_UNHEALTHY)
    return {
        "synced": index.synced,
        "truncated": index.truncated > 0,
        "namespaces": sorted(name for _, name in namespaces.objects) if namespaces is not None else [],
        "kinds": [each.summary() for each in index.kinds.values()],
        "unhealthy": [each.node() for each in unhealthy],
        "warnings": index.warnings.latest(index, MAX_WARNINGS),
    }
