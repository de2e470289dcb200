"""`kubewright record` on a server over TLS: nothing is written to it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

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


@pytest.mark.parametrize("command", ["record", "export", "plan"])
def test_wrong_files_are_one_line(command: str, tmp_path: Path) -> None:
    from kubewright.cli.clusters.export import export_command
    from kubewright.cli.operators.plan import plan_command
    from kubewright.cli.operators.record import record_command

    short = tmp_path / "short"
    short.write_bytes(b"\xff\xfe")
    output, missing = str(tmp_path / "a.json"), str(tmp_path / "missing.json")
    called, cases = {
        "record": (
            record_command,
            [
                ([output, "--redaction-key", str(short)], "has less than 16 bytes"),
                ([output, "--redaction-key", missing], "cannot read"),
                ([output, "--operator-token-file", str(short)], "does not contain a token"),
            ],
        ),
        "export": (
            export_command,
            [
                (["-o", output, "--redaction-key", str(short)], "has less than 16 bytes"),
                (["-o", output, "--redaction-key", missing], "cannot read"),
            ],
        ),
        "plan": (plan_command, [(["--command", "x", "--from", missing], "does not exist; write it with")]),
    }[command]
    for arguments, message in cases:
        result = CliRunner().invoke(called, arguments)
        assert result.exit_code == 1
        assert result.stderr.startswith("Error: ")
        assert message in result.stderr
        assert result.stderr.count("\n") == 1
