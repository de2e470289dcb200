"""Runs in virtual time: determinism, crashes, and differences to the reference run.

With `KUBEWRIGHT_EXPLORE_ALL=1`, the hundred repetitions of a seed each start a control plane of their own.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from pathlib import Path
from time import time as imported_clock
from uuid import uuid4

import pytest

from kubewright import Context, CustomResource, ObjectMeta, Operator, Spec, Status, resource
from kubewright.api.core.v1 import ConfigMap
from kubewright.explore import ExternalFake, Run, Steps, explore, parse_faults, run_once, scenario
from kubewright.explore.runs.forks import run_forked
from kubewright.explore.runs.run import SimulatedRun
from kubewright.manager import SyncContext
from kubewright.manifests.crds import crd

COMPLETE_REPETITIONS = 100 if os.environ.get("KUBEWRIGHT_EXPLORE_ALL") == "1" else 5


class PairSpec(Spec):
    value: str = ""


@resource(group="explore.example.com", version="v1")
class Pair(CustomResource[PairSpec, Status]):
    """Two config maps."""


def make_operator() -> Operator:
    """An operator that creates two config maps per object."""
    operator = Operator("pairs")

    @operator.reconcile(Pair, owns=(ConfigMap,))
    async def reconcile(pair: Pair, ctx: Context[Pair]) -> None:
        for suffix in ("left", "right"):
            wanted = ConfigMap(
                metadata=ObjectMeta(name=f"{pair.name}-{suffix}", namespace=pair.namespace),
                data={"value": pair.spec.value},
            )
            await ctx.client.apply(ctx.own(wanted), force=True)

    return operator


def make_forgetful_operator() -> Operator:
    """An operator that creates the second config map only together with the first."""
    operator = Operator("pairs")

    @operator.reconcile(Pair, owns=(ConfigMap,))
    async def reconcile(pair: Pair, ctx: Context[Pair]) -> None:
        found = await ctx.client.uncached.get_or_none(
            ConfigMap, f"{pair.name}-left", namespace=pair.namespace
        )
        if found is None:
            for suffix in ("left", "right"):
                meta = ObjectMeta(name=f"{pair.name}-{suffix}", namespace=pair.namespace)
                await ctx.client.create(ctx.own(ConfigMap(metadata=meta)))

    return operator


@scenario(quiet_seconds=10)
async def one_pair(steps: Steps) -> None:
    await steps.apply(Pair(metadata=ObjectMeta(name="a", namespace="default"), spec=PairSpec(value="x")))
    await steps.wait(ConfigMap, "a-right", absent=False)
    await steps.patch(Pair, "a", {"spec": {"value": "y"}})
    await steps.advance("1m")


@pytest.fixture(scope="module")
def reference():
    return run_once(make_operator, one_pair)


def test_a_reference_run_converges(reference) -> None:
    assert reference.ok
    assert reference.writes == 6  # the created config maps cause another reconcile
    assert reference.steps[0] == "apply Pair a"
    assert "ConfigMap default/a-left" in reference.final_state


def test_the_same_seed_gives_the_same_trace(reference) -> None:
    again = run_once(make_operator, one_pair)
    assert again.trace.text() == reference.trace.text()
    other = run_once(make_operator, one_pair, seed=1)
    assert other.ok
    assert other.trace.text() != reference.trace.text()


def pair(name: str) -> Pair:
    return Pair(metadata=ObjectMeta(name=name, namespace="default"), spec=PairSpec())


@scenario(setup=[dict(crd(Pair)), *map(pair, "abcd")], quiet_seconds=10)
async def four_pairs(steps: Steps) -> None:
    await steps.wait(ConfigMap, "d-right", absent=False)


def order_of(run: Run) -> list[str]:
    """Return the objects in the order of their first write."""
    return list(dict.fromkeys(each.text.split()[-1].rpartition("-")[0] for each in run.trace.points("write")))


def test_faults_and_seeds_change_the_order_of_reconciles() -> None:
    reference = run_once(make_operator, four_pairs)
    assert order_of(reference) == ["default/a", "default/b", "default/c", "default/d"]
    assert next(reference.trace.points("reconcile")).ready == 3
    starts = {each.text: each.point for each in reversed([*reference.trace.points("reconcile")])}
    plan = parse_faults(f"defer@{starts['pair default/b']}")
    deferred = run_once(make_operator, four_pairs, faults=plan, reference=reference)
    assert deferred.ok, deferred.findings
    assert order_of(deferred) == ["default/a", "default/c", "default/d", "default/b"]
    orders = {tuple(order_of(run_once(make_operator, four_pairs, seed=seed))) for seed in range(1, 5)}
    assert len(orders) > 1
    assert all(sorted(each) == order_of(reference) for each in orders)


def keep_clock(clock=time.monotonic) -> float:
    return clock()


def test_clocks_that_were_imported_by_name_are_virtual() -> None:
    def make() -> Operator:
        operator = Operator("pairs")

        @operator.reconcile(Pair)
        async def reconcile(pair: Pair, ctx: Context[Pair]) -> None:
            values = {"time": str(imported_clock()), "monotonic": str(keep_clock()), "id": str(uuid4())}
            meta = ObjectMeta(name=f"{pair.name}-right", namespace=pair.namespace)
            await ctx.client.apply(ctx.own(ConfigMap(metadata=meta, data=values)), force=True)

        return operator

    first, second = (run_once(make, one_pair) for _ in range(2))
    assert first.ok, first.findings
    assert first.trace.text() == second.trace.text()
    write = next(first.trace.points("write"))
    assert b'"time":"1893456' in write.body  # 2030-01-01
    assert b'"monotonic":"2.0' in write.body
    assert imported_clock() == pytest.approx(time.time(), abs=60)  # the real clock again


def test_repeated_runs_leave_nothing_behind(reference) -> None:
    from kubewright.apiserver.server import APIServer
    from kubewright.explore.simulation.loop import VirtualLoop

    run_once(make_operator, one_pair)
    growth: list[int] = []
    # Caches that are filled once, and the records of log handlers, do not grow with all runs.
    while not growth or (growth[-1] >= 500 and len(growth) < 4):
        gc.collect()
        before = gc.get_objects()
        known = {id(each) for each in before if isinstance(each, VirtualLoop | APIServer)}
        for _ in range(3):
            run_once(make_operator, one_pair)
        gc.collect()
        after = gc.get_objects()
        kept = [
            type(each)
            for each in after
            if isinstance(each, VirtualLoop | APIServer) and id(each) not in known
        ]
        assert not kept
        growth.append(len(after) - len(before))
        del before, after
    assert growth[-1] < 500, growth


def repeat_runs(seed: int, count: int) -> set[str]:
    """Return the digests of the traces of repeated runs that continue copies of one prepared cluster."""
    run = SimulatedRun(make_operator, one_pair, seed=seed)
    with run.prepared():
        gc.freeze()
        return {run_forked(lambda: run.execute().trace.digest()) for _ in range(count)}


def test_a_hundred_repetitions_of_a_seed_give_the_same_trace() -> None:
    forked: set[str] = run_forked(lambda: repeat_runs(seed=3, count=100))
    complete = {run_once(make_operator, one_pair, seed=3).trace.digest() for _ in range(COMPLETE_REPETITIONS)}
    assert len(forked | complete) == 1


def test_the_trace_does_not_depend_on_the_process(reference) -> None:
    """Hash seeds order sets of strings, and addresses those of objects."""
    code = (
        "from tests.explore.test_runs import make_operator, one_pair; "
        "from kubewright.explore import run_once; "
        "print(*(run_once(make_operator, one_pair, seed=seed).trace.digest() for seed in (0, 3)))"
    )
    expected = [reference.trace.digest(), run_once(make_operator, one_pair, seed=3).trace.digest()]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    root = Path(__file__).parents[2]
    for seed in ("1", "2"):
        output = subprocess.run(
            [sys.executable, "-c", code],
            env={**environment, "PYTHONHASHSEED": seed},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert output.split() == expected


@pytest.mark.parametrize("fault", ["crash-before@w1", "crash-after@w1", "error=conflict@w2", "hold@d1+20s"])
def test_a_correct_operator_recovers(reference, fault: str) -> None:
    run = run_once(make_operator, one_pair, faults=parse_faults(fault), reference=reference)
    assert run.ok, run.findings
    assert any(each.kind == "fault" and each.text == fault for each in run.trace)


def test_a_crash_between_two_writes_is_found() -> None:
    reference = run_once(make_forgetful_operator, one_pair)
    assert reference.ok
    run = run_once(
        make_forgetful_operator, one_pair, faults=parse_faults("crash-after@w1"), reference=reference
    )
    assert [each.name for each in run.findings] == ["scenario", "final-state"]
    assert "ConfigMap default/a-right does not exist" in run.findings[1].message


def test_finally_blocks_of_a_killed_process_do_not_run(reference) -> None:
    log = ExternalFake("log")

    def make() -> Operator:
        operator = make_operator()

        @operator.on_startup
        async def start() -> None:
            pass

        @operator.reconcile(Pair, name="second")
        async def reconcile(pair: Pair, ctx: Context[Pair]) -> None:
            try:
                await log.put("begun", "yes")
            finally:
                log._data()["ended"] = "yes"

        return operator

    run = run_once(make, one_pair, faults=parse_faults("crash-after@x1"))
    ended = [each for each in run.trace if each.kind == "crash"]
    assert ended
    assert run.final_state["external log ended"] == ["yes"]  # of the restarted process
    assert "external log begun" in run.final_state


def make_plain_operator() -> Operator:
    """The operator with a plain function."""
    operator = Operator("pairs")

    @operator.reconcile(Pair, owns=(ConfigMap,))
    def reconcile(pair: Pair, ctx: SyncContext[Pair]) -> None:
        time.sleep(2)
        for suffix in ("left", "right"):
            wanted = ConfigMap(
                metadata=ObjectMeta(name=f"{pair.name}-{suffix}", namespace=pair.namespace),
                data={"value": pair.spec.value},
            )
            ctx.client.apply(ctx.own(wanted), force=True)

    return operator


def test_plain_functions_run_in_virtual_time() -> None:
    reference = run_once(make_plain_operator, one_pair)
    assert reference.ok, reference.findings
    assert reference.uses_threads
    assert run_once(make_plain_operator, one_pair).trace.text() == reference.trace.text()
    first = next(reference.trace.points("write"))
    assert first.time == pytest.approx(4.0, abs=0.1)  # the operator starts at 1 s and sleeps for 2 s
    result = explore(make_plain_operator, [one_pair], families=["crash"], jobs=2)
    assert result.ok, [str(each.token) for each in result.violations]
    assert not result.nondeterministic


def test_programming_errors_after_a_fault_are_found(reference) -> None:
    def make() -> Operator:
        operator = make_operator()
        seen: dict[str, str] = {}

        @operator.reconcile(Pair, name="values")
        async def reconcile(pair: Pair, ctx: Context[Pair]) -> None:
            """Rely on what an earlier call of the same process has seen."""
            if pair.spec.value == "x":
                seen[pair.name] = pair.spec.value
            assert seen[pair.name] == "x"

        return operator

    run = run_once(make, one_pair, faults=parse_faults("crash-after@w4"), reference=reference)
    assert [each.name for each in run.findings] == ["exception"]
    assert "KeyError: 'a' (test_runs.py:" in run.findings[0].message
