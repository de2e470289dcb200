"""ImageLocality: prefers nodes that have the images of the pod. Not enabled by default."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.workloads.scheduler.framework.cluster_events import ClusterEvent
from kubewright.workloads.scheduler.framework.cycle_state import CycleState
from kubewright.workloads.scheduler.framework.plugin import MAX_NODE_SCORE, Plugin
from kubewright.workloads.scheduler.state.node_info import NodeInfo
from kubewright.workloads.scheduler.state.pod_info import PodInfo

MIN_SIZE = 23 * 1024 * 1024
MAX_SIZE_PER_CONTAINER = 1000 * 1024 * 1024


class ImageLocality(Plugin):
    """Scores the size of the images that the node has, weighted by how many nodes have them."""

    def events(self) -> Iterable[ClusterEvent]:
        """No pod is rejected."""
        return ()

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate the total size of the images of the pod that are on the node."""
        spec = pod.pod.spec
        if spec is None:
            return 0
        containers = (*(spec.init_containers or ()), *(spec.containers or ()))
        names = [_normalize(container.image or "") for container in containers]
        names += [_normalize(each.image.reference or "") for each in spec.volumes or () if each.image]
        snapshot = self.handle.snapshot
        total = 0
        for name in names:
            size = node.images.get(name)
            if size:
                total += int(size * (snapshot.image_nodes.get(name, 0) / len(snapshot)))
        limit = MAX_SIZE_PER_CONTAINER * len(containers)
        total = min(max(total, MIN_SIZE), limit)
        return MAX_NODE_SCORE * (total - MIN_SIZE) // (limit - MIN_SIZE)


def _normalize(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
