"""Status of PodDisruptionBudgets, and eviction within it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from kubewright.api.core.v1 import Pod
from kubewright.api.errors import TooManyRequests
from kubewright.api.policy.v1 import Eviction, PodDisruptionBudget
from kubewright.client import patches


def budget(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


async def replica_set(cluster: Any, replicas: int) -> dict[str, Any]:
    """Create a ReplicaSet, which no controller runs, and return its owner reference."""
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    made = await cluster.client.create(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": template,
            },
        }
    )
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }


async def status_of(cluster: Any) -> Any:
    return (await cluster.client.get(PodDisruptionBudget, "web", namespace="default")).status


async def evict(cluster: Any, name: str) -> None:
    pod = await cluster.client.get(Pod, name, namespace="default")
    eviction = Eviction(metadata=pod.metadata.__class__(name=name, namespace="default"))
    await cluster.client.subresource("eviction", pod).create(eviction)


async def test_budget_and_eviction(run: Any, pod: Any, node: Any) -> None:
    async with run("disruption-controller") as cluster:
        client = cluster.client
        await client.create(node("n1"))
        owner = await replica_set(cluster, 4)
        await client.create(budget(maxUnavailable="25%"))
        for number in range(4):
            made = pod(f"p{number}", {"app": "web"})
            made["metadata"]["ownerReferences"] = [owner]
            await client.create(made)
            await cluster.set_pod(f"p{number}")

        async def allowed() -> Any:
            found = await status_of(cluster)
            return found if found.disruptions_allowed == 1 else None

        found = await cluster.eventually(allowed)
        assert (found.expected_pods, found.desired_healthy, found.current_healthy) == (4, 3, 4)
        (condition,) = found.conditions
        assert (condition.type, condition.status, condition.reason) == (
            "DisruptionAllowed",
            "True",
            "SufficientPods",
        )
        await evict(cluster, "p0")
        with pytest.raises(TooManyRequests, match="Cannot evict pod as it would violate"):
            await evict(cluster, "p1")
        await asyncio.sleep(1)
        found = await status_of(cluster)
        assert (found.current_healthy, found.disruptions_allowed) == (3, 0)
        assert found.disrupted_pods is None, "the pod is being deleted"
        assert found.conditions[0].reason == "InsufficientPods"
        writes = len(cluster.requests)
        await asyncio.sleep(600)
        assert len(cluster.requests) == writes


async def test_unmanaged_pods_and_no_pods(run: Any, pod: Any) -> None:
    async with run("disruption-controller") as cluster:
        await cluster.client.create(budget(minAvailable=1))
        await asyncio.sleep(1)
        assert ("NoPods", "No matching pods found") in await cluster.events()
        await cluster.client.create(pod("a", {"app": "web"}))
        await cluster.client.create(pod("b", {"app": "web"}))
        await cluster.set_pod("a")
        await cluster.set_pod("b", ready=False)
        await asyncio.sleep(1)
        found = await status_of(cluster)
        assert (found.expected_pods, found.desired_healthy, found.current_healthy) == (2, 1, 1)
        assert (found.disruptions_allowed, found.observed_generation) == (0, 1)
        # A pod that is not ready may be evicted because enough others are healthy.
        await evict(cluster, "b")
        change = patches.merge_patch({"spec": {"minAvailable": "50%"}})
        await cluster.client.patch("poddisruptionbudgets", "web", change, namespace="default")
        await asyncio.sleep(1)
        (text,) = [text for reason, text in await cluster.events() if reason == "UnmanagedPods"]
        assert (
            "(selector: &LabelSelector{MatchLabels:map[string]string{app: web,},"
            "MatchExpressions:[]LabelSelectorRequirement{},})"
        ) in text


async def test_stale_disruption_target(run: Any, pod: Any) -> None:
    async with run("disruption-controller") as cluster:
        await cluster.client.create(budget(minAvailable=0))
        await cluster.client.create(pod("a", {"app": "web"}))
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "lastTransitionTime": moment,
        }
        await cluster.set_pod("a", conditions=[condition])
        await asyncio.sleep(100)

        async def status() -> str:
            found = await cluster.client.get(Pod, "a", namespace="default")
            return next(each.status for each in found.status.conditions if each.type == "DisruptionTarget")

        assert await status() == "True"
        await asyncio.sleep(30)
        assert await status() == "False"
