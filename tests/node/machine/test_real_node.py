"""A real kubelet on this machine; skipped without one (`kubewright.testing.real_nodes`)."""

from __future__ import annotations

import os
from typing import Any

import pytest
from tests.waiting import eventually

from kubewright.api.core.v1 import Node, Pod
from kubewright.testing.server import TestServer

IMAGE = os.environ.get("KUBEWRIGHT_TEST_IMAGE", "docker.io/library/busybox:1.36")
BOTH = [
    pytest.param(1, marks=pytest.mark.control_plane(nodes=1), id="simulated"),
    pytest.param("real", marks=pytest.mark.control_plane(nodes="real"), id="real"),
]


def pod(name: str, *command: str) -> dict[str, Any]:
    container = {"name": "c", "image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": list(command)}
    spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


@pytest.mark.parametrize("nodes", BOTH)
async def test_pod_runs_to_completion(control_plane: TestServer, nodes: Any) -> None:
    client = control_plane.client()
    await client.create(pod("job", "sh", "-c", "echo hello"))

    async def phase() -> Any:
        found = await client.get(Pod, "job", namespace="default")
        return (
            found.status is not None and found.status.phase in ("Succeeded", "Running") and found.status.phase
        )

    assert await eventually(phase)


@pytest.mark.control_plane(nodes="real")
async def test_exit_code_log_and_names_of_a_real_container(control_plane: TestServer) -> None:
    client = control_plane.client()
    script = "echo hello; nslookup kubernetes.default.svc.cluster.local; exit 7"
    await client.create(pod("failing", "sh", "-c", script))

    async def exit_code() -> Any:
        found = await client.get(Pod, "failing", namespace="default")
        states = (found.status.container_statuses if found.status is not None else None) or []
        return [each.state.terminated.exit_code for each in states if each.state and each.state.terminated]

    assert await eventually(exit_code) == [7]
    log = await client.log("failing", namespace="default")
    assert "hello" in log
    if control_plane.plane.options.dns:
        assert "10.0.0.1" in log, "cluster DNS"
    (node,) = await client.list(Node)
    assert node.spec.pod_cidr == "10.244.0.0/24"
    assert node.status.node_info.container_runtime_version.startswith("containerd://")
