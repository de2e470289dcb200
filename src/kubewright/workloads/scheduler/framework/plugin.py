"""`Plugin`: the extension points of the scheduling framework.

A plug-in is a subclass that overrides the hooks it needs:

    class SpreadByRack(Plugin):
        def filter(self, state, pod, node):
            if "rack" not in node.labels:
                return Status.unresolvable("node(s) had no rack")
            return None

Hooks of the scheduling cycle are plain functions, because a cycle evaluates them for many nodes; hooks that
may wait for the API (PostFilter, PreBind, Bind, PostBind) are coroutines. A hook returns `None` for success.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from kubewright.api.meta import MetaObject
from kubewright.workloads.scheduler.state.node_info import NodeInfo
from kubewright.workloads.scheduler.state.pod_info import PodInfo

from .cluster_events import WILDCARD, Action, ClusterEvent
from .cycle_state import CycleState
from .status import Diagnosis, SchedulingStatus

if TYPE_CHECKING:
    from kubewright.workloads.scheduler.queue import QueuedPod

    from .handle import Handle

MAX_NODE_SCORE = 100


class PostFilterResult(NamedTuple):
    """Result of PostFilter."""

    status: SchedulingStatus | None
    """`None` if the pod is expected to fit after the changes that the plug-in has started."""
    nominated_node: str | None = None
    """Node to nominate; empty to clear the nomination, `None` to keep it."""


class Plugin:
    """Base of scheduling plug-ins. Override the hooks of the extension points that the plug-in has.

    A plug-in is created once per profile, with the handle of the scheduler and its arguments from the profile
    as keyword arguments.
    """

    name: ClassVar[str] = ""
    """Name in profiles, statuses and logs; the name of the class unless set."""
    kinds: ClassVar[tuple[type[MetaObject], ...]] = ()
    """Kinds that the plug-in reads with `handle.lister`; the scheduler runs informers for them."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def events(self) -> Iterable[ClusterEvent]:
        """Return the cluster events that can make a pod schedulable that this plug-in has rejected."""
        return (ClusterEvent(WILDCARD, Action.ALL),)

    # Queue

    def sort_key(self, pod: QueuedPod) -> Any:
        """QueueSort: return the key that orders the active queue; the smallest is scheduled first.

        Exactly one plug-in of a profile has this hook, and all profiles of a scheduler the same one.
        """
        raise NotImplementedError

    def pre_enqueue(self, pod: PodInfo) -> SchedulingStatus | None:
        """PreEnqueue: reject a pod to keep it out of the active queue."""
        raise NotImplementedError

    # Scheduling cycle

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> SchedulingStatus | frozenset[str] | None:
        """PreFilter: prepare Filter; return node names to consider no others, `SKIP` to skip Filter."""
        raise NotImplementedError

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Update the state of PreFilter: preemption simulates that a pod is added to a node."""
        raise NotImplementedError

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Update the state of PreFilter: preemption simulates that a pod is removed from a node."""
        raise NotImplementedError

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> SchedulingStatus | None:
        """Filter: reject a node that the pod cannot run on."""
        raise NotImplementedError

    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> PostFilterResult:
        """PostFilter: called if no node fits; try to make the pod schedulable."""
        raise NotImplementedError

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> SchedulingStatus | None:
        """PreScore: prepare Score; return `SKIP` to skip it."""
        raise NotImplementedError

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Score: rate a node that fits. The result, after normalization, is between 0 and 100."""
        raise NotImplementedError

    def normalize_scores(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], scores: list[int]
    ) -> list[int]:
        """Score: convert the scores of all nodes to the range 0 to 100."""
        raise NotImplementedError

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> SchedulingStatus | None:
        """Reserve: a node was selected; record resources that the plug-in manages."""
        raise NotImplementedError

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Undo `reserve`, which may not have been called. It must not fail."""
        raise NotImplementedError

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> SchedulingStatus | None:
        """Permit: allow, reject, or delay the binding with `Status.wait(timeout)`."""
        raise NotImplementedError

    # Binding cycle

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> SchedulingStatus | None:
        """PreBind: work that has to be finished before the pod is bound, such as provisioning a volume."""
        raise NotImplementedError

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> SchedulingStatus | None:
        """Bind: bind the pod; return `SKIP` to leave it to the next plug-in."""
        raise NotImplementedError

    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """PostBind: the pod is bound."""
        raise NotImplementedError

    @classmethod
    def implements(cls, hook: str) -> bool:
        """Whether the plug-in overrides a hook."""
        return getattr(cls, hook) is not getattr(Plugin, hook)


def normalize_by_maximum(scores: list[int], *, reverse: bool = False) -> list[int]:
    """Scale scores so that the largest becomes 100; with `reverse` the largest becomes 0."""
    largest = max(scores, default=0)
    if largest == 0:
        return [MAX_NODE_SCORE] * len(scores) if reverse else scores
    if reverse:
        return [MAX_NODE_SCORE - MAX_NODE_SCORE * score // largest for score in scores]
    return [MAX_NODE_SCORE * score // largest for score in scores]
