"""Kinds, times and small readers that the modules of this package share. Objects are plain dictionaries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.values.quantity import Quantity
from kubewright.api.values.times import format_micro_time, format_time
from kubewright.text_cache import cache_short

Object = dict[str, Any]
"""An object or a part of it, as decoded JSON."""

POD: Final = GroupVersionKind("", "v1", "Pod")
NODE: Final = GroupVersionKind("", "v1", "Node")
CLAIM: Final = GroupVersionKind("", "v1", "PersistentVolumeClaim")
LEASE: Final = GroupVersionKind("coordination.k8s.io", "v1", "Lease")
EVENT: Final = GroupVersionKind("", "v1", "Event")
LEASE_NAMESPACE: Final = "kube-node-lease"
TERMINAL_PHASES: Final = ("Succeeded", "Failed")


class LoopClock:
    """Time of the event loop, for delays, and the date, for timestamps."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def time(self) -> float:
        """Return the time of the event loop, in seconds."""
        return self._loop.time()

    def date(self) -> datetime:
        """Return the current date."""
        return datetime.now(UTC)

    def stamp(self) -> str:
        """Return the current date as a `Time`."""
        return format_time(self.date())

    def micro_stamp(self) -> str:
        """Return the current date as a `MicroTime`."""
        return format_micro_time(self.date())


@cache_short(maxsize=4096)
def milli_units(text: str) -> int:
    """Return a quantity in thousandths, rounded up."""
    return Quantity(text).as_int(-3)


def amount_of(resource: str, text: object) -> int:
    """Return a quantity of a resource in the unit that nodes count: CPU in thousandths, others in units."""
    milli = milli_units(str(text))
    return milli if resource == "cpu" else -(-milli // 1000)


def condition_of(status: Mapping[str, Any], kind: str) -> Object | None:
    """Return the condition of a type."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == kind:
            found: Object = condition
            return found
    return None


def owner_kind(pod: Mapping[str, Any]) -> str:
    """Return the kind of the controlling owner, or an empty string."""
    for owner in (pod.get("metadata") or {}).get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner.get("kind") or "")
    return ""


def format_names(values: Iterable[str]) -> str:
    """Format a list of names as Go prints a slice of strings."""
    return f"[{' '.join(values)}]"
