"""DaemonSets on the embedded control plane."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from tests.waiting import eventually

from kubewright.api.apps.v1 import ControllerRevision, DaemonSet
from kubewright.api.core.v1 import Node, Pod
from kubewright.client import patches

from .conftest import Cluster, manifest, template

LABELS = {"app": "agent"}


def agent(**spec: Any) -> dict[str, Any]:
    return manifest(
        "DaemonSet", "agent", {"selector": {"matchLabels": LABELS}, "template": template(LABELS), **spec}
    )


async def add_nodes(cluster: Cluster, *names: str, taints: list[dict[str, str]] | None = None) -> None:
    """Create nodes that are ready: without the taint that a new node gets."""
    for name in names:
        labels = {"kubernetes.io/hostname": name}
        await cluster.client.create(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        )
        await cluster.client.patch(Node, name, patches.merge_patch({"spec": {"taints": taints}}))


async def has_status(cluster: Cluster, **expected: Any) -> DaemonSet | None:
    found = await cluster.client.get(DaemonSet, "agent", namespace="default")
    actual = {name: getattr(found.status, name, None) for name in expected}
    return found if actual == expected else None


async def images(cluster: Cluster) -> dict[str, str | None]:
    """Return the image on each node."""
    return {_node(pod): (pod.spec.containers or [])[0].image for pod in await cluster.pods() if pod.spec}


def _node(pod: Pod) -> str:
    assert pod.spec is not None
    assert pod.spec.affinity is not None
    assert pod.spec.affinity.node_affinity is not None
    required = pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert required is not None
    (term,) = required.node_selector_terms or []
    (field,) = term.match_fields or []
    (name,) = field.values or []
    return name


async def set_image(cluster: Cluster, image: str) -> None:
    change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}
    patch = patches.strategic_merge_patch(change)
    await cluster.client.patch(DaemonSet, "agent", patch, namespace="default")


async def test_one_pod_per_node(cluster: Cluster) -> None:
    await add_nodes(cluster, "n1", "n2")
    await cluster.client.create(agent())
    found = await eventually(lambda: has_status(cluster, number_available=2, desired_number_scheduled=2))
    assert found.status.number_misscheduled == 0
    assert found.status.updated_number_scheduled == 2
    assert found.status.number_unavailable is None
    assert set(await images(cluster)) == {"n1", "n2"}
    await add_nodes(cluster, "n3")
    await eventually(lambda: has_status(cluster, number_available=3))
    (revision,) = await cluster.client.list(ControllerRevision, namespace="default")
    assert list((revision.data or {})["spec"]["template"]) == ["$patch", "metadata", "spec"]
    digest = (revision.metadata.labels or {})["controller-revision-hash"]
    assert revision.name == f"agent-{digest}"
    pod = (await cluster.pods())[0]
    assert pod.metadata.labels == {
        **LABELS,
        "controller-revision-hash": digest,
        "pod-template-generation": "1",
    }
    assert pod.spec is not None
    assert {(each.key, each.effect) for each in pod.spec.tolerations or ()} == {
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    }

    async def reported() -> bool:
        return len(await cluster.events("DaemonSet", "agent")) == 3

    await eventually(reported)


async def test_node_selector_and_taints(cluster: Cluster) -> None:
    await add_nodes(cluster, "n1", "n2", "n3")
    await add_nodes(cluster, "tainted", taints=[{"key": "own", "effect": "NoSchedule"}])
    label = patches.merge_patch({"metadata": {"labels": {"disk": "ssd"}}})
    await cluster.client.patch(Node, "n1", label)
    await cluster.client.patch(Node, "tainted", label)
    await cluster.client.create(agent(template=template(LABELS, nodeSelector={"disk": "ssd"})))
    await eventually(lambda: has_status(cluster, number_available=1, desired_number_scheduled=1))
    assert set(await images(cluster)) == {"n1"}
    await cluster.client.patch(Node, "n2", label)
    await eventually(lambda: has_status(cluster, number_available=2))
    unlabel = patches.merge_patch({"metadata": {"labels": {"disk": None}}})
    await cluster.client.patch(Node, "n1", unlabel)
    await eventually(lambda: has_status(cluster, number_available=1, number_misscheduled=0))
    assert set(await images(cluster)) == {"n2"}
    evict = patches.merge_patch({"spec": {"taints": [{"key": "own", "effect": "NoExecute"}]}})
    await cluster.client.patch(Node, "n2", evict)
    await eventually(lambda: has_status(cluster, desired_number_scheduled=0, current_number_scheduled=0))
    assert await images(cluster) == {}


async def test_rolling_update_replaces_one_pod_at_a_time(cluster: Cluster) -> None:
    await add_nodes(cluster, "n1", "n2", "n3")
    await cluster.client.create(agent())
    await eventually(lambda: has_status(cluster, number_available=3))
    cluster.images_that_fail.add("nginx:bad")
    await set_image(cluster, "nginx:bad")

    async def stuck() -> bool:
        return sorted((await images(cluster)).values()) == ["nginx:1", "nginx:1", "nginx:bad"]  # type: ignore[type-var]

    await eventually(stuck)
    await asyncio.sleep(60)
    assert await stuck()
    await set_image(cluster, "nginx:2")

    async def rolled_out() -> bool:
        done = await has_status(
            cluster, number_available=3, updated_number_scheduled=3, observed_generation=3
        )
        return done is not None and set((await images(cluster)).values()) == {"nginx:2"}

    await eventually(rolled_out)
    revisions = await cluster.client.list(ControllerRevision, namespace="default")
    assert sorted(each.revision or 0 for each in revisions) == [1, 2, 3]


async def test_surge_keeps_the_old_pod_until_the_new_one_is_ready(cluster: Cluster) -> None:
    await add_nodes(cluster, "n1", "n2")
    strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    await cluster.client.create(agent(updateStrategy=strategy))
    await eventually(lambda: has_status(cluster, number_available=2))
    available: list[int] = []

    async def observe() -> None:
        pods: dict[str, Pod] = {}
        async for event in cluster.client.watch(Pod, namespace="default"):
            pod = event.object
            if event.type == "DELETED" or pod.metadata.deletion_timestamp is not None:
                pods.pop(pod.name, None)
            else:
                pods[pod.name] = pod
            available.append(
                sum(each.status is not None and each.status.phase == "Running" for each in pods.values())
            )

    observing = asyncio.create_task(observe())
    await set_image(cluster, "nginx:2")

    async def rolled_out() -> bool:
        done = await has_status(cluster, number_available=2, updated_number_scheduled=2)
        return done is not None and set((await images(cluster)).values()) == {"nginx:2"}

    await eventually(rolled_out)
    observing.cancel()
    assert min(available[2:]) == 2
    assert max(available) == 3


async def test_on_delete(cluster: Cluster) -> None:
    await add_nodes(cluster, "n1", "n2")
    await cluster.client.create(agent(updateStrategy={"type": "OnDelete"}))
    await eventually(lambda: has_status(cluster, number_available=2))
    await set_image(cluster, "nginx:2")
    await eventually(lambda: has_status(cluster, observed_generation=2, updated_number_scheduled=None))
    await asyncio.sleep(60)
    assert set((await images(cluster)).values()) == {"nginx:1"}
    pod = (await cluster.pods())[0]
    await cluster.client.delete(Pod, pod.name, namespace="default")
    await eventually(lambda: has_status(cluster, number_available=2, updated_number_scheduled=1))


async def test_failed_pods_are_replaced_with_backoff(cluster: Cluster) -> None:
    await add_nodes(cluster, "n1")
    await cluster.client.create(agent())
    loop = asyncio.get_running_loop()
    times = []
    seen: set[str] = set()
    for _ in range(4):

        async def replaced() -> Pod | None:
            pods = [pod for pod in await cluster.pods() if pod.status and pod.status.phase == "Running"]
            return next((pod for pod in pods if pod.name not in seen), None)

        pod = await eventually(replaced)
        seen.add(pod.name)
        times.append(loop.time())
        failed = patches.merge_patch({"status": {"phase": "Failed"}})
        await cluster.client.patch(Pod, pod.name, failed, namespace="default", subresource="status")
    waits = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert waits[0] < 0.5
    assert 0.9 < waits[1] < 1.5
    assert 1.9 < waits[2] < 2.5
