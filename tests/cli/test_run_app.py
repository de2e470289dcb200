"""`kubewright run` of an API server: registration, its end, and wrong usage."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.waiting import eventually

from kubewright.cli import main
from kubewright.client import Client, NoKindMatch, condition
from kubewright.testing import start_test_server

PROGRAM = """
from kubewright import APIServerApp, CustomResource, Operator, Spec, resource

class ToySpec(Spec):
    colour: str = "red"

@resource(group="runapp.example.com", version="v1")
class Toy(CustomResource[ToySpec, None]):
    pass

operator = Operator("toys")
app = APIServerApp("toys")
app.add(Toy)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "runapp_toys.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


async def test_registration_begins_and_ends_with_the_command(project: Path) -> None:
    async with start_test_server("tls", controllers=False) as server:
        command = [sys.executable, "-m", "kubewright.cli", "run", "runapp_toys", "--development"]
        process = await asyncio.create_subprocess_exec(
            *command,
            "--kubeconfig",
            str(server.plane.kubeconfig),
            cwd=project,
            env=os.environ,
            stderr=asyncio.subprocess.PIPE,
        )
        client = server.client()
        name = "v1.runapp.example.com"
        try:
            await client.wait("apiservices", name, until=condition("Available"), timeout=60)

            async def is_served() -> bool:
                toys = Client.from_transport(server.transport)
                return [each.name for each in await toys.list("toys.runapp.example.com")] == []

            # As in kube-apiserver, discovery is read after the service has become available.
            await eventually(is_served, ignore=NoKindMatch)
        finally:
            process.send_signal(signal.SIGTERM)
        _, output = await process.communicate()
        assert process.returncode == 0, output.decode()
        assert b"registered API services" in output
        assert name not in [each.name for each in await client.list("apiservices")]


def test_options_of_operators_are_rejected(project: Path) -> None:
    result = CliRunner().invoke(main, ["run", "runapp_toys:app", "--metrics-port", "8443"])
    assert result.exit_code == 2
    assert "--metrics-port is for operators" in result.output


def test_remote_clusters_need_an_address(project: Path) -> None:
    Path("kubeconfig").write_text(
        "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, "
        "user: a}}], clusters: [{name: a, cluster: {server: 'https://192.0.2.1:6443'}}], users: [{name: a, "
        "user: {token: x}}]}"
    )
    result = CliRunner().invoke(
        main, ["run", "runapp_toys:app", "--kubeconfig", "kubeconfig", "--development"]
    )
    assert result.exit_code == 1
    assert (
        "https://192.0.2.1:6443 cannot reach this machine; set KUBEWRIGHT_EXTERNAL_ADDRESS" in result.output
    )
