"""A reference run that explores nothing is a violation, and so is a replay that does not reach its fault."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kubewright import Context, CustomResource, ObjectMeta, Operator, Spec, Status, resource
from kubewright.api.core.v1 import ConfigMap
from kubewright.controller.request import TemporaryError
from kubewright.explore import ModuleFactory, Run, Scenario, Steps, check_replay, run_once, scenario
from kubewright.explore.replay import ReplayError
from kubewright.explore.reports.model import ExplorationReport, ViolationReport
from kubewright.explore.scenarios.scenario_files import ScenarioError, parse_scenario
from kubewright.manifests.crds import crd

Reconcile = Callable[["Toy", Context["Toy"]], Any]


class ToySpec(Spec):
    size: int = 1


@resource(group="reference.example.com", version="v1")
class Toy(CustomResource[ToySpec, Status]):
    """A toy."""


def toy(size: int = 1) -> Toy:
    return Toy(metadata=ObjectMeta(name="a", namespace="default"), spec=ToySpec(size=size))


async def write(toy: Toy, ctx: Context[Toy]) -> None:
    wanted = ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data={"size": str(toy.spec.size)})
    await ctx.client.apply(ctx.own(wanted), force=True)


def factory(reconcile: Reconcile) -> Callable[[], Operator]:
    def build() -> Operator:
        operator = Operator("toys")
        operator.reconcile(Toy, owns=(ConfigMap,))(reconcile)
        return operator

    return build


@scenario(setup=[crd(Toy)])
async def create(steps: Steps) -> None:
    await steps.apply(toy())


def problems(reconcile: Reconcile, steps: Scenario = create) -> list[str]:
    run: Run = run_once(factory(reconcile), steps)
    return [each.message for each in run.findings if each.name == "reference"]


def allowing(check: str) -> Scenario:
    return scenario(setup=[crd(Toy)], allow=[check])(create.steps)


def test_a_run_in_which_something_happens_is_not_a_violation() -> None:
    assert run_once(factory(write), create).findings == []


def test_a_reconcile_that_always_fails() -> None:
    async def reconcile(toy: Toy, ctx: Context[Toy]) -> None:
        await write(toy, ctx)
        raise RuntimeError("broken")

    assert problems(reconcile) == [
        "the reconcile of toy default/a still fails at the end: RuntimeError: broken"
    ]
    assert problems(reconcile, allowing("failing")) == []


def test_a_reconcile_that_fails_and_recovers_is_not_a_violation() -> None:
    attempts = []

    async def reconcile(toy: Toy, ctx: Context[Toy]) -> None:
        attempts.append(toy)
        if len(attempts) < 3:
            raise RuntimeError("not yet")
        await write(toy, ctx)

    assert problems(reconcile) == []


@pytest.mark.parametrize("error", [None, TemporaryError("later", delay=10)])
def test_an_operator_that_writes_nothing(error: Exception | None) -> None:
    async def reconcile(toy: Toy, ctx: Context[Toy]) -> None:
        if error is not None:
            raise error

    assert problems(reconcile) == ["the operator has written nothing and called no external system"]
    assert problems(reconcile, allowing("writes")) == []


def test_a_step_without_effect() -> None:
    @scenario(setup=[crd(Toy)])
    async def twice(steps: Steps) -> None:
        await steps.apply(toy())
        await steps.apply(toy(2))
        await steps.advance("1m")
        await steps.apply(toy(2))

    assert problems(write, twice) == ["the step 'apply Toy a' has changed nothing"]


def test_a_connection_that_the_operator_handles_itself() -> None:
    async def reconcile(toy: Toy, ctx: Context[Toy]) -> None:
        import asyncio

        try:
            await asyncio.open_connection("dns.example.com", 443)
        except OSError:
            await write(toy, ctx)

    assert problems(reconcile) == [
        "the operator connects to dns.example.com:443, which is outside of the simulated cluster; replace "
        "the client of that system by an ExternalFake"
    ]
    assert problems(reconcile, allowing("external")) == []


def test_sys_exit_ends_the_simulated_process_only() -> None:
    async def reconcile(toy: Toy, ctx: Context[Toy]) -> None:
        sys.exit(3)

    run = run_once(factory(reconcile), create)
    assert [each.name for each in run.findings] == ["exception"]
    assert "the process ended: SystemExit: 3" in run.findings[0].message


def test_a_replay_whose_point_is_not_reached() -> None:
    check_replay(factory(write), [create], "create?faults=crash-after@w1&seed=0")
    with pytest.raises(
        ReplayError,
        match=r"the point of crash-after@w9 was not reached: the reference run has w1 to w2.*explore again",
    ):
        check_replay(factory(write), [create], "create?faults=crash-after@w9&seed=0")


def test_names_of_checks_are_checked() -> None:
    with pytest.raises(
        ValueError, match="allow has nothing; expected some of external, failing, steps, writes"
    ):
        scenario(allow=["nothing"])(create.steps)
    with pytest.raises(ScenarioError, match=r"a\.yaml: allow has nothing"):
        parse_scenario({"steps": [{"advance": "1s"}], "allow": ["nothing"]}, source="a.yaml", name="a")


PROGRAM = """
from kubewright import Context, CustomResource, ObjectMeta, Operator, Spec, resource
from kubewright.api.core.v1 import ConfigMap

class ToySpec(Spec):
    size: int = 1

@resource(group="codes.example.com", version="v1")
class Toy(CustomResource[ToySpec, None]):
    '''A toy.'''

operator = Operator("toys")

@operator.reconcile(Toy, owns=(ConfigMap,))
async def reconcile(toy: Toy, ctx: Context[Toy]) -> None:
    await ctx.ensure([ConfigMap(metadata=ObjectMeta(name=toy.name), data={"size": str(toy.spec.size)})])
"""
STEPS = """
steps:
- apply: {apiVersion: codes.example.com/v1, kind: Toy, metadata: {name: a}, spec: {size: 2}}
"""


@pytest.mark.parametrize(
    ("arguments", "code"), [((), 0), (("--budget-runs", "1"), 3), (("--faults", "9"), 2)]
)
def test_exit_codes(tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
    (tmp_path / "codes.py").write_text(PROGRAM)
    (tmp_path / "steps.yaml").write_text(STEPS)
    command = [
        sys.executable,
        "-m",
        "kubewright.cli",
        "explore",
        "codes:operator",
        "--scenario",
        "steps.yaml",
    ]
    result = subprocess.run(
        [*command, "--family", "crash", *arguments], cwd=tmp_path, capture_output=True, text=True
    )
    assert result.returncode == code, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("violations", "complete", "code"), [(0, True, 0), (1, True, 1), (1, False, 1), (0, False, 3)]
)
def test_exit_codes_of_reports(violations: int, complete: bool, code: int) -> None:
    """Also of programs, which `--command` explores."""
    found = [ViolationReport(rule="a", scenario="b", source="", problems=(), faults=())] * violations
    assert ExplorationReport(operator="c", violations=found, complete=complete).exit_code == code


def test_modules_with_metrics_are_imported_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A metric in a module global, or elsewhere, is registered once per process."""
    source = """
from prometheus_client import Counter
from kubewright import Operator

SOLD = Counter("shop_sold", "Number of sold items")
OTHERS = {"lost": Counter("shop_lost", "Number of lost items")}
operator = Operator("shop")
"""
    (tmp_path / "shop_with_metrics.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    first = ModuleFactory("shop_with_metrics")
    assert first() is not first()
    assert ModuleFactory("shop_with_metrics")() is not first()
