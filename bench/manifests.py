"""Manifest generation: the CronJob of the tutorial, whose pod template makes a large CRD, and the command for
a project with five APIs, webhooks and a deployment."""

from __future__ import annotations

import importlib.util
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

from bench import Benchmark
from bench._process import environment
from kubewright.manifests import Options, crd, generate, read_project, to_yaml
from kubewright.schema.generation.from_types import schema_of

EXAMPLES = Path(__file__).parents[1] / "examples" / "types"

SETTINGS = """
[tool.kubewright]
name = "five"
modules = ["five"]
domain = "example.com"

[tool.kubewright.deployment]
"""
PROGRAM = """
from typing import Annotated

from kubewright.api import Condition, CustomResource, Spec, Status, resource
from kubewright.api.markers import Ge
from kubewright.manager import Context, Operator

operator = Operator("five")
"""
KIND = """

class {kind}Spec(Spec):
    size: Annotated[int, Ge(1)] = 1
    names: list[str] = []


class {kind}Status(Status):
    conditions: list[Condition] = []


@resource(group="five.example.com", version="v1")
class {kind}(CustomResource[{kind}Spec, {kind}Status]):
    '''One of five kinds.'''


@operator.reconcile({kind})
async def reconcile_{kind}(obj: {kind}, ctx: Context[{kind}]) -> None: ...


@operator.default({kind})
def default_{kind}(obj: {kind}) -> None: ...
"""


def five_apis() -> Path:
    """Return the directory of a project with five APIs, whose bytecode is cached."""
    directory = Path(tempfile.mkdtemp(prefix="kubewright-bench-"))
    (directory / "pyproject.toml").write_text(SETTINGS)
    kinds = ("Alpha", "Beta", "Gamma", "Delta", "Omega")
    (directory / "five.py").write_text(PROGRAM + "".join(KIND.format(kind=each) for each in kinds))
    run_manifests(directory)
    return directory


def run_manifests(directory: Path) -> float:
    """Run `kubewright manifests` in a process of its own, and return its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "kubewright.cli", "manifests"]
    subprocess.run(command, cwd=directory, env=environment(), check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"bench_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module


def benchmarks() -> list[Benchmark]:
    """Schema, definition and text of kinds."""
    cronjob, guestbook = load("cronjob"), load("guestbook")
    project = read_project([cronjob])
    definition = crd(cronjob.CronJob)
    directory = five_apis()
    return [
        Benchmark(name="schema of the Guestbook", run=lambda: schema_of(guestbook.Guestbook)),
        Benchmark(name="schema of the CronJob", run=lambda: schema_of(cronjob.CronJob)),
        Benchmark(name="definition of the CronJob as text", run=lambda: to_yaml([definition])),
        Benchmark(
            name="manifests of the CronJob: definition, roles, webhooks",
            run=lambda: generate(project, Options()),
            target_ms=50,
        ),
        Benchmark(
            name="kubewright manifests, 5 APIs with webhooks and deployment",
            run=lambda: run_manifests(directory),
            self_timed=True,
            target_ms=600,
        ),
    ]
