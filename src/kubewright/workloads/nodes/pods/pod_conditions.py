"""The conditions of a simulated pod, as its kubelet writes them.

`pod_status` computes what the conditions are now; `PodConditions` remembers what they were. A condition keeps
its transition time while its status is the same, and has the generation of the pod that it was observed with.
Only conditions that a kubelet owns are written; those of readiness gates belong to other clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kubewright.workloads.nodes.objects import LoopClock, Object

from .pod_status import PodCondition

_OWNED: Final = frozenset(
    (
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
        "DisruptionTarget",
        "PodResizePending",
        "PodResizeInProgress",
    )
)


class _StoredCondition(NamedTuple):
    condition: PodCondition
    since: str
    generation: int


class PodConditions:
    """Conditions by type, with their transition times."""

    __slots__ = ("_clock", "_conditions", "_removed")

    def __init__(self, clock: LoopClock) -> None:
        self._clock = clock
        self._conditions: dict[str, _StoredCondition] = {}
        self._removed: list[str] = []

    def restore(self, status: Object) -> None:
        """Set the conditions from a status that was written before."""
        for one in status.get("conditions") or ():
            self._conditions[one["type"]] = _StoredCondition(
                PodCondition(one.get("status") or "", one.get("reason") or "", one.get("message") or ""),
                one.get("lastTransitionTime") or status["startTime"],
                one.get("observedGeneration") or 0,
            )

    def set(self, kind: str, condition: PodCondition, generation: int) -> None:
        """Set a condition that was observed with a generation of the pod."""
        old = self._conditions.get(kind)
        unchanged = old is not None and old.condition.status == condition.status
        since = old.since if old is not None and unchanged else self._clock.stamp()
        self._conditions[kind] = _StoredCondition(condition, since, generation)

    def remove(self, kind: str) -> bool:
        """Remove a condition, with the next patch also from the object; return whether it was set."""
        if self._conditions.pop(kind, None) is None:
            return False
        self._removed.append(kind)
        return True

    def differ(self, conditions: Mapping[str, PodCondition]) -> bool:
        """Return whether one of the conditions is not set like this."""
        for kind, condition in conditions.items():
            stored = self._conditions.get(kind)
            if stored is None or stored.condition != condition:
                return True
        return False

    def patch(self) -> list[Object]:
        """Return the owned conditions for a strategic merge patch."""
        return [_encode(kind, stored) for kind, stored in self._conditions.items() if kind in _OWNED]

    def removals(self) -> list[Object]:
        """Return the patch directives for removed conditions, once."""
        removed, self._removed = self._removed, []
        return [{"type": kind, "$patch": "delete"} for kind in removed]


def _encode(kind: str, stored: _StoredCondition) -> Object:
    status, reason, message = stored.condition
    # Null removes what an earlier status has set; a missing field would keep it.
    condition: Object = {
        "type": kind,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": stored.since,
        "reason": reason or None,
        "message": message or None,
    }
    if stored.generation:
        condition["observedGeneration"] = stored.generation
    return condition
