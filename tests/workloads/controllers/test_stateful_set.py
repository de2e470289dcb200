"""StatefulSets on the embedded control plane."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.waiting import eventually

from kubewright.api.apps.v1 import (
    ControllerRevision,
    RollingUpdateStatefulSetStrategy,
    StatefulSet,
    StatefulSetSpec,
    StatefulSetUpdateStrategy,
)
from kubewright.api.core.v1 import PersistentVolumeClaim, Pod
from kubewright.client import patches
from kubewright.workloads.controllers.stateful_set.replicas import max_unavailable

from .conftest import Cluster, manifest, template

LABELS = {"app": "db"}


def db(replicas: int, **spec: Any) -> dict[str, Any]:
    return manifest(
        "StatefulSet",
        "db",
        {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": LABELS},
            "template": template(LABELS),
            **spec,
        },
    )


CLAIMS = [
    {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
]


async def has_status(cluster: Cluster, **expected: Any) -> StatefulSet | None:
    found = await cluster.client.get(StatefulSet, "db", namespace="default")
    actual = {name: getattr(found.status, name, None) for name in expected}
    return found if actual == expected else None


async def set_image(cluster: Cluster, image: str) -> None:
    change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}
    patch = patches.strategic_merge_patch(change)
    await cluster.client.patch(StatefulSet, "db", patch, namespace="default")


async def images(cluster: Cluster) -> dict[str, str | None]:
    return {
        pod.name: (pod.spec.containers or [])[0].image for pod in await cluster.pods() if pod.spec is not None
    }


async def claims(cluster: Cluster) -> set[str]:
    return {each.name for each in await cluster.client.list(PersistentVolumeClaim, namespace="default")}


async def observe(cluster: Cluster, seen: list[tuple[str, str]]) -> None:
    """Record creations and deletions of pods."""
    terminating: set[str | None] = set()
    async for event in cluster.client.watch(Pod, namespace="default"):
        meta = event.object.metadata
        if event.type == "ADDED":
            seen.append(("created", meta.name or ""))
        elif meta.deletion_timestamp is not None and meta.uid not in terminating:
            terminating.add(meta.uid)
            seen.append(("deleted", meta.name or ""))


async def test_pods_are_created_and_deleted_in_order(cluster: Cluster) -> None:
    seen: list[tuple[str, str]] = []
    observing = asyncio.create_task(observe(cluster, seen))
    await cluster.client.create(db(3))
    found = await eventually(lambda: has_status(cluster, available_replicas=3))
    assert found.status.current_revision == found.status.update_revision
    assert found.status.collision_count == 0
    await cluster.client.scale(StatefulSet, "db", namespace="default", replicas=1)
    await eventually(lambda: has_status(cluster, replicas=1))
    observing.cancel()
    assert seen == [
        ("created", "db-0"),
        ("created", "db-1"),
        ("created", "db-2"),
        ("deleted", "db-2"),
        ("deleted", "db-1"),
    ]
    (pod,) = await cluster.pods()
    assert pod.metadata.labels == {
        "app": "db",
        "apps.kubernetes.io/pod-index": "0",
        "controller-revision-hash": found.status.current_revision,
        "statefulset.kubernetes.io/pod-name": "db-0",
    }
    assert pod.spec is not None
    assert (pod.spec.hostname, pod.spec.subdomain) == ("db-0", "db")

    async def reported() -> bool:
        return await cluster.events("StatefulSet", "db") == [
            *(f"SuccessfulCreate: Create Pod db-{n} in StatefulSet db successful" for n in range(3)),
            *(f"SuccessfulDelete: Delete Pod db-{n} in StatefulSet db successful" for n in (2, 1)),
        ]

    await eventually(reported)


async def test_ordered_start_waits_for_readiness(cluster: Cluster) -> None:
    cluster.images_that_fail.add("nginx:1")
    await cluster.client.create(db(2))
    await eventually(lambda: has_status(cluster, replicas=1))
    await asyncio.sleep(10)
    (pod,) = await cluster.pods()
    await cluster.set_ready(pod)
    await eventually(lambda: has_status(cluster, replicas=2, ready_replicas=1))


async def test_parallel_pods_with_start_ordinal(cluster: Cluster) -> None:
    cluster.images_that_fail.add("nginx:1")
    await cluster.client.create(db(3, podManagementPolicy="Parallel", ordinals={"start": 5}))
    await eventually(lambda: has_status(cluster, replicas=3))
    assert set(await images(cluster)) == {"db-5", "db-6", "db-7"}


async def test_rolling_update_with_partition(cluster: Cluster) -> None:
    await cluster.client.create(db(3, updateStrategy={"rollingUpdate": {"partition": 2}}))
    first = await eventually(lambda: has_status(cluster, available_replicas=3))
    await set_image(cluster, "nginx:2")

    async def updated() -> StatefulSet | None:
        found = await has_status(cluster, available_replicas=3, updated_replicas=1, current_replicas=2)
        return found if found is not None and found.status != first.status else None

    found = await eventually(updated)
    assert await images(cluster) == {"db-0": "nginx:1", "db-1": "nginx:1", "db-2": "nginx:2"}
    assert found.status.current_revision != found.status.update_revision
    await cluster.client.delete(Pod, "db-0", namespace="default")

    async def created_again() -> bool:
        pods = await images(cluster)
        return "db-0" in pods and await has_status(cluster, available_replicas=3) is not None

    await eventually(created_again)
    assert (await images(cluster))["db-0"] == "nginx:1"
    patch = patches.merge_patch({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
    seen: list[tuple[str, str]] = []
    observing = asyncio.create_task(observe(cluster, seen))
    await cluster.client.patch(StatefulSet, "db", patch, namespace="default")
    revision = found.status.update_revision
    await eventually(lambda: has_status(cluster, current_revision=revision, available_replicas=3))
    observing.cancel()
    assert [name for verb, name in seen if verb == "deleted"] == ["db-1", "db-0"]
    assert set((await images(cluster)).values()) == {"nginx:2"}


async def test_rolling_update_stops_at_a_pod_that_does_not_become_ready(cluster: Cluster) -> None:
    await cluster.client.create(db(4, podManagementPolicy="Parallel"))
    await eventually(lambda: has_status(cluster, available_replicas=4))
    cluster.images_that_fail.add("nginx:2")
    await set_image(cluster, "nginx:2")

    async def stuck() -> bool:
        return await images(cluster) == {
            "db-0": "nginx:1",
            "db-1": "nginx:1",
            "db-2": "nginx:1",
            "db-3": "nginx:2",
        }

    await eventually(stuck)
    await asyncio.sleep(60)
    assert await stuck()


@pytest.mark.parametrize(("value", "expected"), [(None, 1), (2, 2), ("50%", 5), ("1%", 1)])
def test_max_unavailable(value: int | str | None, expected: int) -> None:
    rolling = RollingUpdateStatefulSetStrategy(max_unavailable=value)
    strategy = StatefulSetUpdateStrategy(rolling_update=rolling)
    assert (
        max_unavailable(StatefulSet(spec=StatefulSetSpec(replicas=10, update_strategy=strategy))) == expected
    )


async def test_on_delete(cluster: Cluster) -> None:
    await cluster.client.create(db(2, updateStrategy={"type": "OnDelete"}))
    await eventually(lambda: has_status(cluster, available_replicas=2))
    await set_image(cluster, "nginx:2")
    await asyncio.sleep(60)
    assert set((await images(cluster)).values()) == {"nginx:1"}
    await cluster.client.delete(Pod, "db-0", namespace="default")

    async def replaced() -> bool:
        return await images(cluster) == {"db-0": "nginx:2", "db-1": "nginx:1"}

    await eventually(replaced)


async def test_claims_are_retained(cluster: Cluster) -> None:
    await cluster.client.create(db(2, volumeClaimTemplates=CLAIMS))
    await eventually(lambda: has_status(cluster, available_replicas=2))
    found = await cluster.client.list(PersistentVolumeClaim, namespace="default")
    assert {each.name: each.metadata.labels for each in found} == {"data-db-0": LABELS, "data-db-1": LABELS}
    pod = await cluster.client.get(Pod, "db-1", namespace="default")
    volumes = {each.name: each for each in (pod.spec.volumes or [])} if pod.spec is not None else {}
    claim = volumes["data"].persistent_volume_claim
    assert claim is not None
    assert claim.claim_name == "data-db-1"
    await cluster.client.delete(StatefulSet, "db", namespace="default")

    async def no_pods() -> bool:
        return not await cluster.pods()

    await eventually(no_pods)
    assert await claims(cluster) == {"data-db-0", "data-db-1"}


async def test_claims_are_deleted_by_the_retention_policy(cluster: Cluster) -> None:
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    spec = {"volumeClaimTemplates": CLAIMS, "persistentVolumeClaimRetentionPolicy": policy}
    await cluster.client.create(db(3, **spec))
    await eventually(lambda: has_status(cluster, available_replicas=3))
    await cluster.client.scale(StatefulSet, "db", namespace="default", replicas=1)

    async def has_claims(*names: str) -> bool:
        return await claims(cluster) == set(names)

    await eventually(lambda: has_claims("data-db-0"))
    await cluster.client.scale(StatefulSet, "db", namespace="default", replicas=2)
    await eventually(lambda: has_status(cluster, available_replicas=2))
    await cluster.client.delete(StatefulSet, "db", namespace="default")
    await eventually(has_claims)


async def test_history_and_undo(cluster: Cluster) -> None:
    await cluster.client.create(db(1, revisionHistoryLimit=1))
    found = await eventually(lambda: has_status(cluster, available_replicas=1))
    first = found.status.current_revision
    for number in (2, 3):
        await set_image(cluster, f"nginx:{number}")

        async def rolled(number: int = number) -> bool:
            status = (await cluster.client.get(StatefulSet, "db", namespace="default")).status
            done = status is not None and status.current_revision == status.update_revision
            return done and await images(cluster) == {"db-0": f"nginx:{number}"}

        await eventually(rolled)

    async def revisions() -> dict[str, int | None]:
        found = await cluster.client.list(ControllerRevision, namespace="default")
        return {each.name: each.revision for each in found}

    async def truncated() -> bool:
        return sorted((await revisions()).values()) == [2, 3]  # type: ignore[type-var]

    await eventually(truncated)
    assert first not in await revisions()
    await set_image(cluster, "nginx:2")

    async def undone() -> bool:
        return sorted((await revisions()).values()) == [3, 4]  # type: ignore[type-var]

    await eventually(undone)
