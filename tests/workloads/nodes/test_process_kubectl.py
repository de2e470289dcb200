"""kubectl logs, exec, attach, cp and port-forward on containers that are local processes."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from bench._ports import unused_port
from tests.workloads.nodes.process_cluster import ProcessCluster, linux_only, start_process_cluster
from tests.workloads.nodes.test_kubectl_streams import KUBECTL, kubectl

pytestmark = [linux_only, pytest.mark.skipif(not KUBECTL, reason="kubectl is not installed")]


@pytest.fixture
async def cluster() -> AsyncIterator[ProcessCluster]:
    async with start_process_cluster("tls") as started:
        yield started


async def test_exec_and_logs(cluster: ProcessCluster) -> None:
    await cluster.run_pod(
        "app", "sh", "-c", "echo one; echo two; sleep 600", env=[{"name": "A", "value": "b"}]
    )
    await cluster.wait_for_log("app", "two")
    assert await kubectl(cluster, "logs", "app", "--tail=1") == (0, "two\n")
    code, output = await kubectl(cluster, "exec", "app", "--", "sh", "-c", "echo $A; exit 3")
    assert (code, output.splitlines()[0]) == (3, "b")
    assert await kubectl(cluster, "exec", "-i", "app", "--", "cat", input=b"to the process") == (
        0,
        "to the process",
    )
    code, output = await kubectl(cluster, "exec", "app", "--", "no-such-program")
    assert code != 0
    assert "executable file not found in $PATH" in output


async def test_exec_with_a_terminal(cluster: ProcessCluster) -> None:
    await cluster.run_pod("app", "sleep", "600")
    await cluster.wait_ready("app")
    script = shutil.which("script")
    if script is None:
        pytest.skip("script is not installed")
    # kubectl sends the size after the command has started.
    exec_size = f"{KUBECTL} exec -it app -- sh -c 'until stty size | grep 33; do sleep 0.1; done; tty'"
    command = f"stty rows 33 cols 111; {exec_size}"
    process = await asyncio.create_subprocess_exec(
        script,
        "-qec",
        command,
        "/dev/null",
        env={**os.environ, "KUBECONFIG": str(cluster.server.plane.kubeconfig)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(120):
        output, _ = await process.communicate()
    assert b"/dev/pts/" in output
    assert b"33 111" in output


async def test_attach_writes_to_standard_input(cluster: ProcessCluster) -> None:
    await cluster.run_pod("app", "sh", "-c", "read line; echo got $line; sleep 600", stdin=True)
    await cluster.wait_ready("app")
    attaching = asyncio.create_task(kubectl(cluster, "attach", "-i", "app", input=b"hello\n"))
    await cluster.wait_for_log("app", "got hello")
    await cluster.client.delete("pods", "app", grace_period=0)
    _, output = await attaching
    assert "got hello" in output


async def test_copy_files(cluster: ProcessCluster, tmp_path: Path) -> None:
    await cluster.run_pod("app", "sleep", "600")
    await cluster.wait_ready("app")
    source = tmp_path / "source"
    source.write_bytes(b"\x00data")
    assert (await kubectl(cluster, "cp", str(source), "app:copied"))[0] == 0
    assert (await kubectl(cluster, "cp", "app:copied", str(tmp_path / "back")))[0] == 0
    assert (tmp_path / "back").read_bytes() == b"\x00data"


async def test_port_forward_and_services(cluster: ProcessCluster) -> None:
    port = unused_port()
    await cluster.run_pod(
        "web",
        sys.executable,
        "-m",
        "http.server",
        str(port),
        readinessProbe={"tcpSocket": {"port": port}, "periodSeconds": 1},
    )
    await cluster.wait_ready("web")
    forwarding = await asyncio.create_subprocess_exec(
        KUBECTL,
        "port-forward",
        "web",
        f":{port}",
        env={**os.environ, "KUBECONFIG": str(cluster.server.plane.kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert forwarding.stdout is not None
        async with asyncio.timeout(120):
            line = (await forwarding.stdout.readline()).decode()
            local = int(line.partition("127.0.0.1:")[2].split()[0])
            reader, writer = await asyncio.open_connection("127.0.0.1", local)
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            assert b"200 OK" in await reader.readline()
            writer.close()
    finally:
        forwarding.kill()
        await forwarding.wait()
    await cluster.create("Service", "web", spec={"selector": {"app": "web"}, "ports": [{"port": port}]})
    address = (await cluster.status("web"))["podIP"]
    if address.startswith("127."):
        pytest.skip("the machine has no address that is not a loopback address")
    async with asyncio.timeout(120):
        while not any(
            endpoint["addresses"] == [address]
            for each in await cluster.client.list("endpointslices.discovery.k8s.io", namespace="default")
            for endpoint in each.raw.get("endpoints") or ()
            if each.raw["metadata"].get("labels", {}).get("kubernetes.io/service-name") == "web"
        ):
            await asyncio.sleep(0.05)
