"""The scheduler without API writes: pods of a queue are placed on nodes, with all built-in plug-ins.

`plain` pods request CPU and memory and belong to 50 ReplicaSets, so that the default spread constraints are
evaluated; `spread` pods have a zone constraint, `anti-affinity` pods must not share a node with each other.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

from bench import Benchmark
from kubewright.api.apps.v1 import ReplicaSet, ReplicaSetSpec
from kubewright.api.core.v1 import (
    Affinity,
    Container,
    Node,
    NodeStatus,
    Pod,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSpec,
    ResourceRequirements,
    TopologySpreadConstraint,
)
from kubewright.api.meta import LabelSelector, ObjectMeta, OwnerReference
from kubewright.api.values.quantity import Quantity
from kubewright.workloads.scheduler import SchedulerCore, StaticLister

REPLICA_SETS = 50
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def _node(number: int) -> Node:
    labels = {HOSTNAME: f"node-{number}", ZONE: f"zone-{number % 3}"}
    amounts = {"cpu": Quantity("32"), "memory": Quantity("128Gi"), "pods": Quantity("110")}
    return Node(
        metadata=ObjectMeta(name=f"node-{number}", labels=labels), status=NodeStatus(allocatable=amounts)
    )


def _pod(number: int, **spec: Any) -> Pod:
    app = f"app-{number % REPLICA_SETS}"
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=app, uid=app, controller=True)
    requests = {"cpu": Quantity("100m"), "memory": Quantity("128Mi")}
    container = Container(
        name="main", image="example.com/app:1", resources=ResourceRequirements(requests=requests)
    )
    return Pod(
        metadata=ObjectMeta(
            name=f"pod-{number}",
            namespace="default",
            uid=f"uid-{number}",
            labels={"app": app},
            owner_references=[owner],
        ),
        spec=PodSpec(containers=[container], **spec),
    )


def _spread(number: int) -> Pod:
    constraint = TopologySpreadConstraint(
        topology_key=ZONE,
        max_skew=1,
        when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector(match_labels={"app": f"app-{number % REPLICA_SETS}"}),
    )
    return _pod(number, topology_spread_constraints=[constraint])


def _anti_affinity(number: int) -> Pod:
    term = PodAffinityTerm(
        topology_key=HOSTNAME,
        label_selector=LabelSelector(match_labels={"app": f"app-{number % REPLICA_SETS}"}),
    )
    affinity = Affinity(
        pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=[term])
    )
    return _pod(number, affinity=affinity)


def _replica_sets() -> list[ReplicaSet]:
    return [
        ReplicaSet(
            metadata=ObjectMeta(name=f"app-{number}", namespace="default"),
            spec=ReplicaSetSpec(selector=LabelSelector(match_labels={"app": f"app-{number}"})),
        )
        for number in range(REPLICA_SETS)
    ]


def _schedule(nodes: int, pods: int, create: Any = _pod) -> None:
    """Schedule pods on empty nodes; all of them have to fit."""
    core = SchedulerCore(lister=StaticLister(_replica_sets()), rng=random.Random(1))
    for number in range(nodes):
        core.set_node(_node(number))
    for number in range(pods):
        core.set_pod(create(number))
    bound = asyncio.run(core.run_until_idle())
    if bound != pods:
        raise RuntimeError(f"only {bound} of {pods} pods were scheduled")


def _schedule_in_full_cluster() -> float:
    """Schedule 500 pods on 500 nodes that run 9,500 pods; return CPU seconds per pod."""
    core = SchedulerCore(lister=StaticLister(_replica_sets()), rng=random.Random(1))
    for number in range(500):
        core.set_node(_node(number))
    for number in range(9_500):
        core.set_pod(_pod(number, node_name=f"node-{number % 500}"))
    for number in range(9_500, 10_000):
        core.set_pod(_pod(number))
    start = time.process_time()
    asyncio.run(core.run_until_idle())
    return (time.process_time() - start) / 500


def benchmarks() -> list[Benchmark]:
    """Total CPU for a number of pods."""
    return [
        Benchmark(
            name="1,000 plain pods, 20 nodes",
            run=lambda: _schedule(20, 1000),
            target_ms=2000,
        ),
        Benchmark(
            name="1,000 spread pods, 20 nodes",
            run=lambda: _schedule(20, 1000, _spread),
            target_ms=2000,
        ),
        Benchmark(
            name="1,000 anti-affinity pods, 20 nodes",
            run=lambda: _schedule(20, 1000, _anti_affinity),
            target_ms=2000,
        ),
        Benchmark(
            name="one pod of 10,000, 500 nodes",
            run=_schedule_in_full_cluster,
            self_timed=True,
            target_ms=5,
        ),
    ]
