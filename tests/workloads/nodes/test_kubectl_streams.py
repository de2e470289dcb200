"""kubectl logs, exec, cp, port-forward and debug on simulated pods, with WebSockets and with SPDY."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.workloads.nodes.simulated_cluster import SimulatedCluster, start_cluster

from kubewright.workloads.nodes.containers.runtime import ByteStream

KUBECTL = os.environ.get("KUBECTL") or shutil.which("kubectl") or ""
pytestmark = pytest.mark.skipif(not KUBECTL, reason="kubectl is not installed")

TRANSPORTS = {
    "websocket": {},
    "spdy": {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"},
}


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    async with start_cluster("tls") as started:
        await started.create_pod("web", simulate={"logs": "one\ntwo\n"})
        await started.wait_ready("web")
        yield started


async def kubectl(
    cluster: SimulatedCluster, *arguments: str, input: bytes | None = None, transport: str = "websocket"
) -> tuple[int, str]:
    """Run kubectl; return its exit code and output."""
    environment = {
        **os.environ,
        **TRANSPORTS[transport],
        "KUBECONFIG": str(cluster.server.plane.kubeconfig),
    }
    stdin = asyncio.subprocess.PIPE if input is not None else asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        KUBECTL,
        *arguments,
        env=environment,
        stdin=stdin,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(120):
        output, _ = await process.communicate(input)
    return process.returncode or 0, output.decode()


async def test_logs(cluster: SimulatedCluster) -> None:
    assert await kubectl(cluster, "logs", "web", "--tail=1") == (0, "two\n")


@pytest.mark.parametrize("transport", list(TRANSPORTS))
async def test_exec(cluster: SimulatedCluster, transport: str) -> None:
    assert await kubectl(cluster, "exec", "web", "--", "echo", "hi", transport=transport) == (0, "hi\n")
    code, output = await kubectl(
        cluster, "exec", "-i", "web", "--", "cat", input=b"from stdin", transport=transport
    )
    assert (code, output) == (0, "from stdin")
    code, output = await kubectl(cluster, "exec", "web", "--", "false", transport=transport)
    assert (code, output) == (1, "command terminated with exit code 1\n")


async def test_copy(cluster: SimulatedCluster, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("content")
    assert (await kubectl(cluster, "cp", str(tmp_path / "x"), "web:/tmp/x"))[0] == 0
    assert (await kubectl(cluster, "cp", "web:/tmp/x", str(tmp_path / "y")))[0] == 0
    assert (tmp_path / "y").read_text() == "content"


@pytest.mark.parametrize("transport", list(TRANSPORTS))
async def test_port_forward(cluster: SimulatedCluster, transport: str) -> None:
    async def shout(stream: ByteStream) -> None:
        await stream.send((await stream.receive()).upper())

    cluster.nodes.pods.on_port_forward("web", shout)
    environment = {
        **os.environ,
        **TRANSPORTS[transport],
        "KUBECONFIG": str(cluster.server.plane.kubeconfig),
    }
    process = await asyncio.create_subprocess_exec(
        KUBECTL, "port-forward", "web", ":80", env=environment, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(120):
            line = (await process.stdout.readline()).decode()
            port = int(line.partition("127.0.0.1:")[2].split()[0])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"hello")
            assert await reader.read() == b"HELLO"
            writer.close()
    finally:
        process.terminate()
        await process.wait()


async def test_debug(cluster: SimulatedCluster) -> None:
    code, _ = await kubectl(cluster, "debug", "web", "--image=busybox", "-c", "dbg", "--", "sleep", "1")
    assert code == 0
    status = await cluster.wait_for("web", lambda status: "ephemeralContainerStatuses" in status)
    assert status["ephemeralContainerStatuses"][0]["name"] == "dbg"
