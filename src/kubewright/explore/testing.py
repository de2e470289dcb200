"""Exploration in tests: the decorator `explored`, and `check_replay` for one run.

    @explored(make_operator, invariants=[no_orphans()])
    async def test_resize(steps: Steps) -> None:
        await steps.apply(shop)
        await steps.wait(Shop, "a", condition="Ready")

`explored` makes a plain test function of a scenario, for pytest or any other test runner. It fails with the
violations, each with the line that replays it. `check_replay` fails if one run, given by its token, still
violates something; `kubewright explore` prints such tests.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

from .exploration import Exploration, ExplorationBudget, Violation
from .explorer import explore
from .oracles.clock import time_of_day_rules
from .replay import RunToken, check_reached, find_scenario, located
from .runs.forks import run_forked
from .runs.run import SimulatedRun
from .runs.run_result import Run
from .runs.session import Session
from .runs.warm_up import warm_up
from .scenarios.scenarios import Scenario, SetupObject, StepFunction, scenario
from .simulation.factories import ModuleFactory, OperatorPool

if TYPE_CHECKING:
    from .invariants import Invariant
    from .simulation.factories import OperatorFactory


class ScenarioOptions(TypedDict, total=False):
    """Options of `Scenario`."""

    name: str
    invariants: Sequence[Invariant]
    setup: Sequence[SetupObject]
    tolerate: Sequence[str]
    quiet_seconds: float
    timeout: float
    extra_writes: int | None
    allow: Sequence[str]
    controllers: bool
    nodes: int


class ViolationsFound(AssertionError):
    """An exploration in a test found violations."""

    def __init__(self, result: Exploration) -> None:
        self.result = result
        lines = [f"{len(result.violations)} violations in {result.runs} runs"]
        lines += [describe(each) for each in result.violations]
        super().__init__("\n".join(lines))


def explored(
    factory: OperatorFactory | str,
    *,
    families: Sequence[str] | None = None,
    faults: int = 1,
    seed: int = 0,
    jobs: int | None = None,
    budget: ExplorationBudget | None = None,
    old_factory: OperatorFactory | None = None,
    **options: Unpack[ScenarioOptions],
) -> Callable[[StepFunction], Callable[[], None]]:
    """Make a test of a scenario that explores an operator; `factory` may be `module:operator`."""
    make = ModuleFactory(factory) if isinstance(factory, str) else factory

    def decorate(steps: StepFunction) -> Callable[[], None]:
        declared = scenario(**options)(steps)

        @functools.wraps(steps)
        def test() -> None:
            result = explore(
                make,
                [declared],
                families=families,
                faults=faults,
                seed=seed,
                jobs=jobs,
                budget=budget,
                old_factory=old_factory,
            )
            if not result.ok:
                raise ViolationsFound(result)

        del test.__wrapped__  # pytest would ask for a fixture `steps`
        return test

    return decorate


def replay(
    factory: OperatorFactory,
    scenarios: Sequence[Scenario],
    token: RunToken | str,
    *,
    tolerances: Sequence[str] = (),
    old_factory: OperatorFactory | None = None,
) -> tuple[Run, Run]:
    """Repeat the run of a token in another process; return it and its reference run.

    Raises `ReplayError` if a fault of the token was not injected, because the run does not reach its point.
    """
    wanted = RunToken.parse(token) if isinstance(token, str) else token
    chosen = find_scenario(scenarios, wanted.scenario)

    def execute() -> tuple[Run, Run]:
        def session(is_upgrade: bool) -> Session:
            run = SimulatedRun(
                OperatorPool(factory),
                chosen,
                seed=wanted.seed,
                replicas=wanted.replicas,
                old_factory=OperatorPool(old_factory) if is_upgrade and old_factory is not None else None,
                tolerances=tolerances,
            )
            return Session(run)

        is_upgrade = any(each.action == "upgrade" for each in wanted.faults)
        with session(False) as prepared:
            reference = prepared.execute(skip=wanted.skip)
            if wanted.variation and reference.ok:
                return _replay_variation(prepared, reference, wanted.variation), reference
            if not wanted.faults:
                return reference, reference
            if any(each.action == "skew" for each in wanted.faults):
                prepared.run.time_of_day = time_of_day_rules(prepared, reference)
            faults = located(wanted.faults, reference)
            if not is_upgrade:
                return prepared.execute(faults, skip=wanted.skip, reference=reference), reference
        with session(True) as prepared:
            return prepared.execute(faults, skip=wanted.skip, reference=reference), reference

    warm_up(factory, chosen)
    run, reference = run_forked(execute)
    if reference.ok:
        check_reached(run, reference)
    return run, reference


def _replay_variation(session: Session, reference: Run, variation: str) -> Run:
    """Execute a variation of a scenario, with what is known about random values and periodic changes."""
    control = session.execute(reference=reference, variation="control")
    if variation == "control":
        return control
    session.run.random, session.run.periodic = control.random, control.periodic
    return session.execute(reference=reference, variation=variation)


def check_replay(
    factory: OperatorFactory,
    scenarios: Sequence[Scenario],
    token: RunToken | str,
    *,
    tolerances: Sequence[str] = (),
    old_factory: OperatorFactory | None = None,
) -> None:
    """Repeat the run of a token, and raise `AssertionError` with what it violates."""
    run, _ = replay(factory, scenarios, token, tolerances=tolerances, old_factory=old_factory)
    if not run.ok:
        raise AssertionError("; ".join(map(str, run.findings)))


def describe(violation: Violation) -> str:
    """Return a violation as a line with its token."""
    runs = f" ({violation.count} runs)" if violation.count > 1 else ""
    return f"{violation.name}: {violation.message}{runs}\n  replay: {violation.token}"
