"""Manifest generation: the CronJob of the tutorial, whose pod template makes a large CRD."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from bench import Benchmark
from kubewright.manifests import Options, crd, generate, read_project, to_yaml
from kubewright.schema.generation.from_types import schema_of

EXAMPLES = Path(__file__).parents[1] / "examples" / "types"


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
    return [
        Benchmark(name="schema of the Guestbook", run=lambda: schema_of(guestbook.Guestbook)),
        Benchmark(name="schema of the CronJob", run=lambda: schema_of(cronjob.CronJob)),
        Benchmark(name="definition of the CronJob as text", run=lambda: to_yaml([definition])),
        Benchmark(
            name="manifests of the CronJob: definition, roles, webhooks",
            run=lambda: generate(project, Options()),
            target_ms=50,
        ),
    ]
