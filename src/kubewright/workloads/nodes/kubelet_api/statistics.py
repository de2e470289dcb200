"""Usage of simulated nodes and pods: `/stats/summary` and `/metrics/resource`.

The usage of containers is that of `kubewright.workloads.pod_metrics`, which `kubectl top` and autoscaling
read as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.api.core.v1 import Pod, PodStatus
from kubewright.api.encoding.codec import decode
from kubewright.workloads.nodes.containers.container_state import ContainerState
from kubewright.workloads.nodes.objects import Object

if TYPE_CHECKING:
    from kubewright.workloads.nodes.pods.pod_worker import PodWorker
    from kubewright.workloads.nodes.registration.node_state import NodeState
    from kubewright.workloads.nodes.simulation import SimulatedNodes

Usage = tuple[float, int]
"""CPU in cores and memory in bytes."""


async def _usage_of(nodes: SimulatedNodes, worker: PodWorker) -> list[tuple[ContainerState, Usage]]:
    """Return the running containers of a pod and their usage."""
    pod = decode(worker.encoded, Pod)
    # The stored status can be older than the containers.
    pod.status = PodStatus(phase="Running")
    found = await nodes.metrics.containers(pod)
    usages: list[tuple[ContainerState, Usage]] = []
    for each in worker.containers:
        if each.is_running and each.name in found:
            usage = found[each.name]
            cpu, memory = usage.get("cpu"), usage.get("memory")
            usages.append((each, (float(cpu) if cpu else 0.0, int(memory) if memory else 0)))
    return usages


def _pods(nodes: SimulatedNodes, node: NodeState) -> list[PodWorker]:
    return [worker for worker in nodes.workers.values() if worker.node is node and not worker.is_finished]


async def summary(nodes: SimulatedNodes, node: NodeState) -> Object:
    """Return the body of `/stats/summary`."""
    stamp = nodes.clock.stamp()
    total_cpu, total_memory = 0.0, 0
    pods: list[Object] = []
    for worker in _pods(nodes, node):
        usages = await _usage_of(nodes, worker)
        cpu, memory = sum(used[0] for _, used in usages), sum(used[1] for _, used in usages)
        total_cpu, total_memory = total_cpu + cpu, total_memory + memory
        identity = worker.identity
        pods.append(
            {
                "podRef": {"name": identity.name, "namespace": identity.namespace, "uid": identity.uid},
                "startTime": worker.start_time,
                "containers": [
                    {"name": each.name, "startTime": worker.start_time, **_statistics(stamp, *used)}
                    for each, used in usages
                ],
                **_statistics(stamp, cpu, memory),
            }
        )
    return {"node": {"nodeName": node.name, **_statistics(stamp, total_cpu, total_memory)}, "pods": pods}


def _statistics(stamp: str, cpu: float, memory: int) -> Object:
    nanos = round(cpu * 1e9)
    return {
        "cpu": {"time": stamp, "usageNanoCores": nanos, "usageCoreNanoSeconds": nanos},
        "memory": {"time": stamp, "workingSetBytes": memory, "usageBytes": memory, "rssBytes": memory},
    }


async def resource_metrics(nodes: SimulatedNodes, node: NodeState) -> str:
    """Return the body of `/metrics/resource`, in the format of Prometheus."""
    seconds = nodes.clock.time()
    lines = [
        "# TYPE container_cpu_usage_seconds_total counter",
        "# TYPE container_memory_working_set_bytes gauge",
        "# TYPE node_cpu_usage_seconds_total counter",
        "# TYPE node_memory_working_set_bytes gauge",
    ]
    total_cpu, total_memory = 0.0, 0
    for worker in _pods(nodes, node):
        identity = worker.identity
        for each, (cpu, memory) in await _usage_of(nodes, worker):
            used = cpu * max(0.0, seconds - each.since)
            total_cpu, total_memory = total_cpu + used, total_memory + memory
            labels = f'container="{each.name}",namespace="{identity.namespace}",pod="{identity.name}"'
            lines.append(f"container_cpu_usage_seconds_total{{{labels}}} {used:.6f}")
            lines.append(f"container_memory_working_set_bytes{{{labels}}} {memory}")
    lines.append(f"node_cpu_usage_seconds_total {total_cpu:.6f}")
    lines.append(f"node_memory_working_set_bytes {total_memory}")
    return "\n".join(lines) + "\n"
