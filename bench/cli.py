"""Commands in processes of their own: start, help, scaffolds and manifests of a project with five APIs."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import Benchmark

from ._process import environment

ROUNDS = 3
API = ("create", "api", "--group", "store", "--version", "v1", "--kind")


def kubewright(directory: Path, *arguments: str) -> None:
    """Run a command in a directory."""
    command = [sys.executable, "-m", "kubewright.cli", *arguments]
    variables = environment()
    variables["PYTHONPATH"] = str(Path(__file__).parents[1] / "src")
    done = subprocess.run(command, cwd=directory, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)


def _cost(*arguments: str, prepare: Callable[[Path], None] | None = None) -> Callable[[], float]:
    """Return a function that measures the CPU seconds of a command: the best of several runs."""

    def measure() -> float:
        costs = []
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory() as folder:
                directory = Path(folder) / "shop"
                directory.mkdir()
                if prepare is not None:
                    prepare(directory)
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                kubewright(directory, *arguments)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                costs.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(costs)

    return measure


def _init(directory: Path) -> None:
    kubewright(directory, "init", "--name", "shop")


def _five_apis(directory: Path) -> None:
    _init(directory)
    for kind in ("Shop", "Order", "Customer", "Product", "Invoice"):
        kubewright(directory, *API, kind, "--no-manifests")
    shutil.rmtree(directory / "config", ignore_errors=True)


def benchmarks() -> list[Benchmark]:
    """CPU of whole processes, with the start of Python."""
    return [
        Benchmark(name="kubewright --help", run=_cost("--help"), target_ms=100, self_timed=True),
        Benchmark(
            name="kubewright init", run=_cost("init", "--name", "shop"), target_ms=400, self_timed=True
        ),
        Benchmark(
            name="kubewright create api, with manifests",
            run=_cost(*API, "Shop", prepare=_init),
            target_ms=400,
            self_timed=True,
        ),
        Benchmark(
            name="kubewright manifests, 5 APIs",
            run=_cost("manifests", prepare=_five_apis),
            target_ms=600,
            self_timed=True,
        ),
    ]
