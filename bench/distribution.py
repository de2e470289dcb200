"""What an operator image contains: the wheels `kubewright-runtime` and `kubewright`, beside kopf.

Each is installed in a virtual environment of its own (with `uv` or `pip`, which need a package index), where
the same operator, a greeter that sets its status, is imported and run on `kubewright up`. Import time is CPU
of a process that imports the operator, less that of Python; memory is read after the operator has set the
status of one object.
"""

from __future__ import annotations

import atexit
import contextlib
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import Benchmark, Unavailable
from bench._process import environment, resident_memory
from bench.cache import server
from kubewright.client import SyncClient, condition

ROOT = Path(__file__).parents[1]
ROUNDS = 5
TIMEOUT = 60.0

DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "greeters.bench.example.com"},
    "spec": {
        "group": "bench.example.com",
        "scope": "Namespaced",
        "names": {"kind": "Greeter", "plural": "greeters"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}

GREETER = '''
from kubewright import Context, CustomResource, Operator, Spec, Status, resource

class GreeterSpec(Spec):
    name: str = "world"

class GreeterStatus(Status):
    greeting: str = ""

@resource(group="bench.example.com", version="v1")
class Greeter(CustomResource[GreeterSpec, GreeterStatus]):
    """A greeter."""

operator = Operator("greeter")

@operator.reconcile(Greeter)
async def reconcile(greeter: Greeter, ctx: Context) -> None:
    greeter.status.greeting = f"Hello, {greeter.spec.name}!"
    await ctx.update_status()
'''

KOPF_GREETER = """
import kopf

@kopf.on.resume("bench.example.com", "v1", "greeters")
@kopf.on.create("bench.example.com", "v1", "greeters")
@kopf.on.update("bench.example.com", "v1", "greeters")
async def reconcile(spec, patch, **_):
    patch.status["greeting"] = f"Hello, {spec.get('name', 'world')}!"
"""


@dataclass(frozen=True)
class Installation:
    """A virtual environment with one distribution and its dependencies, and the operator."""

    directory: Path
    command: tuple[str, ...]

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.directory / "bin" / "python"

    @property
    def site(self) -> Path:
        """The directory of the installed packages."""
        (found,) = (self.directory / "lib").glob("python*/site-packages")
        return found

    def packages(self) -> int:
        """The number of distributions, dependencies counted."""
        return len(list(self.site.glob("*.dist-info")))

    def size(self) -> float:
        """MB of the installed files, without bytecode."""
        files = (each for each in self.site.rglob("*") if each.is_file() and each.suffix != ".pyc")
        return sum(each.stat().st_size for each in files) / 1e6

    def import_cost(self, statement: str) -> float:
        """CPU seconds of a process that executes a statement, less that of one that does nothing."""

        def cpu(program: str) -> float:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [self.python, "-c", program]
            subprocess.run(command, check=True, env=environment(), cwd=self.directory)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

        cpu(statement)  # writes the bytecode
        return max(0.0, min(cpu(statement) for _ in range(ROUNDS)) - min(cpu("") for _ in range(ROUNDS)))

    def memory(self) -> float:
        """MB of the running operator, after it has set a status."""
        with server() as kubeconfig, SyncClient.connect(kubeconfig, metrics=False) as client:
            client.apply(DEFINITION, field_manager="bench", force=True)
            client.wait(
                "customresourcedefinitions", DEFINITION["metadata"]["name"], until=condition("Established")
            )
            process = subprocess.Popen(
                [self.python, *self.command],
                env={**environment(), "KUBECONFIG": kubeconfig},
                cwd=self.directory,
                stderr=subprocess.DEVNULL,
            )
            try:
                greeter = {
                    "apiVersion": "bench.example.com/v1",
                    "kind": "Greeter",
                    "metadata": {"name": "one", "namespace": "default"},
                    "spec": {"name": "bench"},
                }
                client.create(greeter)
                client.wait(
                    "greeters.bench.example.com",
                    "one",
                    namespace="default",
                    until=lambda found: (
                        found is not None and found.get_nested("status", "greeting") == "Hello, bench!"
                    ),
                    timeout=TIMEOUT,
                )
                return resident_memory(process.pid)
            finally:
                process.terminate()
                process.wait()


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{Path(command[0]).name} failed: {done.stderr.strip().splitlines()[-1]}")


def _build(folder: Path, output: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(output)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"hatchling failed: {done.stderr.strip().splitlines()[-1]}")
    (wheel,) = output.glob("*.whl")
    return wheel


def _install(directory: Path, requirement: str, program: str, *command: str) -> Installation:
    installation = Installation(directory, command)
    uv = shutil.which("uv")
    if uv is not None:
        _run(uv, "venv", "--quiet", "--python", sys.executable, directory)
        _run(uv, "pip", "install", "--quiet", "--python", installation.python, requirement)
    else:
        _run(sys.executable, "-m", "venv", directory)
        _run(installation.python, "-m", "pip", "install", "--quiet", requirement)
    (directory / "greeter.py").write_text(program)
    return installation


def _benchmarks(name: str, installation: Installation, statement: str) -> Iterator[Benchmark]:
    packages = installation.packages()
    yield Benchmark(name=f"{name}: installed, {packages} packages", run=installation.size, memory=True)
    yield Benchmark(
        name=f"{name}: import of the library",
        run=lambda: installation.import_cost(statement),
        self_timed=True,
    )
    yield Benchmark(
        name=f"{name}: import of the operator",
        run=lambda: installation.import_cost("import greeter"),
        self_timed=True,
    )
    yield Benchmark(name=f"{name}: memory of the operator", run=installation.memory, memory=True)


def benchmarks() -> list[Benchmark]:
    """Size, import and memory of the two wheels and of kopf."""
    folder = Path(tempfile.mkdtemp(prefix="bench-distribution-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    found: list[Benchmark] = []
    run = ("-m", "kubewright.cli", "run", "greeter.py", "--production")
    for name, source in (("kubewright-runtime", ROOT / "runtime"), ("kubewright", ROOT)):
        wheel = _build(source, folder / f"{name}-wheel")
        size = wheel.stat().st_size / 1e6
        found.append(Benchmark(name=f"{name}: wheel", run=lambda size=size: size, memory=True))
        installation = _install(folder / name, str(wheel), GREETER, *run)
        found += _benchmarks(name, installation, "import kubewright")
    with contextlib.suppress(Unavailable):
        kopf = _install(
            folder / "kopf",
            "kopf[uvloop]",
            KOPF_GREETER,
            "-m",
            "kopf",
            "run",
            "--all-namespaces",
            "greeter.py",
        )
        found += _benchmarks("kopf", kopf, "import kopf")
    return found


__all__ = ["Installation", "benchmarks"]
