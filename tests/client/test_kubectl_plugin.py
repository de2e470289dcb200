"""Plug-ins of kubectl: options, tables, errors and completion, also as kubectl calls them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import click
import pytest
import pytest_asyncio
import yaml
from click.testing import CliRunner, Result

from kubewright.api.core.v1 import ConfigMap, Namespace, Node
from kubewright.api.meta import ObjectMeta
from kubewright.client.kubectl_plugin import (
    KubectlContext,
    KubectlPlugin,
    age,
    complete_names,
    condition_status,
)
from kubewright.testing.server import start_test_server

SOURCE = Path(__file__).parents[2] / "src"


@click.command("kubectl settings", cls=KubectlPlugin)
@click.argument("names", nargs=-1, shell_complete=complete_names(ConfigMap))
def main(kubectl: KubectlContext, names: tuple[str, ...]) -> None:
    """Print ConfigMaps."""
    with kubectl.connect() as client:
        found = [client.get(ConfigMap, name) for name in names]
        if not names:
            found = list(client.list(ConfigMap, namespace=kubectl.namespace, labels="app=shop"))
    kubectl.print(
        found,
        {
            "KEYS": lambda each: ",".join(each.data or {}),
            "READY": condition_status("Ready"),
            "AGE": age,
        },
    )


@pytest_asyncio.fixture
async def kubeconfig() -> AsyncIterator[Path]:
    async with start_test_server("tls", None, controllers=False) as server:
        client = server.client()
        await client.create(Namespace(metadata=ObjectMeta(name="east")))
        for namespace, name in (("default", "red"), ("default", "green"), ("east", "blue")):
            metadata = ObjectMeta(name=name, namespace=namespace, labels={"app": "shop"})
            await client.create(ConfigMap(metadata=metadata, data={"a": "1"} if name == "red" else None))
        yield Path(str(server.plane.kubeconfig))


async def run(kubeconfig: Path, *arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, [*arguments, "--kubeconfig", str(kubeconfig)])


async def complete(kubeconfig: Path, *words: str) -> list[str]:
    def print_completions() -> str:
        with redirect_stdout(StringIO()) as output:
            main.complete(["--kubeconfig", str(kubeconfig), *words])
        return output.getvalue()

    return (await asyncio.to_thread(print_completions)).splitlines()


async def test_output(kubeconfig: Path) -> None:
    result = await run(kubeconfig)
    lines = result.stdout.splitlines()
    assert lines[0] == "NAME    KEYS     READY     AGE"
    assert [line.split()[:3] for line in lines[1:]] == [
        ["green", "<none>", "Unknown"],
        ["red", "a", "Unknown"],
    ]
    assert not any(line.endswith(" ") for line in lines)
    everywhere = (await run(kubeconfig, "-A")).stdout.splitlines()
    assert everywhere[0].startswith("NAMESPACE   NAME ")
    assert [line.split()[:2] for line in everywhere[1:]] == [
        ["default", "green"],
        ["default", "red"],
        ["east", "blue"],
    ]
    assert (await run(kubeconfig, "-n", "east", "-o", "name")).stdout == "configmap/blue\n"
    one = json.loads((await run(kubeconfig, "red", "-o", "json")).stdout)
    assert (one["kind"], one["metadata"]["name"]) == ("ConfigMap", "red")
    several = yaml.safe_load((await run(kubeconfig, "-o", "yaml")).stdout)
    assert (several["kind"], len(several["items"])) == ("List", 2)
    assert (await run(kubeconfig, "-n", "other")).stderr == "No resources found\n"


async def test_errors_are_one_line(kubeconfig: Path) -> None:
    missing = await run(kubeconfig, "blue")
    assert missing.exit_code == 1
    assert missing.stderr == 'Error from server (NotFound): configmaps "blue" not found\n'
    unknown = await run(kubeconfig, "--context", "other")
    assert unknown.exit_code == 1
    assert unknown.stderr.startswith("Error: ")
    assert unknown.stderr.count("\n") == 1


async def test_completion(kubeconfig: Path) -> None:
    assert await complete(kubeconfig, "") == ["green", "red", ":4"]
    assert await complete(kubeconfig, "red", "") == ["green", ":4"]
    assert await complete(kubeconfig, "-n", "east", "") == ["blue", ":4"]
    assert await complete(kubeconfig, "-A", "b") == ["blue", ":4"]
    assert await complete(kubeconfig, "-n", "ea") == ["east", ":4"]
    contexts = yaml.safe_load(kubeconfig.read_text())["contexts"]
    assert await complete(kubeconfig, "--context", "") == [contexts[0]["name"], ":4"]
    assert await complete(kubeconfig, "-o", "j") == ["json", ":4"]
    assert "--all-namespaces\tAll namespaces." in await complete(kubeconfig, "--")
    assert (await complete(kubeconfig, "--kubeconfig", "a"))[-1] == ":0"
    assert await complete(kubeconfig, "--context", "other", "") == [":4"]


def test_columns_of_objects_without_status() -> None:
    assert age(Node(metadata=ObjectMeta(name="a"))) == "<unknown>"
    assert condition_status("Ready")(Node(metadata=ObjectMeta(name="a"))) == "Unknown"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
async def test_kubectl_runs_and_completes_it(kubeconfig: Path, tmp_path: Path) -> None:
    """The entry points are executables on PATH, as pip installs them."""
    (tmp_path / "settings_plugin.py").write_text(Path(__file__).read_text())
    for name, function in (("kubectl-settings", "main"), ("kubectl_complete-settings", "main.complete")):
        script = tmp_path / name
        script.write_text(
            f"#!{sys.executable}\nimport sys\nfrom settings_plugin import main\nsys.exit({function}())\n"
        )
        script.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{SOURCE}{os.pathsep}{tmp_path}",
        "KUBECONFIG": str(kubeconfig),
    }

    async def kubectl(*arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            "kubectl",
            *arguments,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        output, _ = await process.communicate()
        assert process.returncode == 0
        return output.decode()

    assert (await kubectl("settings", "-n", "east")).splitlines()[1].startswith("blue ")
    assert await kubectl("__complete", "settings", "r") == "red\n:4\n"
    assert await kubectl("__complete", "settings", "-n", "ea") == "east\n:4\n"
