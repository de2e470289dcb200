"""The wheel `kubewright-runtime`: its content, and an operator that runs with nothing else."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from kubewright.api import GroupVersionKind, Unstructured
from kubewright.client import condition
from kubewright.parts import PARTS
from kubewright.testing import start_test_server

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "kubewright"

OPERATOR = """
from kubewright import Context, CustomResource, Operator, Spec, Status, resource

class GreeterSpec(Spec):
    name: str = "world"

class GreeterStatus(Status):
    greeting: str = ""

@resource(group="runtime.example.com", version="v1")
class Greeter(CustomResource[GreeterSpec, GreeterStatus]):
    '''A greeter.'''

operator = Operator("greeter")

@operator.reconcile(Greeter)
async def reconcile(greeter: Greeter, ctx: Context) -> None:
    greeter.status.greeting = f"Hello, {greeter.spec.name}!"
    await ctx.update_status()
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory with the content of the wheel."""
    output = tmp_path_factory.mktemp("runtime")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(output)]
    subprocess.run(command, cwd=ROOT / "runtime", check=True, capture_output=True)
    (wheel,) = output.glob("kubewright_runtime-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(output / "site")
    return output / "site"


def run(installed: Path, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python with the content of the wheel in front of this checkout."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, cwd=cwd or installed, capture_output=True, text=True)


def test_it_contains_whole_packages_and_no_other_part(installed: Path) -> None:
    found = {path.relative_to(installed / "kubewright") for path in (installed / "kubewright").rglob("*.*")}
    every = {path.relative_to(SOURCE) for path in SOURCE.rglob("*.*") if path.suffix != ".pyc"}
    parts = {path for path in every if path.parts[0] in PARTS}
    commands = {path for path in every if path.parts[0] == "cli"}
    assert found - commands == every - parts - commands
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert packages >= PARTS


def test_dependencies_are_those_of_kubewright() -> None:
    runtime, whole = (
        tomllib.loads((ROOT / name / "pyproject.toml").read_text())["project"] for name in ("runtime", "")
    )
    assert set(runtime["dependencies"]) <= set(whole["dependencies"])
    assert set(runtime["optional-dependencies"]["tracing"]) <= set(whole["optional-dependencies"]["tracing"])


def test_every_module_can_be_imported(installed: Path) -> None:
    program = """
import importlib, pkgutil, sys
import kubewright
for module in pkgutil.walk_packages(kubewright.__path__, "kubewright."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(kubewright.__file__)
declared = {each.partition(".")[0] for each in sys.modules}
print(sorted(declared & {"jwt", "grpc", "rich", "aetcd", "asyncpg", "pytest"}))
"""
    result = run(installed, "-c", program)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [str(installed / "kubewright" / "__init__.py"), "[]"]


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("import kubewright.testing", "kubewright.testing"),
        ("from kubewright import ControlPlane", "kubewright.controlplane"),
        ("from kubewright import APIServerApp", "kubewright.extension"),
    ],
)
def test_an_import_of_a_missing_part_names_the_package(installed: Path, statement: str, part: str) -> None:
    result = run(installed, "-c", statement)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].endswith(
        f"{part} is not part of kubewright-runtime; install kubewright instead"
    )


def test_commands(installed: Path, tmp_path: Path) -> None:
    text = run(installed, "-m", "kubewright.cli", "--help").stdout
    assert re.findall(r"^  ([a-z]\S*) ", text.partition("Commands:")[2], re.M) == ["run", "version"]
    result = run(installed, "-m", "kubewright.cli", "up")
    assert (result.returncode, result.stderr) == (
        1,
        "Error: python -m kubewright.cli up is not part of kubewright-runtime; install kubewright instead\n",
    )
    (tmp_path / "greeter.py").write_text(OPERATOR)
    environment = {"HOME": str(tmp_path), "KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": ""}
    command = [sys.executable, "-m", "kubewright.cli", "run", "greeter.py"]
    session = subprocess.run(
        command,
        env={**os.environ, **environment, "PYTHONPATH": str(installed)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert session.returncode == 1
    assert session.stderr.endswith(
        "Error: kubewright.controlplane is not part of kubewright-runtime; install kubewright instead\n"
    )


async def test_an_operator_runs(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "greeter.py").write_text(OPERATOR)
    gvk = GroupVersionKind("runtime.example.com", "v1", "Greeter")
    async with start_test_server("tls", controllers=False) as server:
        client = server.client()
        for mode, name in (("--development", "first"), ("--production", "second")):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "kubewright.cli", "run", "greeter.py", mode, "--yes"),
                *("--kubeconfig", str(server.plane.kubeconfig)),
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": str(installed)},
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                await client.wait(
                    "customresourcedefinitions",
                    "greeters.runtime.example.com",
                    until=condition("Established"),
                    timeout=60,
                )
                greeter = Unstructured.new(gvk, name, namespace="default")
                greeter["spec"] = {"name": name}
                await client.create(greeter)
                await client.wait(
                    greeter,
                    until=lambda found, name=name: (
                        found.get_nested("status", "greeting") == f"Hello, {name}!"
                    ),
                    timeout=60,
                )
            finally:
                process.send_signal(signal.SIGTERM)
                _, output = await process.communicate()
            assert process.returncode == 0, output.decode()
        await client.aclose()
