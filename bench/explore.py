"""Exploration of a small operator: CPU per fault run, and fault runs per minute with two jobs.

The operator keeps two config maps per object, the scenario creates one object and changes it. A run continues
the reference run from the point of its fault in a forked process. With a target of 1,000 runs per minute on
two cores, a run may take 120 ms of CPU.
"""

from __future__ import annotations

import os
from typing import Any

from bench import Benchmark, Unavailable
from kubewright import Context, CustomResource, ObjectMeta, Operator, Spec, Status, resource
from kubewright.api.core.v1 import ConfigMap
from kubewright.explore import Steps, explore, scenario
from kubewright.explore.families import SINGLE

RUNS_PER_MINUTE = 1000


class PairSpec(Spec):
    """Value of both config maps."""

    value: str = ""


@resource(group="bench.example.com", version="v1")
class Pair(CustomResource[PairSpec, Status]):
    """Two config maps."""


def make_operator() -> Operator:
    """Return an operator that keeps two config maps per object."""
    operator = Operator("pairs")

    @operator.reconcile(Pair, owns=(ConfigMap,))
    async def reconcile(pair: Pair, ctx: Context[Pair]) -> None:
        for suffix in ("left", "right"):
            meta = ObjectMeta(name=f"{pair.name}-{suffix}", namespace=pair.namespace)
            wanted = ConfigMap(metadata=meta, data={"value": pair.spec.value})
            await ctx.client.apply(ctx.own(wanted), force=True)

    return operator


@scenario(quiet_seconds=10)
async def change_a_pair(steps: Steps) -> None:
    """Create an object and change it."""
    await steps.apply(Pair(metadata=ObjectMeta(name="a", namespace="default"), spec=PairSpec(value="x")))
    await steps.wait(ConfigMap, "a-right", absent=False)
    await steps.patch(Pair, "a", {"spec": {"value": "y"}})
    await steps.advance("1m")


_results: dict[str, Any] = {}


def _explored() -> Any:
    if not hasattr(os, "fork"):
        raise Unavailable("fork is not available on this system")
    if not _results:
        result = explore(make_operator, [change_a_pair], families=list(SINGLE), jobs=2)
        if not result.ok:
            raise RuntimeError(f"violations: {[str(each.token) for each in result.violations]}")
        _results["explored"] = result
        rate = f"{result.runs_per_minute:,.0f} runs per minute"
        print(f"  {result.runs} runs in {result.seconds:.1f} s with 2 jobs: {rate}")
    return _results["explored"]


def _cpu_per_run() -> float:
    result = _explored()
    return float(result.cpu_seconds / result.runs)


def _seconds_per_run() -> float:
    result = _explored()
    return float(result.seconds / result.runs)


def benchmarks() -> list[Benchmark]:
    """Return the benchmarks of this topic."""
    return [
        Benchmark(name="one fault run", run=_cpu_per_run, target_ms=120, self_timed=True),
        Benchmark(
            name="one fault run, wall time, 2 jobs",
            run=_seconds_per_run,
            target_ms=60_000 / RUNS_PER_MINUTE,
            self_timed=True,
        ),
    ]
