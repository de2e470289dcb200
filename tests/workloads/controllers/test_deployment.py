"""Deployments on the embedded control plane."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.waiting import eventually

from kubewright.api.apps.v1 import Deployment, ReplicaSet
from kubewright.api.core.v1 import Pod
from kubewright.client import patches

from .conftest import Cluster, manifest, template

LABELS = {"app": "web"}
REVISION = "deployment.kubernetes.io/revision"


def web(replicas: int, *, image: str = "nginx:1", **spec: Any) -> dict[str, Any]:
    return manifest(
        "Deployment",
        "web",
        {
            "replicas": replicas,
            "selector": {"matchLabels": LABELS},
            "template": template(LABELS, image=image),
            **spec,
        },
    )


async def get(cluster: Cluster) -> Deployment:
    return await cluster.client.get(Deployment, "web", namespace="default")


async def replica_sets(cluster: Cluster) -> dict[str, ReplicaSet]:
    """Return the ReplicaSets by revision."""
    found = await cluster.client.list(ReplicaSet, namespace="default")
    return {(each.metadata.annotations or {})[REVISION]: each for each in found}


async def is_rolled_out(cluster: Cluster, *, revision: str = "1") -> Deployment | None:
    """Return the Deployment when all replicas are updated and available, and no pod is terminating."""
    found = await get(cluster)
    status, spec = found.status, found.spec
    if status is None or spec is None or (found.metadata.annotations or {}).get(REVISION) != revision:
        return None
    counters = {status.replicas, status.updated_replicas, status.available_replicas}
    done = counters == {spec.replicas or None} and not status.terminating_replicas
    return found if done and status.observed_generation == found.metadata.generation else None


async def set_image(cluster: Cluster, image: str) -> None:
    change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}
    patch = patches.strategic_merge_patch(change)
    await cluster.client.patch(Deployment, "web", patch, namespace="default")


def conditions(deployment: Deployment) -> dict[str, tuple[str | None, str | None, str | None]]:
    assert deployment.status is not None
    return {
        each.type or "": (each.status, each.reason, each.message)
        for each in deployment.status.conditions or ()
    }


async def test_creates_a_replica_set(cluster: Cluster) -> None:
    await cluster.client.create(web(3))
    done = await eventually(lambda: is_rolled_out(cluster))
    (new,) = (await replica_sets(cluster)).values()
    assert new.name == f"web-{(new.metadata.labels or {})['pod-template-hash']}"
    assert new.metadata.annotations == {
        "deployment.kubernetes.io/desired-replicas": "3",
        "deployment.kubernetes.io/max-replicas": "4",
        REVISION: "1",
    }
    assert conditions(done) == {
        "Available": ("True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
        "Progressing": (
            "True",
            "NewReplicaSetAvailable",
            f'ReplicaSet "{new.name}" has successfully progressed.',
        ),
    }
    assert done.status.unavailable_replicas is None
    assert done.status.terminating_replicas == 0
    assert done.metadata.annotations == {REVISION: "1"}

    async def reported() -> bool:
        expected = [f"ScalingReplicaSet: Scaled up replica set {new.name} from 0 to 3"]
        return await cluster.events("Deployment", "web") == expected

    await eventually(reported)


async def test_rolling_update_respects_the_limits(cluster: Cluster) -> None:
    strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    await cluster.client.create(web(4, strategy=strategy))
    await eventually(lambda: is_rolled_out(cluster))
    counts: list[tuple[int, int]] = []

    async def observe() -> None:
        pods: dict[str, Pod] = {}
        async for event in cluster.client.watch(Pod, namespace="default"):
            pod = event.object
            if event.type == "DELETED" or pod.metadata.deletion_timestamp is not None:
                pods.pop(pod.name, None)
            else:
                pods[pod.name] = pod
            ready = [pod for pod in pods.values() if pod.status and pod.status.phase == "Running"]
            counts.append((len(pods), len(ready)))

    observing = asyncio.create_task(observe())
    await set_image(cluster, "nginx:2")
    await eventually(lambda: is_rolled_out(cluster, revision="2"))
    observing.cancel()
    assert max(total for total, _ in counts) == 5
    assert min(ready for _, ready in counts[3:]) >= 3
    images = {(pod.spec.containers or [])[0].image for pod in await cluster.pods() if pod.spec}
    assert images == {"nginx:2"}
    sets = await replica_sets(cluster)
    assert [sets["1"].spec and sets["1"].spec.replicas, sets["2"].spec and sets["2"].spec.replicas] == [0, 4]


async def test_undo_reuses_the_old_replica_set(cluster: Cluster) -> None:
    await cluster.client.create(web(2))
    await eventually(lambda: is_rolled_out(cluster))
    first = (await replica_sets(cluster))["1"].name
    await set_image(cluster, "nginx:2")
    await eventually(lambda: is_rolled_out(cluster, revision="2"))
    await set_image(cluster, "nginx:1")
    await eventually(lambda: is_rolled_out(cluster, revision="3"))
    sets = await replica_sets(cluster)
    assert set(sets) == {"2", "3"}
    assert sets["3"].name == first
    assert (sets["3"].metadata.annotations or {})["deployment.kubernetes.io/revision-history"] == "1"


async def test_paused_deployment_scales_but_does_not_roll(cluster: Cluster) -> None:
    await cluster.client.create(web(2))
    await eventually(lambda: is_rolled_out(cluster))
    pause = patches.merge_patch({"spec": {"paused": True}})
    await cluster.client.patch(Deployment, "web", pause, namespace="default")
    await set_image(cluster, "nginx:2")
    await cluster.client.scale(Deployment, "web", namespace="default", replicas=3)

    async def scaled() -> Deployment | None:
        found = await get(cluster)
        return found if found.status and found.status.available_replicas == 3 else None

    paused = await eventually(scaled)
    assert conditions(paused)["Progressing"] == ("Unknown", "DeploymentPaused", "Deployment is paused")
    assert len(await replica_sets(cluster)) == 1
    resume = patches.merge_patch({"spec": {"paused": False}})
    await cluster.client.patch(Deployment, "web", resume, namespace="default")
    done = await eventually(lambda: is_rolled_out(cluster, revision="2"))
    assert conditions(done)["Progressing"][1] == "NewReplicaSetAvailable"


async def test_failed_rollout_exceeds_the_deadline_and_keeps_old_pods(cluster: Cluster) -> None:
    await cluster.client.create(web(4, progressDeadlineSeconds=30))
    await eventually(lambda: is_rolled_out(cluster))
    cluster.images_that_fail.add("nginx:bad")
    await set_image(cluster, "nginx:bad")

    async def timed_out() -> Deployment | None:
        found = await get(cluster)
        return found if conditions(found)["Progressing"][0] == "False" else None

    failed = await eventually(timed_out, timeout=120)
    new = (await replica_sets(cluster))["2"]
    assert conditions(failed)["Progressing"] == (
        "False",
        "ProgressDeadlineExceeded",
        f'ReplicaSet "{new.name}" has timed out progressing.',
    )
    assert conditions(failed)["Available"][0] == "True"
    assert failed.status.available_replicas == 3
    assert failed.status.updated_replicas == 2
    await set_image(cluster, "nginx:1")
    done = await eventually(lambda: is_rolled_out(cluster, revision="3"))
    assert conditions(done)["Progressing"][:2] == ("True", "NewReplicaSetAvailable")


async def test_recreate_deletes_old_pods_first(cluster: Cluster) -> None:
    await cluster.client.create(web(3, strategy={"type": "Recreate"}))
    await eventually(lambda: is_rolled_out(cluster))
    mixed: list[set[str | None]] = []

    async def observe() -> None:
        while True:
            found = await cluster.client.list("pods", namespace="default")
            mixed.append({pod.raw["spec"]["containers"][0]["image"] for pod in found})
            await asyncio.sleep(0.001)

    observing = asyncio.create_task(observe())
    await set_image(cluster, "nginx:2")
    await eventually(lambda: is_rolled_out(cluster, revision="2"))
    observing.cancel()
    assert {"nginx:1", "nginx:2"} not in mixed
    assert mixed[-1] == {"nginx:2"}


async def test_old_replica_sets_above_the_limit_are_deleted(cluster: Cluster) -> None:
    await cluster.client.create(web(1, revisionHistoryLimit=1))
    for revision in (1, 2, 3, 4):
        await set_image(cluster, f"nginx:{revision}")
        await eventually(lambda revision=revision: is_rolled_out(cluster, revision=str(revision)))

    async def cleaned() -> bool:
        return set(await replica_sets(cluster)) == {"3", "4"}

    await eventually(cleaned)


async def test_scaling_during_a_rollout_is_proportional(cluster: Cluster) -> None:
    strategy = {"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
    await cluster.client.create(web(10, strategy=strategy))
    await eventually(lambda: is_rolled_out(cluster))
    cluster.images_that_fail.add("nginx:bad")
    await set_image(cluster, "nginx:bad")

    async def sizes() -> tuple[int | None, ...]:
        sets = await replica_sets(cluster)
        return tuple(sets[key].spec.replicas for key in sorted(sets))  # type: ignore[union-attr]

    async def stuck() -> bool:
        return await sizes() == (8, 5)

    await eventually(stuck)
    await cluster.client.scale(Deployment, "web", namespace="default", replicas=15)

    async def scaled() -> bool:
        return await sizes() == (11, 7)

    await eventually(scaled)


async def test_hash_collision(cluster: Cluster) -> None:
    await cluster.client.create(web(1))
    await eventually(lambda: is_rolled_out(cluster))
    taken = (await replica_sets(cluster))["1"]
    await cluster.client.delete(Deployment, "web", namespace="default")

    async def deleted() -> bool:
        return not await replica_sets(cluster)

    await eventually(deleted)
    other = manifest(
        "ReplicaSet",
        taken.name,
        {"replicas": 0, "selector": {"matchLabels": {"x": "y"}}, "template": template({"x": "y"})},
    )
    await cluster.client.create(other)
    await cluster.client.create(web(1))
    found = await eventually(lambda: is_rolled_out(cluster))
    assert found.status.collision_count == 1


async def test_adopts_a_matching_replica_set(cluster: Cluster) -> None:
    await cluster.client.create(web(1))
    await eventually(lambda: is_rolled_out(cluster))
    await cluster.client.delete(Deployment, "web", namespace="default", propagation="Orphan")

    async def orphaned() -> bool:
        return not (await replica_sets(cluster))["1"].metadata.owner_references

    await eventually(orphaned)
    await cluster.client.create(web(2))
    await eventually(lambda: is_rolled_out(cluster))
    assert len(await replica_sets(cluster)) == 1


@pytest.mark.parametrize("strategy", [{}, {"type": "Recreate"}])
async def test_nothing_is_written_when_nothing_changes(cluster: Cluster, strategy: dict[str, Any]) -> None:
    await cluster.client.create(web(2, strategy=strategy))
    before = await eventually(lambda: is_rolled_out(cluster))
    await asyncio.sleep(1000)
    after = await get(cluster)
    assert after.metadata.resource_version == before.metadata.resource_version
