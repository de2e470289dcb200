"""Eviction of all pods of a simulated node, as `kubectl drain --ignore-daemonsets --force` does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kubewright.api.errors import NotFound, TooManyRequests
from kubewright.api.unstructured import Unstructured
from kubewright.workloads.nodes.objects import POD, owner_kind

if TYPE_CHECKING:
    from kubewright.workloads.nodes.containers.runtime import PodIdentity
    from kubewright.workloads.nodes.simulation import SimulatedNodes

    from .node_state import NodeState

RETRY_SECONDS: Final = 5.0
"""Seconds between attempts to evict a pod whose disruption budget does not allow it."""


async def drain(nodes: SimulatedNodes, node: NodeState) -> None:
    """Evict the pods of a node that no DaemonSet owns, and wait until they are deleted."""
    pods = [
        worker.identity
        for worker in nodes.workers.values()
        if worker.node is node and owner_kind(worker.pod) != "DaemonSet"
    ]
    await asyncio.gather(*(_evict(nodes, pod) for pod in pods))


async def _evict(nodes: SimulatedNodes, pod: PodIdentity) -> None:
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
    }
    subresource = nodes.client.subresource("eviction", POD, pod.name, namespace=pod.namespace)
    while True:
        try:
            await subresource.create(Unstructured(eviction))
            break
        except NotFound:
            return
        except TooManyRequests:
            await asyncio.sleep(RETRY_SECONDS)
    await nodes.wait_for_deletion(pod)
