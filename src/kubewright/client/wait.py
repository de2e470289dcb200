"""Conditions for `Client.wait`: predicates on an object, which is `None` while it does not exist.

await client.wait(deployment, until=condition("Available"), timeout=60)
await client.wait(Pod, "web-0", until=is_deleted, timeout=30)
await client.wait(Pod, "web-0", until=field_is(".status.phase", "Running"))
await client.wait(Job, "load", until=lambda job: job is not None and job.status.succeeded == 3)
"""

from __future__ import annotations

from collections.abc import Callable

from kubewright.api.selectors.jsonpath import JSONPath

from .kind_types import AnyObject
from .patches import to_dict

WaitPredicate = Callable[[AnyObject | None], bool]


def exists(obj: object) -> bool:
    """Hold once the object exists."""
    return obj is not None


def is_deleted(obj: object) -> bool:
    """Hold once the object does not exist."""
    return obj is None


def condition(type: str, status: str = "True") -> WaitPredicate:
    """Hold once a status condition has this status.

    A condition with an `observedGeneration` must be of the current generation.
    """

    def predicate(obj: AnyObject | None) -> bool:
        if obj is None:
            return False
        data = to_dict(obj)
        generation = (data.get("metadata") or {}).get("generation") or 0
        for each in (data.get("status") or {}).get("conditions") or ():
            if each.get("type") == type and str(each.get("status")).lower() == status.lower():
                return bool(each.get("observedGeneration", generation) >= generation)
        return False

    predicate.__name__ = f"condition {type}={status}"
    return predicate


def field_is(path: str, value: object) -> WaitPredicate:
    """Hold once the field at a JSONPath has this value."""
    compiled = JSONPath.relaxed(path, allow_missing_keys=True)

    def predicate(obj: AnyObject | None) -> bool:
        return obj is not None and value in compiled.values(to_dict(obj))

    predicate.__name__ = f"{path}={value}"
    return predicate
