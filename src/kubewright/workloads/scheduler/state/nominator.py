"""`Nominator`: pods that preemption has nominated for a node and that are not scheduled yet.

Pods of lower priority must not take the resources that preemption frees for them.
"""

from __future__ import annotations

from collections.abc import Iterable

from .pod_info import PodInfo


class Nominator:
    """Nominated pods by node."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, PodInfo]] = {}
        self._node_of: dict[str, str] = {}

    def set(self, pod: PodInfo, node_name: str) -> None:
        """Nominate a pod for a node; an empty name removes its nomination."""
        self.remove(pod.uid)
        if node_name:
            self._nodes.setdefault(node_name, {})[pod.uid] = pod
            self._node_of[pod.uid] = node_name

    def remove(self, uid: str) -> None:
        """Remove the nomination of a pod, if any."""
        node_name = self._node_of.pop(uid, None)
        if node_name is not None:
            pods = self._nodes[node_name]
            del pods[uid]
            if not pods:
                del self._nodes[node_name]

    def node_of(self, uid: str) -> str:
        """Return the node that a pod is nominated for; empty if it is not nominated."""
        return self._node_of.get(uid, "")

    def pods_for(self, node_name: str) -> Iterable[PodInfo]:
        """Return the pods that are nominated for a node."""
        return self._nodes.get(node_name, {}).values()

    def __bool__(self) -> bool:
        return bool(self._nodes)
