"""Explorations: enumeration, forked runs, minimisation, replay, and tests of users."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from kubewright import Context, ObjectMeta, Operator
from kubewright.api.core.v1 import ConfigMap, ServiceAccount
from kubewright.api.errors import Conflict
from kubewright.client import merge_patch
from kubewright.client.errors import ConnectionFailed
from kubewright.explore import (
    ExplorationBudget,
    ExplorationError,
    RunToken,
    Steps,
    WorkloadControllers,
    check_replay,
    explore,
    explored,
    no_duplicate_children,
    no_orphans,
    run_once,
    scenario,
)
from kubewright.explore.explorer import Interrupt
from kubewright.explore.families import all_families, enumerate_faults, program_families, spread_out
from kubewright.explore.faults import Fault, FaultError, FaultTarget, parse_faults
from kubewright.explore.replay import Replay, ReplayError
from kubewright.explore.subjects import OperatorSubject, generated_test
from kubewright.explore.testing import ViolationsFound

from .planted import number_assigned_twice
from .test_runs import Pair, PairSpec, make_forgetful_operator, make_operator, one_pair


@pytest.fixture(scope="module")
def correct():
    return explore(make_operator, [one_pair], jobs=2)


@pytest.fixture(scope="module")
def broken():
    return explore(make_forgetful_operator, [one_pair], families=["crash", "timeout"], jobs=2)


def test_a_correct_operator_has_no_violations(correct) -> None:
    assert correct.ok, [str(each.token) for each in correct.violations]
    assert not correct.nondeterministic
    assert correct.fault_coverage == 1.0
    assert set(correct.points) == set(all_families()) - {"upgrade"}
    assert correct.runs == sum(correct.points.values()) > 100


def test_crashes_are_enumerated_once_per_state() -> None:
    trace = run_once(make_operator, one_pair).trace
    names = [str(each) for each in enumerate_faults(_run_with(trace), ["crash"])["crash"]]
    # The scenario changes the object before w3; w5 and w6 change nothing.
    assert names == [
        "crash-before@w1",
        "crash-after@w1",
        "crash-after@w2",
        "crash-before@w3",
        "crash-after@w3",
        "crash-after@w4",
    ]


def _run_with(trace):
    from kubewright.explore.runs.run_result import Run

    return Run(scenario="", seed=0, trace=trace)


def test_a_violation_is_minimised_and_replayable(broken) -> None:
    violation = next(each for each in broken.violations if each.name == "final-state")
    assert violation.family == "crash"
    assert "ConfigMap default/a-right does not exist" in violation.message
    assert violation.count > 1
    assert violation.token.skip  # not all steps are necessary
    with pytest.raises(AssertionError, match="a-right does not exist"):
        check_replay(make_forgetful_operator, [one_pair], violation.token)
    check_replay(make_operator, [one_pair], violation.token)


def test_a_violation_is_not_reported_again_with_two_replicas() -> None:
    single = explore(make_forgetful_operator, [one_pair], families=["crash"])
    result = explore(make_forgetful_operator, [one_pair], families=["crash", "leader"])
    assert [str(each.token) for each in result.violations] == [str(each.token) for each in single.violations]
    assert result.runs_by_family["leader"]
    assert sum(each.count for each in result.violations) > sum(each.count for each in single.violations)


def test_a_replayed_run_has_the_same_trace(broken) -> None:
    from kubewright.explore.testing import replay

    violation = next(each for each in broken.violations if each.name == "final-state")
    run, _ = replay(make_forgetful_operator, [one_pair], str(violation.token))
    assert run.trace.text() == violation.run.trace.text()


def test_a_budget_spreads_runs_over_families() -> None:
    result = explore(make_operator, [one_pair], families=["crash", "watch"], budget=ExplorationBudget(runs=6))
    assert result.is_exhausted
    assert 4 <= result.runs <= 8
    assert set(result.runs_by_family) == {"crash", "watch"}


def make_retrying_operator() -> Operator:
    """An operator that repeats a failed write once, and ignores a second failure."""
    operator = Operator("pairs")

    @operator.reconcile(Pair)
    async def reconcile(pair: Pair, ctx: Context[Pair]) -> None:
        for suffix in ("left", "right"):
            meta = ObjectMeta(name=f"{pair.name}-{suffix}", namespace=pair.namespace)
            wanted = ctx.own(ConfigMap(metadata=meta, data={"value": pair.spec.value}))
            for _ in range(2):
                with contextlib.suppress(ConnectionFailed, Conflict):
                    await ctx.client.apply(wanted, force=True)
                    break

    return operator


def test_pairs_of_faults_are_explored() -> None:
    families = ["conflict", "timeout"]
    single = explore(make_retrying_operator, [one_pair], families=families)
    assert single.ok, [str(each.token) for each in single.violations]
    result = explore(make_retrying_operator, [one_pair], families=families, faults=2)
    assert result.points["pairs"] == result.runs_by_family["pairs"] > 20
    assert result.runs == single.runs + result.points["pairs"]
    found = next(each for each in result.violations if each.name == "final-state")
    assert found.family == "pairs"
    assert len(found.faults) == 2
    assert found.token.skip  # minimised
    with pytest.raises(AssertionError, match="ConfigMap default/a-left"):
        check_replay(make_retrying_operator, [one_pair], str(found.token))


def test_faults_that_violate_something_alone_are_not_combined() -> None:
    result = explore(make_forgetful_operator, [one_pair], families=["crash", "conflict"], faults=2)
    assert result.violations
    assert all(len(each.faults) == 1 for each in result.violations)
    with pytest.raises(ExplorationError, match="3 faults in one run are not supported"):
        explore(make_operator, [one_pair], faults=3)


def test_lines_of_the_operator_are_covered() -> None:
    result = explore(
        make_forgetful_operator,
        [one_pair],
        families=["conflict"],
        coverage=True,
        budget=ExplorationBudget(runs=1),
    )
    (found,) = [each for each in result.coverage if each.file.endswith("test_runs.py")]
    assert 0 < found.reached < found.total


def test_unknown_families_and_missing_scenarios_are_reported() -> None:
    with pytest.raises(ExplorationError, match="unknown fault families earthquake"):
        explore(make_operator, [one_pair], families=["earthquake"])
    with pytest.raises(ExplorationError, match="no scenarios"):
        explore(make_operator, [])


@explored(make_operator, families=["crash"], quiet_seconds=10)
async def test_the_decorator_makes_a_test(steps: Steps) -> None:
    await one_pair(steps)


def test_the_decorator_reports_violations() -> None:
    @explored(make_forgetful_operator, families=["crash"], quiet_seconds=10)
    async def broken(steps: Steps) -> None:
        await one_pair(steps)

    with pytest.raises(ViolationsFound, match=r"replay: broken\?faults=crash-after@w1"):
        broken()


@pytest.mark.parametrize(
    "text",
    ["crash-after@w5", "error=conflict@w2", "hold@d7+30s", "skew=-300@p1", "gap@d3+0.021s", "defer@q4"],
)
def test_faults_have_a_text_form(text: str) -> None:
    assert str(Fault.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["crash", "explode@w1", "error=odd@w1", "skew=x@p1", "hold@q1", "hold@z1", "hold@d1+1h"]
)
def test_invalid_faults_are_reported(text: str) -> None:
    with pytest.raises(FaultError):
        Fault.parse(text)


def test_tokens_round_trip() -> None:
    faults = parse_faults("hold@d7+30s,crash-after@w2")
    token = RunToken("resize it", faults, seed=3, replicas=2, skip=(0, 2))
    assert RunToken.parse(str(token)) == token
    with pytest.raises(ReplayError, match="unknown fields"):
        RunToken.parse("a?colour=red")


def test_replay_files(tmp_path) -> None:
    saved = Replay(token="a?seed=0", operator="shop:operator", scenario_file="a.yaml")
    saved.write(tmp_path / "a.json")
    assert Replay.read(tmp_path / "a.json") == saved
    with pytest.raises(ReplayError, match="cannot read"):
        Replay.read(tmp_path / "missing.json")


def test_the_generated_test_is_valid_python() -> None:
    token = RunToken("resize", parse_faults("crash-after@w2"))
    subject = OperatorSubject(name="shop:operator")
    source = generated_test(subject, token, scenario_file="a.yaml", finding="final-state")
    compile(source, "test_generated.py", "exec")
    assert "def test_resize_final_state_after_crash_after() -> None:" in source


def make_old_operator() -> Operator:
    """A version that writes another key, which the new version does not know."""
    operator = Operator("pairs")

    @operator.reconcile(Pair, owns=(ConfigMap,))
    async def reconcile(pair: Pair, ctx: Context[Pair]) -> None:
        for suffix in ("left", "right"):
            meta = ObjectMeta(name=f"{pair.name}-{suffix}", namespace=pair.namespace)
            wanted = ConfigMap(metadata=meta, data={"old": pair.spec.value})
            await ctx.client.apply(ctx.own(wanted), force=True)

    return operator


def make_merging_operator() -> Operator:
    """A new version that adds its key with a merge patch, and so keeps what the old version wrote."""
    operator = Operator("pairs")

    @operator.reconcile(Pair, owns=(ConfigMap,))
    async def reconcile(pair: Pair, ctx: Context[Pair]) -> None:
        for suffix in ("left", "right"):
            meta = ObjectMeta(name=f"{pair.name}-{suffix}", namespace=pair.namespace)
            wanted = ConfigMap(metadata=meta, data={"value": pair.spec.value})
            found = await ctx.client.uncached.get_or_none(ConfigMap, meta.name, namespace=pair.namespace)
            if found is None:
                await ctx.client.create(ctx.own(wanted))
            elif (found.data or {}).get("value") != pair.spec.value:
                await ctx.client.patch(found, merge_patch({"data": wanted.data}))

    return operator


def test_upgrades_are_explored() -> None:
    clean = explore(make_operator, [one_pair], families=["upgrade"], old_factory=make_old_operator)
    assert clean.ok, clean.violations
    assert clean.runs == 4
    result = explore(make_merging_operator, [one_pair], families=["upgrade"], old_factory=make_old_operator)
    assert {each.family for each in result.violations} == {"upgrade"}
    assert any("data.old is 'x' instead of <missing>" in each.message for each in result.violations)


def test_a_paused_leader_is_explored() -> None:
    """A leader that was paused creates an object that the new leader has created, too."""

    def make() -> Operator:
        operator = Operator("pairs")

        @operator.reconcile(Pair, owns=(ServiceAccount,))
        async def reconcile(pair: Pair, ctx: Context[Pair]) -> None:
            if not await ctx.cache.list(ServiceAccount, namespace=pair.namespace, owner=pair.metadata.uid):
                meta = ObjectMeta(generate_name="a-", namespace=pair.namespace)
                await ctx.client.create(ctx.own(ServiceAccount(metadata=meta)))

        return operator

    @scenario(quiet_seconds=10, invariants=[no_duplicate_children("ServiceAccount")])
    async def one_child(steps: Steps) -> None:
        await steps.apply(Pair(metadata=ObjectMeta(name="a", namespace="default"), spec=PairSpec()))
        await steps.advance("5m")

    result = explore(make, [one_child], families=["leader"])
    names = {(each.family, each.name, each.faults[0].action) for each in result.violations}
    assert ("leader", "no_duplicate_children", "pause") in names


def test_controllers_of_workloads_are_explored() -> None:
    @scenario(nodes=1, quiet_seconds=10, invariants=[no_orphans()])
    async def one_daemon_set(steps: Steps) -> None:
        labels = {"app": "web"}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]},
        }
        spec = {"selector": {"matchLabels": labels}, "template": template}
        await steps.apply(
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "web"}, "spec": spec}
        )
        await steps.advance("1m")

    result = explore(
        lambda: WorkloadControllers("daemonset-controller"),
        [one_daemon_set],
        families=["crash", "conflict"],
        jobs=2,
    )
    assert result.ok, [str(each.token) for each in result.violations]
    assert result.runs >= 6
    assert not result.nondeterministic
    with pytest.raises(ValueError, match="unknown controllers toaster"):
        WorkloadControllers("toaster")


def test_a_fault_is_one_class() -> None:
    """A new class can be parsed, is enumerated in its families, injected, explained and replayed."""

    class WaitBefore(Fault):
        action = "wait-before"
        points = "w"
        sentence = "{event} is sent {seconds:g} s later"
        families = {
            "delays": lambda trace, timing: (
                WaitBefore(each.point, seconds=timing.lag_seconds) for each in trace.points("write")
            )
        }

        async def before(self, target: FaultTarget) -> None:
            await target.wait(self.seconds)

    try:
        assert "delays" in all_families()
        assert "delays" in program_families()
        assert str(Fault.parse("wait-before@w2+3s")) == "wait-before@w2+3s"
        result = explore(make_operator, [one_pair], families=["delays"])
        assert result.ok
        assert result.runs_by_family["delays"] == result.points["delays"] > 2
        reference = run_once(make_operator, one_pair)
        run = run_once(make_operator, one_pair, faults=parse_faults("wait-before@w1+3s"), reference=reference)
        assert run.ok
        assert run.faults[0].explain(run.trace) == "`patch configmaps default/a-left` (w1) is sent 3 s later"
    finally:
        del Fault.registered["wait-before"]


def test_awaits_of_concurrent_reconciles_are_points() -> None:
    """A race between two workers that only another schedule shows; the runs are repeatable."""
    race = number_assigned_twice.PLANTED
    others = [each for each in all_families() if each != "schedule"]
    result = explore(lambda: race.build(False), [race.scenario], families=others)
    assert result.ok, [str(each.token) for each in result.violations]
    result = explore(lambda: race.build(False), [race.scenario], families=["schedule"])
    (violation,) = result.violations
    assert violation.faults[0].action == "preempt"
    assert (
        violation.run.faults[0].explain(violation.run.trace).startswith("`app default/a after an await` (s")
    )
    for _ in range(2):
        with pytest.raises(AssertionError, match="a and b have the number 1"):
            check_replay(lambda: race.build(False), [race.scenario], violation.token)
    run = run_once(lambda: race.build(True), race.scenario, faults=parse_faults("priorities=1@p1"))
    again = run_once(lambda: race.build(True), race.scenario, faults=parse_faults("priorities=1@p1"))
    assert run.ok
    assert run.trace.text() == again.trace.text()


def test_tasks_of_one_reconcile_are_scheduled() -> None:
    """`asyncio.gather` in a reconcile, with one worker."""
    seen: list[str] = []

    def make() -> Operator:
        operator = Operator("pairs")

        @operator.reconcile(Pair, owns=(ConfigMap,))
        async def reconcile(pair: Pair, ctx: Context[Pair]) -> None:
            async def write(suffix: str) -> None:
                meta = ObjectMeta(name=f"{pair.name}-{suffix}", namespace=pair.namespace)
                wanted = ctx.own(ConfigMap(metadata=meta, data={"value": pair.spec.value}))
                await ctx.client.apply(wanted, force=True)
                seen.append(suffix)

            await asyncio.gather(write("left"), write("right"))

        return operator

    reference = run_once(make, one_pair)
    assert reference.ok
    assert seen[:2] == ["left", "right"]
    point = next(each for each in reference.trace.points("switch") if each.text.endswith("default/a-left"))
    seen.clear()
    fault = Fault.create("preempt", point.point, seconds=0.05)
    run = run_once(make, one_pair, faults=[fault], reference=reference)
    assert run.ok
    assert seen[:2] == ["right", "left"]


def test_families_share_a_budget() -> None:
    result = explore(make_operator, [one_pair], budget=ExplorationBudget(runs=24))
    assert result.is_exhausted
    assert set(result.runs_by_family) == {name for name, count in result.points.items() if count}
    assert max(result.runs_by_family.values()) - min(result.runs_by_family.values()) <= 1
    left = {name: len(faults) for name, faults in result.unexplored.items()}
    assert left == {name: result.points[name] - result.runs_by_family[name] for name in left}
    assert all(each.startswith("one_pair?faults=") for each in result.unexplored["stale"])


def test_a_selection_of_any_size_is_spread() -> None:
    assert list(spread_out(range(9)))[:4] == [0, 8, 4, 2]
    assert sorted(spread_out(range(13))) == list(range(13))
    assert list(spread_out([])) == []


def test_an_interrupted_exploration_has_a_result() -> None:
    interrupt = Interrupt()
    result = explore(
        make_operator,
        [one_pair],
        on_progress=lambda progress: interrupt() if progress.done == 3 else None,
        interrupt=interrupt,
    )
    assert result.is_exhausted
    assert 3 <= result.runs < 20
    assert sum(map(len, result.unexplored.values())) + result.runs == sum(result.points.values())
    assert result.notes == ["the exploration was interrupted"]


def test_a_replay_names_what_has_changed() -> None:
    token = "one_pair?faults=crash-after@w2&seed=0#create secrets default/a"
    with pytest.raises(
        ReplayError, match="'create secrets default/a', the point of crash-after@w2, was not "
    ):
        check_replay(make_operator, [one_pair], token)
    # The operator applies what it created when the token was written.
    check_replay(make_operator, [one_pair], "one_pair?faults=crash-after@w9#create configmaps default/a-left")
