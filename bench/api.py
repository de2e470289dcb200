"""API types: quantities, selectors, JSONPath, metadata-only reading, list splitting, imports."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable

from bench import Benchmark
from bench.builtins import PLAIN
from kubewright.api.encoding.codec import ObjectHeader, RawList, decode, encode
from kubewright.api.selectors.field_selectors import parse_field_selector
from kubewright.api.selectors.jsonpath import JSONPath
from kubewright.api.selectors.label_selectors import parse_selector
from kubewright.api.unstructured import Unstructured
from kubewright.api.values.quantity import Quantity

MANY = 10_000


def _process_cost(program: str) -> float:
    """CPU seconds of a program in a fresh process, with cached bytecode."""
    timed = f"import time; start = time.process_time(); {program}; print(time.process_time() - start)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", timed], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def _each(function: Callable[[str], object], texts: Iterable[str]) -> Callable[[], None]:
    listed = list(texts)

    def run() -> None:
        for text in listed:
            function(text)

    return run


def benchmarks() -> list[Benchmark]:
    raw = encode(PLAIN)
    items = b",".join([raw] * MANY)
    many = b'{"apiVersion":"apps/v1","kind":"DeploymentList","metadata":{},"items":[' + items + b"]}"
    cpu, memory = Quantity("250m"), Quantity("1536Mi")
    equality = parse_selector("app=frontend,tier=web")
    sets = parse_selector("app in (frontend,backend),!canary,team notin (a,b)")
    by_name = parse_field_selector("metadata.name=frontend,metadata.namespace!=kube-system")
    labels = {"app": "frontend", "tier": "web", "team": "checkout"}
    fields = {"metadata.name": "frontend", "metadata.namespace": "shop"}
    simple = JSONPath("{.spec.replicas}")
    filtered = JSONPath('{.status.conditions[?(@.type=="Available")].status}')
    descent = JSONPath("{..image}", allow_missing_keys=True)
    unseen = [f"{number}.5Mi" for number in range(MANY)]
    return [
        Benchmark(
            name="metadata only of a 2.3 KB Deployment", target_us=3, run=lambda: decode(raw, ObjectHeader)
        ),
        Benchmark(name="the same unstructured", run=lambda: decode(raw, Unstructured)),
        Benchmark(name="10,000 items split into raw ones", target_ms=30, run=lambda: decode(many, RawList)),
        Benchmark(
            name="import kubewright",
            target_ms=60,
            run=lambda: _process_cost("import kubewright"),
            self_timed=True,
        ),
        Benchmark(
            name="import every name of kubewright.api",
            run=lambda: _process_cost("from kubewright.api import *"),
            self_timed=True,
        ),
        Benchmark(name="quantity, parse (seen before)", run=lambda: Quantity("250m")),
        Benchmark(name="quantity, parse (new)", run=_each(Quantity, unseen), operations=MANY),
        Benchmark(
            name="quantity, print", run=lambda: str(Quantity.from_nanos(1610612736 * 10**9, "BinarySI"))
        ),
        Benchmark(name="quantity, add", run=lambda: cpu + memory),
        Benchmark(name="quantity, compare", run=lambda: cpu < memory),
        Benchmark(
            name="label selector, parse (new)",
            run=_each(parse_selector, [f"app=frontend,tier in (a,b{number})" for number in range(2000)]),
            operations=2000,
        ),
        Benchmark(name="label selector, match two equalities", run=lambda: equality.matches(labels)),
        Benchmark(name="label selector, match three sets", run=lambda: sets.matches(labels)),
        Benchmark(
            name="field selector, parse (new)",
            run=_each(parse_field_selector, [f"metadata.name=web-{number}" for number in range(2000)]),
            operations=2000,
        ),
        Benchmark(name="field selector, match", run=lambda: by_name.matches(fields)),
        Benchmark(name="JSONPath, compile a field", run=lambda: JSONPath("{.spec.replicas}")),
        Benchmark(
            name="JSONPath, compile a filter",
            run=lambda: JSONPath('{.status.conditions[?(@.type=="Available")].status}'),
        ),
        Benchmark(name="JSONPath, run a field", run=lambda: simple.first(PLAIN)),
        Benchmark(name="JSONPath, run a filter", run=lambda: filtered.first(PLAIN)),
        Benchmark(name="JSONPath, run a descent", run=lambda: descent.values(PLAIN)),
    ]
