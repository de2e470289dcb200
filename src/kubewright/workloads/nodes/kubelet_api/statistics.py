"""Usage of simulated nodes and pods: `/stats/summary` and `/metrics/resource`.

The usage of a container is what `PodControl.set(usage_cpu=..., usage_memory=...)` or annotations declare, or
a tenth of its CPU request and half of its memory request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.workloads.nodes.container_state import ContainerState
from kubewright.workloads.nodes.objects import Object, amount_of

if TYPE_CHECKING:
    from kubewright.workloads.nodes.node_state import NodeState
    from kubewright.workloads.nodes.pod_worker import PodWorker
    from kubewright.workloads.nodes.simulation import SimulatedNodes

_IDLE_CPU = 1
_IDLE_MEMORY = 8 << 20


def container_usage(container: ContainerState) -> tuple[int, int]:
    """Return the usage of a container: CPU in thousandths, memory in bytes."""
    if not container.is_running or container.run is None:
        return 0, 0
    behaviour = container.run.behaviour
    requests = container.resources.get("requests") or {}
    cpu = behaviour.usage_cpu
    memory = behaviour.usage_memory
    return (
        amount_of("cpu", cpu) if cpu else amount_of("cpu", requests.get("cpu", "0")) // 10 or _IDLE_CPU,
        amount_of("memory", memory)
        if memory
        else amount_of("memory", requests.get("memory", "0")) // 2 or _IDLE_MEMORY,
    )


def _pods(nodes: SimulatedNodes, node: NodeState) -> list[PodWorker]:
    return [worker for worker in nodes.workers.values() if worker.node is node and not worker.is_finished]


def summary(nodes: SimulatedNodes, node: NodeState) -> Object:
    """Return the body of `/stats/summary`."""
    stamp = nodes.clock.stamp()
    total_cpu = total_memory = 0
    pods: list[Object] = []
    for worker in _pods(nodes, node):
        containers: list[Object] = []
        cpu = memory = 0
        for each in worker.containers:
            used = container_usage(each)
            if each.is_running:
                cpu, memory = cpu + used[0], memory + used[1]
                containers.append({"name": each.name, "startTime": worker.start_time, **_usage(stamp, *used)})
        total_cpu, total_memory = total_cpu + cpu, total_memory + memory
        identity = worker.identity
        pods.append(
            {
                "podRef": {"name": identity.name, "namespace": identity.namespace, "uid": identity.uid},
                "startTime": worker.start_time,
                "containers": containers,
                **_usage(stamp, cpu, memory),
            }
        )
    return {"node": {"nodeName": node.name, **_usage(stamp, total_cpu, total_memory)}, "pods": pods}


def _usage(stamp: str, cpu: int, memory: int) -> Object:
    return {
        "cpu": {"time": stamp, "usageNanoCores": cpu * 1_000_000, "usageCoreNanoSeconds": cpu * 1_000_000},
        "memory": {"time": stamp, "workingSetBytes": memory, "usageBytes": memory, "rssBytes": memory},
    }


def resource_metrics(nodes: SimulatedNodes, node: NodeState) -> str:
    """Return the body of `/metrics/resource`, in the format of Prometheus."""
    seconds = nodes.clock.time()
    lines = [
        "# TYPE container_cpu_usage_seconds_total counter",
        "# TYPE container_memory_working_set_bytes gauge",
        "# TYPE node_cpu_usage_seconds_total counter",
        "# TYPE node_memory_working_set_bytes gauge",
    ]
    total_cpu = total_memory = 0
    for worker in _pods(nodes, node):
        identity = worker.identity
        for each in worker.containers:
            cpu, memory = container_usage(each)
            if not each.is_running:
                continue
            total_cpu, total_memory = total_cpu + cpu, total_memory + memory
            labels = f'container="{each.name}",namespace="{identity.namespace}",pod="{identity.name}"'
            used = cpu / 1000 * max(0.0, seconds - each.since)
            lines.append(f"container_cpu_usage_seconds_total{{{labels}}} {used:.6f}")
            lines.append(f"container_memory_working_set_bytes{{{labels}}} {memory}")
    lines.append(f"node_cpu_usage_seconds_total {total_cpu / 1000 * seconds:.6f}")
    lines.append(f"node_memory_working_set_bytes {total_memory}")
    return "\n".join(lines) + "\n"


__all__ = ["container_usage", "resource_metrics", "summary"]
