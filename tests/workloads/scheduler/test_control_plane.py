"""The scheduler on a control plane: bindings, conditions, events, preemption, gates, second schedulers."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY
from tests.waiting import eventually

from kubewright.api.core.v1 import Node, Pod
from kubewright.api.errors import NotFound
from kubewright.client import merge_patch, strategic_merge_patch
from kubewright.workloads.scheduler import Profile

from .scheduling_objects import ScheduledCluster, node_data, pod_data, start_scheduled_cluster


async def test_pod_is_bound_with_condition_and_event() -> None:
    async with start_scheduled_cluster() as cluster:
        await cluster.create(node_data("a"), pod_data("web", cpu="1"))
        assert await cluster.node_of("web") == "a"
        (event,) = await cluster.events("web", "Scheduled")
        assert event["note"] == "Successfully assigned default/web to a"
        assert (event["type"], event["action"]) == ("Normal", "Binding")
        assert event["reportingController"] == "default-scheduler"
        found = await cluster.pod("web")
        assert found.status is not None
        assert found.status.conditions is not None
        assert [(each.type, each.status) for each in found.status.conditions] == [("PodScheduled", "True")]


async def test_unschedulable_pod_has_the_message_of_kube_scheduler() -> None:
    async with start_scheduled_cluster() as cluster:
        taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
        await cluster.create(
            node_data("a", cpu="1"), node_data("b", taints=[taint]), pod_data("big", cpu="2")
        )
        condition = await cluster.condition("big")
        assert (condition.status, condition.reason) == ("False", "Unschedulable")
        assert condition.message == (
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). "
            "no new claims to deallocate, preemption: 0/2 nodes are available: "
            "2 Preemption is not helpful for scheduling."
        )
        (event,) = await cluster.events("big", "FailedScheduling")
        assert event["note"] == condition.message
        assert (event["type"], event["action"]) == ("Warning", "Scheduling")
        before = (await cluster.pod("big")).metadata.resource_version
        # The retry fails for the same reason, so nothing is written.
        scheduler = cluster.scheduler.core
        (queued,) = scheduler.queue.pods()
        attempts = queued.attempts
        scheduler.queue.activate([queued.info])
        await eventually(lambda: queued.attempts > attempts and queued.place == "unschedulable")
        assert (await cluster.pod("big")).metadata.resource_version == before
        await cluster.create(node_data("c"))
        assert await cluster.node_of("big") == "c"


async def test_no_nodes() -> None:
    async with start_scheduled_cluster() as cluster:
        await cluster.create(pod_data("web"))
        condition = await cluster.condition("web")
        assert condition.message == "no nodes available to schedule pods"
        await cluster.create(node_data("a"))
        assert await cluster.node_of("web") == "a"


async def test_gated_pod_is_scheduled_when_the_gates_are_removed() -> None:
    async with start_scheduled_cluster() as cluster:
        await cluster.create(node_data("a"), pod_data("web", schedulingGates=[{"name": "example.com/quota"}]))
        await eventually(lambda: cluster.scheduler.core.queue.pods("gated"))
        found = await cluster.pod("web")
        assert found.spec is not None
        found.spec.scheduling_gates = None
        await cluster.client.update(found)
        assert await cluster.node_of("web") == "a"


async def test_uncordoned_node_receives_waiting_pods() -> None:
    async with start_scheduled_cluster() as cluster:
        await cluster.create(node_data("a", unschedulable=True), pod_data("web"))
        condition = await cluster.condition("web")
        assert condition.message == (
            "0/1 nodes are available: 1 node(s) were unschedulable. "
            "no new claims to deallocate, preemption: 0/1 nodes are available: "
            "1 Preemption is not helpful for scheduling."
        )
        await cluster.client.patch(Node, "a", merge_patch({"spec": {"unschedulable": None}}))
        assert await cluster.node_of("web") == "a"


async def priority_class(cluster: ScheduledCluster, name: str, value: int, **fields: str) -> None:
    await cluster.create(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            **fields,
        }
    )


async def test_preemption() -> None:
    async with start_scheduled_cluster() as cluster:
        await priority_class(cluster, "high", 1000)
        await cluster.create(node_data("a", cpu="2"), pod_data("low", cpu="2"))
        assert await cluster.node_of("low") == "a"
        victim = await cluster.pod("low")
        await cluster.create(pod_data("important", cpu="1", priorityClassName="high"))
        (event,) = await cluster.events("low", "Preempted")
        preemptor = await cluster.pod("important")
        assert event["note"] == f"Preempted by pod {preemptor.metadata.uid} on node a"
        assert (event["action"], event["related"]["name"]) == ("Preempting", "important")
        nominated = await cluster.condition("important")
        assert nominated.message == ("0/1 nodes are available: 1 Insufficient cpu.")

        async def check() -> bool:
            found = await cluster.pod("important")
            return bool(found.status and found.status.nominated_node_name == "a")

        await eventually(check)
        current = await cluster.pod("low")
        assert current.metadata.deletion_timestamp is not None
        assert current.status is not None
        assert current.status.conditions is not None
        (target,) = [each for each in current.status.conditions if each.type == "DisruptionTarget"]
        assert (target.status, target.reason) == ("True", "PreemptionByScheduler")
        assert target.message == "default-scheduler: preempting to accommodate a higher priority pod"
        # The kubelet would remove the pod after its grace period.
        await cluster.client.delete(Pod, "low", namespace="default", grace_period=0)
        assert await cluster.node_of("important") == "a"
        assert victim.metadata.uid == current.metadata.uid
        bound = await cluster.pod("important")
        assert bound.status is not None
        assert bound.status.nominated_node_name is None


async def test_preemption_policy_never() -> None:
    async with start_scheduled_cluster() as cluster:
        await priority_class(cluster, "high", 1000, preemptionPolicy="Never")
        await cluster.create(node_data("a", cpu="2"), pod_data("low", cpu="2"))
        await cluster.node_of("low")
        await cluster.create(pod_data("polite", cpu="1", priorityClassName="high"))
        condition = await cluster.condition("polite")
        assert condition.message == (
            "0/1 nodes are available: 1 Insufficient cpu. "
            "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."
        )


async def test_pods_of_other_schedulers_are_ignored() -> None:
    async with start_scheduled_cluster([Profile(scheduler_name="second")]) as cluster:
        await cluster.create(node_data("a"), pod_data("other"), pod_data("mine", schedulerName="second"))
        assert await cluster.node_of("mine") == "a"
        (event,) = await cluster.events("mine", "Scheduled")
        assert event["reportingController"] == "second"
        assert len(cluster.scheduler.core.queue) == 0
        assert not (await cluster.pod("other")).spec.node_name


async def test_finished_and_deleted_pods_free_their_resources() -> None:
    async with start_scheduled_cluster() as cluster:
        await cluster.create(node_data("a", cpu="1"), pod_data("first", cpu="1"))
        await cluster.node_of("first")
        await cluster.create(pod_data("second", cpu="1"))
        await cluster.condition("second")
        await cluster.client.patch(
            Pod,
            "first",
            strategic_merge_patch({"status": {"phase": "Succeeded"}}),
            namespace="default",
            subresource="status",
        )
        assert await cluster.node_of("second") == "a"
        await cluster.create(pod_data("third", cpu="1"))
        await cluster.condition("third")
        await cluster.client.delete(Pod, "second", namespace="default", grace_period=0)
        assert await cluster.node_of("third") == "a"


async def test_deleted_pending_pod_leaves_the_queue() -> None:
    async with start_scheduled_cluster() as cluster:
        await cluster.create(node_data("a", cpu="1"), pod_data("big", cpu="2"))
        await cluster.condition("big")
        await cluster.client.delete(Pod, "big", namespace="default")
        await eventually(lambda: len(cluster.scheduler.core.queue) == 0)
        with pytest.raises(NotFound):
            await cluster.pod("big")


async def test_volume_is_provisioned_on_the_selected_node() -> None:
    async with start_scheduled_cluster() as cluster:
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {
                "storageClassName": "late",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        storage_class = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "late"},
            "provisioner": "example.com/disk",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        await cluster.create(node_data("a"), storage_class, claim, pod_data("db", volumes=volumes))
        selected = "volume.kubernetes.io/selected-node"

        async def is_selected() -> bool:
            found = await cluster.client.get("persistentvolumeclaims", "data", namespace="default")
            return (found.raw["metadata"].get("annotations") or {}).get(selected) == "a"

        await eventually(is_selected)
        assert not (await cluster.pod("db")).spec.node_name
        # What the provisioner and the volume controller do.
        await cluster.client.patch(
            "persistentvolumeclaims",
            "data",
            merge_patch(
                {
                    "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
                    "spec": {"volumeName": "pv-1"},
                }
            ),
            namespace="default",
        )
        assert await cluster.node_of("db") == "a"


async def test_metrics() -> None:
    async with start_scheduled_cluster([Profile(scheduler_name="measured")]) as cluster:
        await cluster.create(
            node_data("a", cpu="1"),
            pod_data("fits", schedulerName="measured"),
            pod_data("big", cpu="2", schedulerName="measured"),
        )
        await cluster.node_of("fits")
        await cluster.condition("big")
        await cluster.events("fits", "Scheduled")
        for result, expected in (("scheduled", 1), ("unschedulable", 1), ("error", 0)):
            labels = {"result": result, "profile": "measured"}
            assert REGISTRY.get_sample_value("scheduler_schedule_attempts_total", labels) == expected
        assert cluster.scheduler.core.queue.counts()["unschedulable"] == 1
        assert (REGISTRY.get_sample_value("scheduler_pending_pods", {"queue": "unschedulable"}) or 0) >= 1
