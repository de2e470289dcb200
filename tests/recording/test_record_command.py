"""`kubewright record` on a server over TLS: nothing is written to it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import ConfigMap
from kubewright.recording import read_recording
from kubewright.testing import start_test_server


async def record(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kubewright.cli", "record", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def test_a_cluster_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "a.recording.gz"
    async with start_test_server("tls") as server:
        client, kubeconfig = server.client(), str(server.plane.kubeconfig)
        await client.create(ConfigMap(metadata=ObjectMeta(name="a"), data={"x": "1"}))
        before = server.plane.history.recent(1)
        process = await record(str(path), "--kubeconfig", kubeconfig, "--kinds", "cm,deploy")
        assert process.stderr is not None
        line = b""
        async with asyncio.timeout(60):
            while not line.startswith(b"recording "):
                line = await process.stderr.readline()
        assert server.plane.history.recent(1) == before, "Leases excepted, nothing was written"
        await client.create(ConfigMap(metadata=ObjectMeta(name="b")))
        async with asyncio.timeout(60):
            while not read_recording(tmp_path / ".a.recording.gz.writing").changes:
                await asyncio.sleep(0.05)
        process.terminate()
        output, _ = await process.communicate()
        assert process.returncode == 0
        assert b"1 changes" in output
        failed = await record(str(path), "--kubeconfig", kubeconfig, "--kinds", "nothing")
        _, errors = await failed.communicate()
        assert failed.returncode == 1
        assert errors.endswith(b"Error: the server has no resource 'nothing' that can be watched\n")
    found = read_recording(path)
    assert [(each.type, each.key.name) for each in found.changes] == [("ADDED", "b")]
    assert found.kubernetes_version.startswith("1.")
