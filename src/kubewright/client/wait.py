"""What to wait for: predicates on an object, which is `None` while it is not there.

await client.wait(deployment, until=condition("Available"), timeout=60)
await client.wait(Pod, "web-0", until=deleted, timeout=30)
await client.wait(Pod, "web-0", until=field_is(".status.phase", "Running"))
await client.wait(Job, "load", until=lambda job: job is not None and job.status.succeeded == 3)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubewright.api.jsonpath import JSONPath

from .patches import to_dict

WaitPredicate = Callable[[Any], bool]


def exists(obj: Any) -> bool:
    """The object is there."""
    return obj is not None


def deleted(obj: Any) -> bool:
    """The object is gone."""
    return obj is None


def condition(type: str, status: str = "True") -> WaitPredicate:
    """A condition of the status says so, and, where it tells, about the present generation."""

    def holds(obj: Any) -> bool:
        if obj is None:
            return False
        data = to_dict(obj)
        generation = (data.get("metadata") or {}).get("generation") or 0
        for each in (data.get("status") or {}).get("conditions") or ():
            if each.get("type") == type and str(each.get("status")).lower() == status.lower():
                return bool(each.get("observedGeneration", generation) >= generation)
        return False

    holds.__name__ = f"condition {type}={status}"
    return holds


def field_is(path: str, value: Any) -> WaitPredicate:
    """The field at a JSONPath has this value."""
    compiled = JSONPath.relaxed(path, allow_missing_keys=True)

    def holds(obj: Any) -> bool:
        return obj is not None and value in compiled.values(to_dict(obj))

    holds.__name__ = f"{path}={value}"
    return holds


__all__ = ["WaitPredicate", "condition", "deleted", "exists", "field_is"]
