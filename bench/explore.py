"""Exploration: CPU per fault run, fault runs per minute with two jobs, and points per family.

The small operator keeps two config maps per object, its scenario creates one object and changes it. The
CronJob example is explored with its own scenario. A run continues the reference run from the point of its
fault in a forked process. With a target of 1,000 runs per minute on two cores, a run of a small operator may
take 120 ms of CPU. Wall time includes everything: the reference runs, and the start of the control planes.
The runs per minute by CPU time are those that as many idle cores as jobs would do.
"""

from __future__ import annotations

import functools
import os
import resource as system_resource
import sys
from pathlib import Path

from bench import Benchmark, Unavailable
from kubewright import Context, CustomResource, ObjectMeta, Operator, Spec, Status, resource
from kubewright.api.core.v1 import ConfigMap
from kubewright.explore import (
    Exploration,
    ModuleFactory,
    OperatorFactory,
    Steps,
    explore,
    load_scenarios,
    scenario,
)

RUNS_PER_MINUTE = 1000
JOBS = 2
PAIR, CRONJOB = "small operator", "CronJob example"
EXAMPLE = Path(__file__).parents[1] / "examples" / "cronjob"


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


@functools.cache
def _explored(name: str) -> Exploration:
    """Explore every fault of every family once, and print the points and the runs per minute."""
    if not hasattr(os, "fork"):
        raise Unavailable("fork is not available on this system")
    factory: OperatorFactory = make_operator
    scenarios = [change_a_pair]
    if name == CRONJOB:
        if not EXAMPLE.is_dir():
            raise Unavailable(f"{EXAMPLE} does not exist")
        sys.path.insert(0, str(EXAMPLE))
        factory, scenarios = ModuleFactory("cronjob:operator"), load_scenarios(str(EXAMPLE / "scenario.yaml"))
    began = _cpu_seconds()
    result = explore(factory, scenarios, jobs=JOBS)
    spent = _cpu_seconds() - began
    if not result.ok:
        raise RuntimeError(f"violations: {[str(each.token) for each in result.violations]}")
    rate = f"{result.runs_per_minute:,.0f} runs per minute"
    idle = f"{60 * JOBS * result.runs / spent:,.0f} by CPU time"
    points = ", ".join(f"{family} {count}" for family, count in result.points.items() if count)
    print(f"  {name}: {result.runs} runs in {result.seconds:.1f} s with {JOBS} jobs: {rate} ({idle})")
    print(f"    points: {points}")
    return result


def _cpu_seconds() -> float:
    """Return the CPU time of this process and its ended children."""
    usages = [
        system_resource.getrusage(each)
        for each in (system_resource.RUSAGE_SELF, system_resource.RUSAGE_CHILDREN)
    ]
    return sum(each.ru_utime + each.ru_stime for each in usages)


def _cpu_per_run(name: str) -> float:
    result = _explored(name)
    return result.cpu_seconds / result.runs


def _seconds_per_run(name: str) -> float:
    result = _explored(name)
    return result.seconds / result.runs


def benchmarks() -> list[Benchmark]:
    """Return the benchmarks of this topic."""
    found = []
    for name in (PAIR, CRONJOB):
        # The target is for a small operator; a CronJob run simulates 70 minutes.
        target = 60_000 / RUNS_PER_MINUTE if name == PAIR else None
        cpu = functools.partial(_cpu_per_run, name)
        wall = functools.partial(_seconds_per_run, name)
        found += [
            Benchmark(
                name=f"fault run, {name}", run=cpu, target_ms=target and target * JOBS, self_timed=True
            ),
            Benchmark(
                name=f"fault run, {name}, wall time, {JOBS} jobs", run=wall, target_ms=target, self_timed=True
            ),
        ]
    return found
