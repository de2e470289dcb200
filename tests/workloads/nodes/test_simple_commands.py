"""Simple commands: what containers do whose commands are known without running them."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from tests.workloads.nodes.simulated_cluster import SimulatedCluster

from kubewright.api.unstructured import Unstructured
from kubewright.cache.stores.store import ObjectKey
from kubewright.workloads.nodes.containers.simple_commands import simple_command


def shell(script: str) -> dict[str, object]:
    return {"name": "app", "image": "busybox", "command": ["/bin/sh", "-c", script]}


@pytest.mark.parametrize(
    ("script", "seconds", "code", "output"),
    [
        ("exit 3", 0, 3, ""),
        ("echo 'Hello World' ; sleep 240", 240, 0, "Hello World\n"),
        ("false || echo -n no && exit", 0, 0, "no"),
        ("true && false", 0, 1, ""),
        ("sleep 1m; sleep 0.5; /bin/false", 60.5, 1, ""),
        ("while true; do echo polo; sleep 2; done", math.inf, 0, "polo\n"),
        ("sleep infinity", math.inf, 0, ""),
    ],
)
def test_scripts(script: str, seconds: float, code: int, output: str) -> None:
    found = simple_command(shell(script))
    assert found is not None
    assert (found.seconds, found.exit_code, found.output) == (seconds, code, output)


@pytest.mark.parametrize(
    "script",
    [
        "exit $CODE",
        "serve &",
        "echo a | cat",
        "if true; then exit 1; fi",
        'echo "unbalanced',
        "nginx",
        "sleep x",
    ],
)
def test_unknown_scripts(script: str) -> None:
    assert simple_command(shell(script)) is None


def test_commands_without_a_shell() -> None:
    assert simple_command({"image": "busybox", "command": ["/bin/false"]}) == (0, 1, "", (), False)
    assert simple_command({"image": "busybox", "command": ["sleep"], "args": ["5"]}) == (5, 0, "", (), False)
    assert simple_command({"image": "busybox", "command": ["echo", "$(NAME)"]}) is None
    assert simple_command({"image": "registry.k8s.io/pause:3.10"}) == (math.inf, 0, "", (), False)
    assert simple_command({"image": "nginx:1"}) is None


async def test_exit_code_log_and_termination_message(cluster: SimulatedCluster) -> None:
    script = "echo working; echo -n broken > /dev/termination-log; exit 7"
    await cluster.create_pod("job", containers=[shell(script)], restartPolicy="Never")
    status = await cluster.wait_for("job", lambda status: status["phase"] == "Failed")
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (7, "Error", "broken")
    run = cluster.nodes.workers[ObjectKey("default", "job")].containers[0].run
    assert run is not None
    assert cluster.nodes.runtime.log(run).last_lines(2) == [b"working"]


async def test_annotations_have_precedence_over_the_command(cluster: SimulatedCluster) -> None:
    await cluster.create_pod(
        "job", containers=[shell("exit 7")], restartPolicy="Never", simulate={"exit-code": "0"}
    )
    await cluster.wait_for("job", lambda status: status["phase"] == "Succeeded")


async def test_failing_init_container(cluster: SimulatedCluster) -> None:
    first = {"name": "first", "image": "busybox", "command": ["/bin/false"]}
    await cluster.create_pod("web", initContainers=[first], restartPolicy="Never")
    status = await cluster.wait_for("web", lambda status: status["phase"] == "Failed")
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 1
    assert "waiting" in status["containerStatuses"][0]["state"]


async def test_exec_probe_that_fails(cluster: SimulatedCluster) -> None:
    probe = {"exec": {"command": ["/bin/false"]}, "periodSeconds": 1}
    container = {"name": "app", "image": "nginx:1", "readinessProbe": probe}
    await cluster.create_pod("web", containers=[container])
    status = await cluster.wait_for("web", lambda status: status["phase"] == "Running")
    await asyncio.sleep(60)
    status = await cluster.status("web")
    assert (status["containerStatuses"][0]["ready"], status["containerStatuses"][0]["restartCount"]) == (
        False,
        0,
    )


async def test_variables_are_printed(cluster: SimulatedCluster) -> None:
    await cluster.client.create(
        Unstructured(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "settings", "namespace": "default"},
                "data": {"colour": "blue"},
            }
        )
    )
    variables = [
        {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "BOTH", "value": "$(COLOUR)-$(POD_IP)"},
    ]
    container = {**shell("env"), "env": variables}
    await cluster.create_pod("job", containers=[container], restartPolicy="Never")
    status = await cluster.wait_for("job", lambda status: status["phase"] == "Succeeded")
    run = cluster.nodes.workers[ObjectKey("default", "job")].containers[0].run
    assert run is not None
    lines = cluster.nodes.runtime.log(run).last_lines(100)
    assert f"BOTH=blue-{status['podIP']}".encode() in lines


async def test_missing_variables(cluster: SimulatedCluster) -> None:
    variable = {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "missing", "key": "colour"}}}
    await cluster.create_pod("job", containers=[{**shell("env"), "env": [variable]}], restartPolicy="Never")

    def reason(status: dict[str, Any]) -> object:
        return (status["containerStatuses"][0]["state"].get("waiting") or {}).get("reason")

    await cluster.wait_for(
        "job", lambda s: "containerStatuses" in s and reason(s) == "CreateContainerConfigError"
    )
