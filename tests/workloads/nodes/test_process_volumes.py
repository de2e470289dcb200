"""Volumes of containers that are local processes, with and without mount namespaces."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.workloads.nodes.process_cluster import ProcessCluster, linux_only, start_process_cluster

from kubewright.workloads.nodes.processes import runtime as runtime_module
from kubewright.workloads.nodes.processes.launch import is_supported
from kubewright.workloads.nodes.processes.volumes.atomic_directory import AtomicDirectory, FileContent

pytestmark = linux_only
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"


@pytest.fixture(params=["mount", "user", ""], ids=["mount-namespace", "user-namespace", "links"])
async def cluster(request: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ProcessCluster]:
    if request.param and not is_supported(request.param):
        pytest.skip(f"{request.param} namespaces are not available")
    monkeypatch.setattr(runtime_module, "detect_namespaces", lambda: request.param)
    async with start_process_cluster() as started:
        yield started


async def read(cluster: ProcessCluster, pod: str, path: str) -> str:
    """Return the content of a file in a container."""
    code, output = await cluster.exec(pod, "sh", "-c", f'cat "${{KUBEWRIGHT_ROOT:-}}{path}"')
    return output if code == 0 else ""


async def wait_for_content(cluster: ProcessCluster, pod: str, path: str, expected: str) -> None:
    async with asyncio.timeout(120):
        while await read(cluster, pod, path) != expected:
            await asyncio.sleep(0.05)


def test_files_are_replaced_together(tmp_path: Path) -> None:
    folder = AtomicDirectory(tmp_path / "volume")
    assert folder.write({"a": FileContent(b"1"), "sub/b": FileContent(b"2", 0o600)})
    assert not folder.write({"a": FileContent(b"1"), "sub/b": FileContent(b"2", 0o600)})
    before = (tmp_path / "volume" / "..data").resolve()
    assert (tmp_path / "volume" / "sub" / "b").stat().st_mode & 0o777 == 0o600
    assert folder.write({"a": FileContent(b"3")})
    assert (tmp_path / "volume" / "a").read_bytes() == b"3"
    assert not (tmp_path / "volume" / "sub").exists()
    assert not before.exists()


async def test_volumes_are_mounted_and_updated(cluster: ProcessCluster) -> None:
    await cluster.create("ConfigMap", "files", data={"a": "one", "b": "two"})
    await cluster.create("Secret", "keys", data={"key": base64.b64encode(b"\x00secret").decode()})
    items = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
    await cluster.run_pod(
        "files",
        "sleep",
        "600",
        volumeMounts=[
            {"name": "config", "mountPath": "/kubewright-test/config"},
            {"name": "config", "mountPath": "/kubewright-test/only-a", "subPath": "a"},
            {"name": "secret", "mountPath": "/kubewright-test/secret"},
            {"name": "info", "mountPath": "/kubewright-test/info"},
        ],
        spec={
            "volumes": [
                {"name": "config", "configMap": {"name": "files"}},
                {
                    "name": "secret",
                    "secret": {"secretName": "keys", "items": [{"key": "key", "path": "x/y", "mode": 0o400}]},
                },
                {"name": "info", "downwardAPI": {"items": items}},
            ]
        },
    )
    await cluster.wait_ready("files")
    assert await read(cluster, "files", "/kubewright-test/config/a") == "one"
    assert await read(cluster, "files", "/kubewright-test/only-a") == "one"
    assert await read(cluster, "files", "/kubewright-test/secret/x/y") == "\x00secret"
    assert await read(cluster, "files", "/kubewright-test/info/labels") == 'app="files"'
    path = '"${KUBEWRIGHT_ROOT:-}/kubewright-test/secret/x/y"'
    assert await cluster.exec("files", "sh", "-c", f"stat -Lc %a {path}") == (0, "400\n")
    assert not Path("/kubewright-test").exists()

    configmap = await cluster.client.get("configmaps", "files")
    configmap.raw["data"] = {"a": "new", "c": "three"}
    await cluster.client.update(configmap)
    await wait_for_content(cluster, "files", "/kubewright-test/config/c", "three")
    assert await read(cluster, "files", "/kubewright-test/config/a") == "new"
    assert await read(cluster, "files", "/kubewright-test/config/b") == ""

    pod = await cluster.client.get("pods", "files")
    pod.raw["metadata"]["labels"]["zone"] = "a"
    await cluster.client.update(pod)
    await wait_for_content(cluster, "files", "/kubewright-test/info/labels", 'app="files"\nzone="a"')


async def test_service_account_token_is_bound_to_the_pod(cluster: ProcessCluster) -> None:
    pod = await cluster.run_pod("token", "sleep", "600")
    await cluster.wait_ready("token")
    payload = (await read(cluster, "token", f"{TOKEN}/token")).split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    assert claims["kubernetes.io"]["pod"] == {"name": "token", "uid": pod.raw["metadata"]["uid"]}
    assert await read(cluster, "token", f"{TOKEN}/namespace") == "default"
    assert "BEGIN CERTIFICATE" in await read(cluster, "token", f"{TOKEN}/ca.crt")
    program = (
        "from kubewright.client.config.cluster_config import in_cluster\n"
        "config = in_cluster()\n"
        "print(config.namespace, open(config.token_file).read().count('.'))\n"
    )
    assert await cluster.exec("token", sys.executable, "-c", program) == (0, "default 2\n")


async def test_missing_configmap_is_a_failed_mount(cluster: ProcessCluster) -> None:
    await cluster.run_pod(
        "mount",
        "sleep",
        "600",
        volumeMounts=[{"name": "config", "mountPath": "/config"}],
        spec={"volumes": [{"name": "config", "configMap": {"name": "absent"}}]},
    )
    await cluster.wait_for_reasons("mount", "FailedMount")
    events = [each.raw for each in await cluster.client.list("events", namespace="default")]
    message = 'MountVolume.SetUp failed for volume "config" : configmap "absent" not found'
    assert message in [event["message"] for event in events]
    assert (await cluster.status("mount"))["phase"] == "Pending"
    await cluster.create("ConfigMap", "absent", data={"a": "1"})
    await cluster.wait_ready("mount")


async def test_termination_message_file(cluster: ProcessCluster) -> None:
    command = 'echo done > "${KUBEWRIGHT_ROOT:-}/dev/termination-log"; exit 2'
    await cluster.run_pod("message", "sh", "-c", command, spec={"restartPolicy": "Never"})
    found = await cluster.exit_of("message")
    assert (found["exitCode"], found["message"]) == (2, "done\n")


async def test_working_directory_is_created(cluster: ProcessCluster) -> None:
    spec = {"restartPolicy": "Never"}
    await cluster.run_pod("pwd", "sh", "-c", "touch x && pwd", workingDir="/kubewright-test/work", spec=spec)
    assert (await cluster.exit_of("pwd"))["exitCode"] == 0
    runtime = cluster.nodes.runtime
    expected = "/kubewright-test/work\n" if runtime.namespaces else ".directory\n"  # type: ignore[attr-defined]
    assert (await cluster.logs("pwd")).endswith(expected)
    assert not Path("/kubewright-test").exists()


async def test_files_of_a_deleted_pod_are_removed(cluster: ProcessCluster) -> None:
    pod = await cluster.run_pod("gone", "sleep", "600")
    await cluster.wait_ready("gone")
    state = cluster.nodes.runtime.state  # type: ignore[attr-defined]
    folder = state.pod(pod.raw["metadata"]["uid"])
    assert folder.is_dir()
    await cluster.client.delete("pods", "gone", grace_period=0)
    async with asyncio.timeout(120):
        while folder.exists():
            await asyncio.sleep(0.02)
