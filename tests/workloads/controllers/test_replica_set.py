"""ReplicaSet and ReplicationController on the embedded control plane."""

from __future__ import annotations

from typing import Any

from tests.waiting import eventually

from kubewright.api.apps.v1 import ReplicaSet
from kubewright.api.core.v1 import Pod, ReplicationController
from kubewright.client import patches

from .conftest import HOLD, Cluster, manifest, template

LABELS = {"app": "web"}


def web(replicas: int, **spec: Any) -> dict[str, Any]:
    return manifest(
        "ReplicaSet",
        "web",
        {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template(LABELS), **spec},
    )


async def has_status(cluster: Cluster, **expected: int | None) -> ReplicaSet | None:
    found = await cluster.client.get(ReplicaSet, "web", namespace="default")
    actual = {name: getattr(found.status, name, None) for name in expected}
    return found if actual == expected else None


async def test_creates_pods_and_reports_them(cluster: Cluster) -> None:
    await cluster.client.create(web(3))
    found = await eventually(lambda: has_status(cluster, available_replicas=3, ready_replicas=3, replicas=3))
    assert found.status.fully_labeled_replicas == 3
    assert found.status.terminating_replicas == 0
    assert found.status.observed_generation == 1
    pods = await cluster.pods()
    assert len(pods) == 3
    for pod in pods:
        (owner,) = pod.metadata.owner_references or []
        assert (owner.kind, owner.name, owner.controller, owner.block_owner_deletion) == (
            "ReplicaSet",
            "web",
            True,
            True,
        )
        assert pod.name.startswith("web-")

    async def all_reported() -> bool:
        messages = {f"SuccessfulCreate: Created pod: {pod.name}" for pod in pods}
        return messages == set(await cluster.events("ReplicaSet", "web"))

    await eventually(all_reported)


async def test_replaces_deleted_and_finished_pods(cluster: Cluster) -> None:
    await cluster.client.create(web(2))
    await eventually(lambda: has_status(cluster, available_replicas=2))
    first, second = await cluster.pods()
    await cluster.client.delete(Pod, first.name, namespace="default")
    failed = patches.merge_patch({"status": {"phase": "Failed"}})
    await cluster.client.patch(Pod, second.name, failed, namespace="default", subresource="status")

    async def replaced() -> bool:
        names = {pod.name for pod in await cluster.pods() if pod.status and pod.status.phase == "Running"}
        return len(names) == 2 and not names & {first.name, second.name}

    await eventually(replaced)


async def test_deletes_pods_with_low_cost_first(cluster: Cluster) -> None:
    await cluster.client.create(web(4))
    await eventually(lambda: has_status(cluster, available_replicas=4))
    pods = await cluster.pods()
    costs = {pods[0].name: "10", pods[1].name: "-5", pods[2].name: "7", pods[3].name: "-6"}
    for name, cost in costs.items():
        change = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}}
        await cluster.client.patch(Pod, name, patches.merge_patch(change), namespace="default")
    await cluster.client.scale(ReplicaSet, "web", namespace="default", replicas=2)
    await eventually(lambda: has_status(cluster, replicas=2))
    assert {pod.name for pod in await cluster.pods()} == {pods[0].name, pods[2].name}


async def test_adopts_and_releases_pods(cluster: Cluster) -> None:
    orphan = manifest("Pod", "orphan", template(LABELS)["spec"], api_version="v1")
    orphan["metadata"]["labels"] = LABELS
    await cluster.client.create(orphan)
    await cluster.client.create(web(2))
    await eventually(lambda: has_status(cluster, available_replicas=2))
    pods = await cluster.pods()
    assert "orphan" in {pod.name for pod in pods}
    assert all(pod.metadata.owner_references for pod in pods)
    change = patches.merge_patch({"metadata": {"labels": {"app": "other"}}})
    await cluster.client.patch(Pod, "orphan", change, namespace="default")

    async def released() -> bool:
        orphan = await cluster.client.get(Pod, "orphan", namespace="default")
        return not orphan.metadata.owner_references and len(await cluster.pods(LABELS)) == 2

    await eventually(released)


async def test_reports_quota_failures(cluster: Cluster) -> None:
    await cluster.client.create(manifest("ResourceQuota", "few", {"hard": {"pods": "1"}}, api_version="v1"))

    async def quota_counted() -> bool:
        quota = await cluster.client.get("resourcequotas", "few", namespace="default")
        return bool(quota.raw.get("status"))

    await eventually(quota_counted)
    await cluster.client.create(web(3))

    async def failed() -> ReplicaSet | None:
        found = await has_status(cluster, replicas=1)
        return found if found is not None and found.status and found.status.conditions else None

    found = await eventually(failed)
    (condition,) = found.status.conditions
    assert (condition.type, condition.status, condition.reason) == ("ReplicaFailure", "True", "FailedCreate")
    assert "exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1" in condition.message
    await cluster.client.delete("resourcequotas", "few", namespace="default")

    async def recovered() -> bool:
        found = await has_status(cluster, replicas=3)
        return found is not None and not (found.status and found.status.conditions)

    await eventually(recovered)


async def test_min_ready_seconds(cluster: Cluster) -> None:
    await cluster.client.create(web(1, minReadySeconds=10))
    await eventually(lambda: has_status(cluster, ready_replicas=1, available_replicas=None))
    await eventually(lambda: has_status(cluster, ready_replicas=1, available_replicas=1))


async def test_status_is_not_written_without_changes(cluster: Cluster) -> None:
    await cluster.client.create(web(1))
    before = await eventually(lambda: has_status(cluster, available_replicas=1))
    (pod,) = await cluster.pods()
    change = patches.merge_patch({"metadata": {"annotations": {HOLD: "x"}}})
    await cluster.client.patch(Pod, pod.name, change, namespace="default")
    change = patches.merge_patch({"metadata": {"labels": {"seen": "x"}}})
    await cluster.client.patch(ReplicaSet, "web", change, namespace="default")
    await cluster.client.scale(ReplicaSet, "web", namespace="default", replicas=2)
    after = await eventually(lambda: has_status(cluster, available_replicas=2))
    assert after.status.observed_generation == before.status.observed_generation + 1


async def test_replication_controller(cluster: Cluster) -> None:
    spec = {"replicas": 2, "selector": LABELS, "template": template(LABELS)}
    await cluster.client.create(manifest("ReplicationController", "rc", spec, api_version="v1"))

    async def available() -> bool:
        found = await cluster.client.get(ReplicationController, "rc", namespace="default")
        return found.status is not None and found.status.available_replicas == 2

    await eventually(available)
    assert all(pod.name.startswith("rc-") for pod in await cluster.pods())
