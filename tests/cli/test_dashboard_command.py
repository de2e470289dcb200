"""`kubewright dashboard`, and `--dashboard` of `kubewright up`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubewright.cli import main

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
"""


def test_errors_are_one_line(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    result = CliRunner().invoke(main, ["dashboard", "--kubeconfig", str(kubeconfig)])
    assert result.exit_code == 1
    assert re.match(
        r"Error: cannot reach the cluster of .*\(context here\): .*cannot be reached", result.output
    )
    result = CliRunner().invoke(main, ["dashboard", "--kubeconfig", str(tmp_path / "missing")])
    assert result.exit_code == 1
    assert "Error: " in result.output


def open_page(address: str) -> Any:
    """Sign in with the printed address; return a function that reads a path."""
    with urllib.request.urlopen(address) as response:
        found = re.search(r'<meta name="session" content="([^"]+)">', response.read().decode())
    assert found is not None
    base = address.partition("/?")[0]

    def read(path: str) -> Any:
        request = urllib.request.Request(base + path, headers={"X-Kubewright-Dashboard": found.group(1)})
        with urllib.request.urlopen(request) as response:
            return json.load(response)

    return read


def test_up_with_dashboard_shows_objects_and_controllers(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(DEPLOYMENT)
    command = [sys.executable, "-m", "kubewright.cli", "up", "--dashboard", "--apply", "web.yaml"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            line = next(each for each in process.stderr if each.startswith("Dashboard: "))
            read = open_page(line.removeprefix("Dashboard: ").strip())
            info = read("/api/info")
            assert info["cluster"]["context"] == "kubewright up"
            assert info["operators"] == ["workload controllers"]
            kinds = {kind["kind"]: kind["count"] for kind in read("/api/overview")["kinds"]}
            assert kinds["Namespace"] >= 4
            tree: list[str] = []
            while tree.count("Current") < 3:  # the Deployment, its ReplicaSet and its Pod
                nodes = read("/api/tree?group=apps&kind=Deployment&namespace=default&name=web")["nodes"]
                tree = [node["health"] for node in nodes]
            controllers = [each["name"] for each in read("/api/queues")["controllers"]]
            assert "deployment-controller" in controllers
            assert next(process.stderr).startswith("Dashboard for another browser: http://127.0.0.1:")
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 0


OPERATOR = """
from kubewright import CustomResource, Operator, Spec, resource

class ToySpec(Spec):
    size: int = 1

@resource(group="dashboard.example.com", version="v1")
class Toy(CustomResource[ToySpec, None]):
    '''A toy.'''

operator = Operator("toys")

@operator.reconcile(Toy)
async def reconcile(toy: Toy) -> None:
    raise RuntimeError("broken toy")
"""
TOY = """
apiVersion: dashboard.example.com/v1
kind: Toy
metadata: {name: a, namespace: default}
spec: {size: 2}
"""


def test_run_with_dashboard_shows_reconciles_of_the_operator(tmp_path: Path) -> None:
    (tmp_path / "toys.py").write_text(OPERATOR)
    (tmp_path / "toy.yaml").write_text(TOY)
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    environment["HOME"] = str(tmp_path)
    command = [sys.executable, "-m", "kubewright.cli", "run", "toys.py", "--dashboard"]
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stderr is not None
        try:
            line = next(each for each in process.stderr if each.startswith("Dashboard: "))
            read = open_page(line.removeprefix("Dashboard: ").strip())
            assert read("/api/info")["operators"] == ["toys", "workload controllers"]
            arguments = [
                "apply",
                "-f",
                str(tmp_path / "toy.yaml"),
                "--kubeconfig",
                str(tmp_path / "kubeconfig"),
            ]
            result = CliRunner().invoke(main, arguments)
            assert result.exit_code == 0, result.output
            spans: list[Any] = []
            while not spans:
                spans = read("/api/reconciles?controller=toy&errors=1")["spans"]
            assert spans[0]["error"] == "RuntimeError: broken toy"
            assert 'raise RuntimeError("broken toy")' in spans[0]["traceback"]
        finally:
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--bind", "0.0.0.0"), "--tls-cert"),
        (("--operator", "http://127.0.0.1:8090"), "KUBEWRIGHT_TRACE_TOKEN"),
    ],
)
def test_unsafe_options_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], problem: str
) -> None:
    async def version(self: object) -> dict[str, str]:
        return {}

    monkeypatch.setattr("kubewright.client.Client.version", version)
    monkeypatch.delenv("KUBEWRIGHT_TRACE_TOKEN", raising=False)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    result = CliRunner().invoke(main, ["dashboard", "--kubeconfig", str(kubeconfig), *arguments])
    assert result.exit_code == 1
    assert problem in result.output
    assert len(result.output.strip().splitlines()) == 1
