"""Cluster events and queueing hints: which changes can make a rejected pod schedulable.

A plug-in registers the events that can change its decisions (`Plugin.events`). When one of them occurs, the
scheduling queue calls the hint for the pods that the plug-in has rejected, and requeues a pod if a hint
returns `Hint.QUEUE`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, Flag, auto
from typing import TYPE_CHECKING, Any

from kubewright.api.core.v1 import Node, Pod
from kubewright.workloads.scheduler.state.resources import pod_amounts

if TYPE_CHECKING:
    from kubewright.workloads.scheduler.state.pod_info import PodInfo


class Action(Flag):
    """What happened to an object."""

    ADD = auto()
    DELETE = auto()
    UPDATE_NODE_ALLOCATABLE = auto()
    UPDATE_NODE_LABEL = auto()
    UPDATE_NODE_TAINT = auto()
    UPDATE_NODE_CONDITION = auto()
    UPDATE_NODE_ANNOTATION = auto()
    UPDATE_POD_LABEL = auto()
    UPDATE_POD_SCALE_DOWN = auto()
    UPDATE_POD_TOLERATION = auto()
    UPDATE_POD_GATES_ELIMINATED = auto()
    UPDATE_POD_RESOURCE_CLAIMS = auto()
    UPDATE_OTHER = auto()
    UPDATE = (
        UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_CONDITION
        | UPDATE_NODE_ANNOTATION
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_GATES_ELIMINATED
        | UPDATE_POD_RESOURCE_CLAIMS
        | UPDATE_OTHER
    )
    ALL = ADD | DELETE | UPDATE


class Hint(Enum):
    """Whether an event can make a pod schedulable."""

    SKIP = "Skip"
    QUEUE = "Queue"


QueueingHint = Callable[["PodInfo", Any, Any], Hint]
"""Called with the rejected pod, the old and the new object of the event, one of which can be `None`."""

WILDCARD = "*"


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """A change of an object of a kind, such as `ClusterEvent("Node", Action.ADD)`."""

    kind: str
    """Kind of the object, or `*`."""
    action: Action
    hint: QueueingHint | None = None
    """Decides for a pod whether the event matters; without a hint it always does."""

    def includes(self, event: ClusterEvent) -> bool:
        """Whether an event that occurred is one of these."""
        return (self.kind in (WILDCARD, event.kind) or event.kind == WILDCARD) and bool(
            self.action & event.action
        )


POD_ASSIGNED = ClusterEvent("Pod", Action.ADD)
POD_DELETED = ClusterEvent("Pod", Action.DELETE)
NODE_ADDED = ClusterEvent("Node", Action.ADD)
NODE_DELETED = ClusterEvent("Node", Action.DELETE)
UNSCHEDULABLE_TIMEOUT = ClusterEvent(WILDCARD, Action.ALL)


def pod_changes(old: Pod, new: Pod) -> Action:
    """Return what an update of a pod changed."""
    action = Action(0)
    if (old.metadata.labels or {}) != (new.metadata.labels or {}):
        action |= Action.UPDATE_POD_LABEL
    old_spec, new_spec = old.spec, new.spec
    assert old_spec is not None
    assert new_spec is not None
    if old_spec.scheduling_gates and not new_spec.scheduling_gates:
        action |= Action.UPDATE_POD_GATES_ELIMINATED
    if len(old_spec.tolerations or ()) != len(new_spec.tolerations or ()):
        action |= Action.UPDATE_POD_TOLERATION
    old_amounts, new_amounts = pod_amounts(old), pod_amounts(new)
    if any(new_amounts.get(name, -1) < amount for name, amount in old_amounts.items()):
        action |= Action.UPDATE_POD_SCALE_DOWN
    old_claims = old.status.resource_claim_statuses if old.status else None
    new_claims = new.status.resource_claim_statuses if new.status else None
    if (old_claims or []) != (new_claims or []):
        action |= Action.UPDATE_POD_RESOURCE_CLAIMS
    return action or Action.UPDATE_OTHER


def node_changes(old: Node, new: Node) -> Action:
    """Return what an update of a node changed, as far as scheduling is concerned; empty if nothing did."""
    action = Action(0)
    was_unschedulable = bool(old.spec and old.spec.unschedulable)
    if was_unschedulable and not (new.spec and new.spec.unschedulable):
        action |= Action.UPDATE_NODE_TAINT
    if ((old.spec and old.spec.taints) or []) != ((new.spec and new.spec.taints) or []):
        action |= Action.UPDATE_NODE_TAINT
    if ((old.status and old.status.allocatable) or {}) != ((new.status and new.status.allocatable) or {}):
        action |= Action.UPDATE_NODE_ALLOCATABLE
    if (old.metadata.labels or {}) != (new.metadata.labels or {}):
        action |= Action.UPDATE_NODE_LABEL
    if (old.metadata.annotations or {}) != (new.metadata.annotations or {}):
        action |= Action.UPDATE_NODE_ANNOTATION
    if _conditions(old) != _conditions(new):
        action |= Action.UPDATE_NODE_CONDITION
    return action


def _conditions(node: Node) -> dict[str | None, str | None]:
    return {each.type: each.status for each in (node.status.conditions if node.status else None) or ()}
