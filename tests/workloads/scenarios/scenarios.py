"""Scenarios that are run with Kubernetes' own components and with ours, on simulated nodes.

A scenario has a namespace of its own, and returns when the cluster has reached the state that it waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.waiting import eventually
from tests.workloads.controllers.conftest import template

from kubewright.api.apps.v1 import Deployment, StatefulSet
from kubewright.api.batch.v1 import Job
from kubewright.api.conditions import get_condition
from kubewright.api.core.v1 import Node, Pod
from kubewright.api.errors import AlreadyExists, NotFound, TooManyRequests
from kubewright.api.unstructured import Unstructured
from kubewright.client import Client, patches

from .history import HistoryRecorder, Object

TIMEOUT = 90.0
SETTLE_SECONDS = 2.0
"""Time in which watches start, and in which the last events and statuses are written."""
LABELS = {"app": "web"}
FAIL_PULL = "sim.kubewright.dev/image-pull-error"


class ScenarioCluster:
    """A client with the namespace of a scenario."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.history = HistoryRecorder(client, namespace)

    async def create(self, kind: str, name: str, api_version: str = "apps/v1", **fields: Any) -> None:
        """Create an object in the namespace."""
        metadata = {"name": name, "namespace": self.namespace}
        await self.client.create({"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields})

    async def patch(self, kind: Any, name: str, change: Object) -> None:
        """Patch an object."""
        patch = patches.strategic_merge_patch(change)
        await self.client.patch(kind, name, patch, namespace=self.namespace)

    async def wait(self, check: Callable[[], Awaitable[Any]]) -> Any:
        """Wait until a check returns a true value."""
        return await eventually(check, timeout=TIMEOUT)

    async def pods(self, phase: str = "Running", labels: dict[str, str] | None = None) -> list[Pod]:
        """Return the pods of a phase that are not terminating."""
        found = await self.client.list(Pod, namespace=self.namespace, labels=labels)
        return [
            pod
            for pod in found
            if pod.metadata.deletion_timestamp is None and pod.status and pod.status.phase == phase
        ]

    async def rolled_out(self) -> bool:
        """Whether the Deployment `web` is complete."""
        deployment = await self.client.get(Deployment, "web", namespace=self.namespace)
        status = deployment.status
        if status is None or deployment.spec is None:
            return False
        counts = {status.replicas, status.updated_replicas, status.available_replicas}
        return (
            status.observed_generation == deployment.metadata.generation
            and counts == {deployment.spec.replicas}
            and not status.terminating_replicas
        )

    async def progress_failed(self) -> bool:
        """Whether the progress deadline of the Deployment `web` was exceeded."""
        deployment = await self.client.get(Deployment, "web", namespace=self.namespace)
        conditions = (deployment.status.conditions if deployment.status else None) or []
        progressing = get_condition(conditions, "Progressing")
        return progressing is not None and progressing.reason == "ProgressDeadlineExceeded"


def deployment_spec(replicas: int, **fields: Any) -> Object:
    """Return the spec of the Deployment `web`."""
    pods = template(LABELS, image="web:1")
    return {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": pods, **fields}


def image(name: str) -> Object:
    """Return a patch of the template of a workload."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": name}]}}}}


async def rollout(cluster: ScenarioCluster) -> None:
    """Three replicas, a new image, then five replicas."""
    await cluster.create("Deployment", "web", spec=deployment_spec(3))
    await cluster.wait(cluster.rolled_out)
    await cluster.patch(Deployment, "web", image("web:2"))
    await cluster.wait(cluster.rolled_out)
    await cluster.patch(Deployment, "web", {"spec": {"replicas": 5}})
    await cluster.wait(cluster.rolled_out)


async def failed_rollout(cluster: ScenarioCluster) -> None:
    """An image that cannot be pulled exceeds the progress deadline; the image is set back."""
    await cluster.create("Deployment", "web", spec=deployment_spec(2, progressDeadlineSeconds=4))
    await cluster.wait(cluster.rolled_out)
    broken = image("web:broken")
    broken["spec"]["template"]["metadata"] = {"annotations": {FAIL_PULL: "not found"}}
    await cluster.patch(Deployment, "web", broken)
    await cluster.wait(cluster.progress_failed)
    restored = image("web:1")
    restored["spec"]["template"]["metadata"] = {"annotations": {FAIL_PULL: None}}
    await cluster.patch(Deployment, "web", restored)
    await cluster.wait(cluster.rolled_out)


async def stateful_set_roll(cluster: ScenarioCluster) -> None:
    """Three ordered pods, then a new image."""
    labels = {"app": "db"}
    spec = {"replicas": 3, "serviceName": "db", "selector": {"matchLabels": labels}}
    await cluster.create("StatefulSet", "db", spec={**spec, "template": template(labels, image="db:1")})

    async def complete() -> bool:
        found = await cluster.client.get(StatefulSet, "db", namespace=cluster.namespace)
        status = found.status
        return (
            status is not None
            and status.observed_generation == found.metadata.generation
            and (status.updated_replicas, status.available_replicas) == (3, 3)
            and status.current_revision == status.update_revision
        )

    await cluster.wait(complete)
    await cluster.patch(StatefulSet, "db", image("db:2"))
    await cluster.wait(complete)


async def indexed_job(cluster: ScenarioCluster) -> None:
    """Four indexes, two at a time; each may fail once, and no pod does."""
    pods = template({"app": "job"}, restartPolicy="Never")
    spec = {"completions": 4, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1}
    await cluster.create("Job", "work", "batch/v1", spec={**spec, "template": pods})

    async def complete() -> bool:
        job = await cluster.client.get(Job, "work", namespace=cluster.namespace)
        conditions = (job.status.conditions if job.status else None) or []
        return any(each.type == "Complete" and each.status == "True" for each in conditions)

    await cluster.wait(complete)


async def drain_under_budget(cluster: ScenarioCluster) -> None:
    """All pods of a node are evicted, while a budget allows one disruption at a time."""
    budget = {"minAvailable": 3, "selector": {"matchLabels": LABELS}}
    await cluster.create("PodDisruptionBudget", "web", "policy/v1", spec=budget)
    pods = template(LABELS, nodeSelector={"pool": "drained"})
    await _label_nodes(cluster.client, {"node-0": "drained", "node-1": None})
    await cluster.create("Deployment", "web", spec={**deployment_spec(4), "template": pods})
    await cluster.wait(cluster.rolled_out)
    await _label_nodes(cluster.client, {"node-1": "drained"})
    cordon = patches.merge_patch({"spec": {"unschedulable": True}})
    await cluster.client.patch(Node, "node-0", cordon)
    try:
        for pod in await cluster.pods():
            await _evict(cluster, pod.name)
        await cluster.wait(cluster.rolled_out)
    finally:
        uncordon = patches.merge_patch({"spec": {"unschedulable": None}})
        await cluster.client.patch(Node, "node-0", uncordon)
        await _label_nodes(cluster.client, {"node-0": None, "node-1": None})


async def _label_nodes(client: Client, pools: dict[str, str | None]) -> None:
    for name, pool in pools.items():
        await client.patch(Node, name, patches.merge_patch({"metadata": {"labels": {"pool": pool}}}))


async def _evict(cluster: ScenarioCluster, pod: str) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction"}
    metadata = {"name": pod, "namespace": cluster.namespace}
    subresource = cluster.client.subresource("eviction", Pod, pod, namespace=cluster.namespace)

    async def evicted() -> bool:
        try:
            await subresource.create(Unstructured({**eviction, "metadata": metadata}))
        except TooManyRequests:
            return False
        except NotFound:
            return True
        return True

    await cluster.wait(evicted)
    # The budget counts the eviction when the controller has observed it; a drain waits for the pod.
    await cluster.wait(lambda: _is_deleted(cluster, pod))


async def _is_deleted(cluster: ScenarioCluster, pod: str) -> bool:
    return await cluster.client.get_or_none(Pod, pod, namespace=cluster.namespace) is None


async def preemption(cluster: ScenarioCluster) -> None:
    """A pod with a higher priority takes the place of a pod on the only node that it can use."""
    await _label_nodes(cluster.client, {"node-2": "small"})
    for name, value in (("low", 10), ("high", 1000)):
        priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
        try:
            await cluster.client.create({**priority, "metadata": {"name": name}})
        except AlreadyExists:
            continue
    await cluster.create("Pod", "low", "v1", spec=_large_pod("low"))
    await cluster.wait(lambda: cluster.pods())
    await cluster.create("Pod", "high", "v1", spec=_large_pod("high"))

    async def replaced() -> bool:
        return [pod.name for pod in await cluster.pods()] == ["high"]

    await cluster.wait(replaced)


def _large_pod(priority: str) -> Object:
    resources = {"requests": {"cpu": "5"}}
    return {
        "priorityClassName": priority,
        "nodeSelector": {"pool": "small"},
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "image": "i:1", "resources": resources}],
    }


Scenario = Callable[[ScenarioCluster], Awaitable[None]]
SCENARIOS: tuple[Scenario, ...] = (
    rollout,
    failed_rollout,
    stateful_set_roll,
    indexed_job,
    drain_under_budget,
    preemption,
)
NODES = 5


async def run_scenario(client: Client, scenario: Scenario) -> dict[str, Any]:
    """Run a scenario in a new namespace and return its history."""
    namespace = scenario.__name__.replace("_", "-")
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})

    async def has_account() -> bool:
        account = await client.get_or_none("serviceaccounts", "default", namespace=namespace)
        return account is not None

    await eventually(has_account, timeout=TIMEOUT)
    cluster = ScenarioCluster(client, namespace)
    async with cluster.history as history:
        await asyncio.sleep(SETTLE_SECONDS)
        await scenario(cluster)
        await asyncio.sleep(SETTLE_SECONDS)
        return await history.result()
