"""Pods on simulated nodes: phases, conditions, restarts, probes, deletion and events."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.workloads.nodes.simulated_cluster import SimulatedCluster, condition, start_cluster

from kubewright.api.unstructured import Unstructured
from kubewright.client import patches
from kubewright.manager import Manager
from kubewright.manager.cluster import Cluster
from kubewright.workloads.nodes import SimulatedNodes

NEVER = {"restartPolicy": "Never"}


def state(status: dict[str, Any], container: int = 0) -> dict[str, Any]:
    statuses = status.get("containerStatuses")
    return dict(statuses[container]["state"]) if statuses else {}


def restarts(status: dict[str, Any]) -> int:
    statuses = status.get("containerStatuses")
    return int(statuses[0]["restartCount"]) if statuses else 0


async def test_pod_becomes_ready(cluster: SimulatedCluster) -> None:
    await cluster.create_pod("web")
    status = await cluster.wait_ready("web", timeout=1.0)
    assert status["phase"] == "Running"
    assert status["hostIP"] == "172.18.0.2"
    assert status["podIP"].startswith("10.244.0.")
    assert status["podIPs"] == [{"ip": status["podIP"]}]
    assert status["startTime"]
    assert status["qosClass"] == "BestEffort"
    container = status["containerStatuses"][0]
    assert (container["ready"], container["started"], container["restartCount"]) == (True, True, 0)
    assert container["containerID"].startswith("kubewright://")
    assert "@sha256:" in container["imageID"]
    for kind in ("PodReadyToStartContainers", "Initialized", "ContainersReady", "PodScheduled"):
        assert condition(status, kind)[0] == "True", kind
    assert await cluster.reasons("web") == ["Pulling", "Pulled", "Created", "Started"]


async def test_status_before_the_start_is_container_creating(cluster: SimulatedCluster) -> None:
    await cluster.create_pod("web", simulate={"start-delay": "5s"})
    status = await cluster.wait_for("web", lambda status: "containerStatuses" in status)
    assert status["phase"] == "Pending"
    assert state(status) == {"waiting": {"reason": "ContainerCreating"}}
    assert condition(status, "Ready") == (
        "False",
        "ContainersNotReady",
        "containers with unready status: [app]",
    )
    assert condition(status, "PodReadyToStartContainers")[0] == "False"
    await cluster.wait_ready("web")


async def test_two_status_writes_until_ready(cluster: SimulatedCluster) -> None:
    """Many pods cost two writes each: the revisions of their writes are counted."""
    versions: dict[str, set[str]] = {}
    informer = await cluster.manager.cache.informer("pods")

    def record(change: Any) -> None:
        if change.new is not None:
            versions.setdefault(change.key.name, set()).add(str(change.new.revision))

    informer.add_handler(record)
    for number in range(50):
        await cluster.create_pod(f"pod-{number}")
    for number in range(50):
        await cluster.wait_ready(f"pod-{number}")
    # One version is the creation.
    assert {len(each) for each in versions.values()} == {3}


async def test_init_containers_run_in_order_before_the_containers(cluster: SimulatedCluster) -> None:
    init = [{"name": name, "image": "busybox:1"} for name in ("one", "two")]
    sidecar = {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}
    await cluster.create_pod(
        "web", initContainers=[init[0], sidecar, init[1]], simulate={"exit-after.one": "1s"}
    )
    status = await cluster.wait_for("web", lambda status: status.get("initContainerStatuses"))
    assert condition(status, "Initialized") == (
        "False",
        "ContainersNotInitialized",
        "containers with incomplete status: [one proxy two]",
    )
    assert state(status) == {"waiting": {"reason": "PodInitializing"}}
    status = await cluster.wait_ready("web")
    states = {one["name"]: one for one in status["initContainerStatuses"]}
    assert states["one"]["state"]["terminated"]["reason"] == "Completed"
    assert states["two"]["ready"]
    assert states["proxy"]["state"]["running"]
    assert states["proxy"]["started"]


async def test_failing_init_container_of_a_pod_that_never_restarts_fails_it(
    cluster: SimulatedCluster,
) -> None:
    init = [{"name": "setup", "image": "busybox:1"}]
    await cluster.create_pod("web", initContainers=init, simulate={"exit-code.setup": "2"}, **NEVER)
    status = await cluster.wait_for("web", lambda status: status["phase"] == "Failed")
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 2
    assert condition(status, "Ready")[1] == "PodFailed"


async def test_completion_and_failure(cluster: SimulatedCluster) -> None:
    await cluster.create_pod("done", simulate={"exit-code": "0"}, **NEVER)
    await cluster.create_pod("failed", simulate={"exit-code": "3", "exit-message": "no luck"}, **NEVER)
    status = await cluster.wait_for("done", lambda status: status["phase"] == "Succeeded")
    assert state(status)["terminated"]["reason"] == "Completed"
    assert condition(status, "Ready")[:2] == ("False", "PodCompleted")
    assert condition(status, "Initialized")[:2] == ("True", "PodCompleted")
    status = await cluster.wait_for("failed", lambda status: status["phase"] == "Failed")
    terminated = state(status)["terminated"]
    assert (terminated["exitCode"], terminated["reason"], terminated["message"]) == (3, "Error", "no luck")


async def test_sidecars_stop_after_the_containers(cluster: SimulatedCluster) -> None:
    sidecar = {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}
    await cluster.create_pod("job", initContainers=[sidecar], simulate={"exit-code": "1"}, **NEVER)
    status = await cluster.wait_for("job", lambda status: status["phase"] == "Failed")
    assert "terminated" in status["initContainerStatuses"][0]["state"]


async def test_pods_of_jobs_complete(cluster: SimulatedCluster) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "app", "image": "nginx:1"}]}}
    job = await cluster.client.create(
        Unstructured(
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": "job", "namespace": "default"},
                "spec": {"template": template},
            }
        )
    )
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "job",
        "uid": job.metadata.uid,
        "controller": True,
    }
    await cluster.create_pod("a", metadata={"name": "a", "ownerReferences": [owner]}, **NEVER)
    await cluster.wait_for("a", lambda status: status["phase"] == "Succeeded", 5.0)


async def test_crash_loop_backs_off_exponentially(cluster: SimulatedCluster) -> None:
    await cluster.create_pod("web", simulate={"exit-code": "1", "exit-after": "100ms"})
    loop = asyncio.get_running_loop()
    started = loop.time()

    def waits_in(delay: str) -> Any:
        return lambda status: delay in (state(status).get("waiting") or {}).get("message", "")

    status = await cluster.wait_for("web", waits_in("back-off 10s"))
    assert status["phase"] == "Running"
    assert state(status)["waiting"]["reason"] == "CrashLoopBackOff"
    assert status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
    for delay in ("20s", "40s", "1m20s", "2m40s", "5m0s"):
        status = await cluster.wait_for("web", waits_in(f"back-off {delay} "))
    assert 300 < loop.time() - started < 330
    assert status["containerStatuses"][0]["restartCount"] == 6
    assert "BackOff" in await cluster.reasons("web")


async def test_container_that_crashes_twice_heals(cluster: SimulatedCluster) -> None:
    await cluster.create_pod("web", simulate={"exit-code": "1", "exit-count": "2"})
    status = await cluster.wait_for("web", lambda status: restarts(status) == 2)
    await cluster.wait_ready("web")
    await asyncio.sleep(60)
    status = await cluster.status("web")
    assert status["containerStatuses"][0]["restartCount"] == 2


async def test_image_pull_error(cluster: SimulatedCluster) -> None:
    await cluster.create_pod("web", simulate={"image-pull-error": "manifest unknown"})
    status = await cluster.wait_for(
        "web", lambda s: (state(s).get("waiting") or {}).get("reason") == "ErrImagePull"
    )
    assert status["phase"] == "Pending"
    status = await cluster.wait_for(
        "web", lambda s: (state(s).get("waiting") or {}).get("reason") == "ImagePullBackOff"
    )
    assert state(status)["waiting"]["message"].startswith('Back-off pulling image "nginx:1": ErrImagePull: ')
    await cluster.client.patch(
        "pods",
        "web",
        patches.merge_patch({"metadata": {"annotations": {"sim.kubewright.dev/image-pull-error": None}}}),
    )
    await cluster.wait_ready("web", 60.0)


async def test_active_deadline_can_be_shortened(cluster: SimulatedCluster) -> None:
    await cluster.create_pod("web", activeDeadlineSeconds=3000)
    await cluster.wait_ready("web")
    await cluster.client.patch("pods", "web", patches.merge_patch({"spec": {"activeDeadlineSeconds": 5}}))
    status = await cluster.wait_for("web", lambda status: status["phase"] == "Failed", 30.0)
    assert status["reason"] == "DeadlineExceeded"


async def test_observed_generation_follows_the_spec(cluster: SimulatedCluster) -> None:
    await cluster.create_pod("web")
    await cluster.wait_ready("web")
    await cluster.client.patch("pods", "web", patches.merge_patch({"spec": {"activeDeadlineSeconds": 500}}))
    await cluster.wait_for("web", lambda status: status["observedGeneration"] == 2, 10.0)


@pytest.mark.parametrize("value", ["/tmp", ".."])
async def test_sub_path_that_leaves_its_volume(cluster: SimulatedCluster, value: str) -> None:
    container = {
        "name": "app",
        "image": "nginx:1",
        "env": [{"name": "PLACE", "value": value}],
        "volumeMounts": [{"name": "work", "mountPath": "/work", "subPathExpr": "$(PLACE)"}],
    }
    await cluster.create_pod("web", containers=[container], volumes=[{"name": "work", "emptyDir": {}}])
    await cluster.wait_for(
        "web", lambda s: (state(s).get("waiting") or {}).get("reason") == "CreateContainerConfigError"
    )


async def test_port_of_the_node_is_used_once(cluster: SimulatedCluster) -> None:
    container = {"name": "app", "image": "nginx:1", "ports": [{"containerPort": 80, "hostPort": 8080}]}
    await cluster.create_pod("first", containers=[container])
    await cluster.wait_ready("first")
    await cluster.create_pod("second", containers=[container])
    status = await cluster.wait_for("second", lambda status: status["phase"] == "Failed")
    assert status["reason"] == "NodePorts"
    await cluster.client.delete("pods", "first")
    await cluster.create_pod("third", containers=[container], nodeName="node-1")
    await cluster.wait_ready("third")
    await asyncio.sleep(5)
    await cluster.create_pod("fourth", containers=[container])
    await cluster.wait_ready("fourth")


async def test_image_that_does_not_exist(cluster: SimulatedCluster) -> None:
    await cluster.create_pod("web", containers=[{"name": "app", "image": "webserver:404"}])
    status = await cluster.wait_for(
        "web", lambda s: (state(s).get("waiting") or {}).get("reason") == "ErrImagePull"
    )
    assert state(status)["waiting"]["message"].endswith("webserver:404: not found")
    cluster.nodes.settings.missing_images = ()
    await cluster.wait_ready("web", 60.0)


async def test_out_of_memory(cluster: SimulatedCluster) -> None:
    await cluster.create_pod("web")
    await cluster.wait_ready("web")
    assert cluster.nodes.pods.kill_out_of_memory("app=web") == 1
    status = await cluster.wait_for("web", lambda status: restarts(status) == 1)
    ended = status["containerStatuses"][0]["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


async def test_probes_are_declared_to_fail(cluster: SimulatedCluster) -> None:
    probe = {"httpGet": {"port": 80}, "periodSeconds": 5, "failureThreshold": 2}
    container = {"name": "app", "image": "nginx:1", "livenessProbe": probe, "readinessProbe": probe}
    await cluster.create_pod("web", containers=[container])
    await cluster.wait_ready("web")
    cluster.nodes.pods.set_ready("app=web", False)
    status = await cluster.wait_for("web", lambda status: condition(status, "Ready")[0] == "False")
    assert status["containerStatuses"][0]["started"]
    cluster.nodes.pods.set_ready("app=web", True)
    await cluster.wait_ready("web")
    cluster.nodes.pods.set("app=web", fail_liveness="no response")
    await cluster.wait_for("web", lambda status: restarts(status) == 1, 30.0)
    reasons = await cluster.reasons("web")
    assert reasons.count("Unhealthy") == 2
    assert "Killing" in reasons


async def test_readiness_gates(cluster: SimulatedCluster) -> None:
    await cluster.create_pod("web", readinessGates=[{"conditionType": "example.com/ready"}])
    status = await cluster.wait_for("web", lambda status: condition(status, "ContainersReady")[0] == "True")
    assert condition(status, "Ready") == (
        "False",
        "ReadinessGatesNotReady",
        'corresponding condition of pod readiness gate "example.com/ready" does not exist.',
    )
    gate = {"status": {"conditions": [{"type": "example.com/ready", "status": "True"}]}}
    await cluster.client.patch("pods", "web", patches.strategic_merge_patch(gate), subresource="status")
    status = await cluster.wait_ready("web")
    assert condition(status, "example.com/ready")[0] == "True"


async def test_graceful_deletion(cluster: SimulatedCluster) -> None:
    await cluster.create_pod(
        "slow", simulate={"termination-delay": "20s"}, metadata={"name": "slow", "finalizers": ["a.b/c"]}
    )
    await cluster.create_pod("fast")
    await cluster.wait_ready("slow")
    await cluster.wait_ready("fast")
    loop = asyncio.get_running_loop()
    started = loop.time()
    await cluster.client.delete("pods", "fast")
    async with asyncio.timeout(5):
        while await cluster.client.get_or_none("pods", "fast") is not None:
            await asyncio.sleep(0.01)
    await cluster.client.delete("pods", "slow")
    status = await cluster.wait_for("slow", lambda status: status["phase"] == "Succeeded")
    assert 19 < loop.time() - started < 25
    assert state(status)["terminated"]["exitCode"] == 0
    assert "Killing" in await cluster.reasons("slow")


async def test_grace_period_ends_in_a_kill(cluster: SimulatedCluster) -> None:
    await cluster.create_pod(
        "web", simulate={"termination-delay": "1h"}, metadata={"name": "web", "finalizers": ["a.b/c"]}
    )
    await cluster.wait_ready("web")
    await cluster.client.delete("pods", "web", grace_period=3)
    status = await cluster.wait_for("web", lambda status: status["phase"] == "Failed", 10.0)
    assert state(status)["terminated"]["exitCode"] == 137


async def test_admission_failures(cluster: SimulatedCluster) -> None:
    resources = {"requests": {"cpu": "6"}}
    for name in ("one", "two"):
        await cluster.create_pod(
            name, containers=[{"name": "app", "image": "nginx:1", "resources": resources}]
        )
    await cluster.create_pod("three", nodeSelector={"disk": "ssd"})
    await cluster.wait_ready("one")
    status = await cluster.wait_for("two", lambda status: status["phase"] == "Failed")
    assert status["reason"] == "OutOfcpu"
    assert status["message"] == (
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 6000, used: 6000, capacity: 8000"
    )
    status = await cluster.wait_for("three", lambda status: status["phase"] == "Failed")
    assert status["reason"] == "NodeAffinity"


async def test_eviction_and_deadline(cluster: SimulatedCluster) -> None:
    await cluster.create_pod("web")
    await cluster.create_pod("late", activeDeadlineSeconds=30)
    await cluster.wait_ready("web")
    cluster.nodes.pods.evict("web")
    status = await cluster.wait_for("web", lambda status: status["phase"] == "Failed")
    assert status["reason"] == "Evicted"
    assert condition(status, "DisruptionTarget")[:2] == ("True", "TerminationByKubelet")
    status = await cluster.wait_for("late", lambda status: status["phase"] == "Failed", 60.0)
    assert status["reason"] == "DeadlineExceeded"


async def test_ephemeral_containers(cluster: SimulatedCluster) -> None:
    await cluster.create_pod("web")
    await cluster.wait_ready("web")
    debug = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "busybox:1"}]}}
    await cluster.client.patch(
        "pods", "web", patches.strategic_merge_patch(debug), subresource="ephemeralcontainers"
    )
    status = await cluster.wait_for("web", lambda status: "ephemeralContainerStatuses" in status)
    assert status["ephemeralContainerStatuses"][0]["state"]["running"]


async def test_resize_in_place(cluster: SimulatedCluster) -> None:
    container = {"name": "app", "image": "nginx:1", "resources": {"requests": {"cpu": "1"}}}
    await cluster.create_pod("web", containers=[container])
    await cluster.wait_ready("web")

    async def resize(cpu: str) -> None:
        change = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": cpu}}}]}}
        await cluster.client.patch("pods", "web", patches.strategic_merge_patch(change), subresource="resize")

    def has(cpu: str) -> Any:
        return lambda status: status["containerStatuses"][0]["resources"] == {"requests": {"cpu": cpu}}

    await resize("2")
    status = await cluster.wait_for("web", has("2"))
    assert status["containerStatuses"][0]["restartCount"] == 0
    other = {"name": "app", "image": "nginx:1", "resources": {"requests": {"cpu": "5"}}}
    await cluster.create_pod("other", containers=[other])
    await cluster.wait_ready("other")
    await resize("4")
    status = await cluster.wait_for("web", lambda status: condition(status, "PodResizePending")[0] == "True")
    assert condition(status, "PodResizePending")[1] == "Deferred"
    await cluster.client.delete("pods", "other")
    status = await cluster.wait_for("web", has("4"))
    assert condition(status, "PodResizePending")[0] == ""


async def test_pods_continue_after_a_restart_of_the_simulation() -> None:
    async with start_cluster() as first:
        await first.create_pod("web")
        before = await first.wait_ready("web")
        nodes = first.nodes
        nodes.fail("node-0")
        nodes.fail("node-1")
        manager = Manager(Cluster(first.server.client()), handle_signals=False)
        again = SimulatedNodes(manager, 2)
        manager.add(again)
        stop = asyncio.Event()
        task = asyncio.create_task(manager.run(stop))
        await again.wait_until_registered()
        await asyncio.sleep(1)
        after = await first.status("web")
        assert after["podIP"] == before["podIP"]
        assert after["containerStatuses"][0]["restartCount"] == 0
        assert again.pods.crash("web") == 1
        await first.wait_for("web", lambda status: restarts(status) == 1)
        stop.set()
        await task


async def test_addresses_are_unique_and_reused(cluster: SimulatedCluster) -> None:
    addresses = set()
    for number in range(20):
        await cluster.create_pod(f"pod-{number}")
        addresses.add((await cluster.wait_ready(f"pod-{number}"))["podIP"])
    assert len(addresses) == 20
    await cluster.create_pod("host", hostNetwork=True)
    assert (await cluster.wait_ready("host"))["podIP"] == "172.18.0.2"


async def test_unstructured_pods_without_a_simulated_node_are_ignored(cluster: SimulatedCluster) -> None:
    await cluster.client.create(
        Unstructured({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "other"}})
    )
    await cluster.create_pod("web", nodeName="other")
    await asyncio.sleep(10)
    assert "startTime" not in await cluster.status("web")
