"""The session process of an exploration: reference run, one run per fault or pair of faults, minimisation.

`explore_session` runs in a process of its own for each scenario and mode. What it finds is emitted to the
process of the user:

| kind | value |
|---|---|
| `reference` | the reference run |
| `plans` | the faults, or pairs of them, by family |
| `planned` | number of runs that will follow |
| `run` | family, number of the run in the enumeration, and the run |
| `minimised` | key of a violation, its smallest run, and the reference run of that |
| `lines` | executed lines of the operator by file |
| `nondeterministic` | `None`: the repeated reference run differs |

A session with pairs combines the faults that violate nothing alone: every fault with every later one of
another family. The second point is counted in the run itself: after a crash at `w3`, `w4` is the first
write of the restarted process. There are about as many pairs as the square of the faults; without a budget,
`MAX_PAIRS` are selected evenly.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from time import monotonic as real_monotonic  # the function; the module attribute is replaced in runs
from typing import TYPE_CHECKING

from .exploration import ExplorationBudget, ViolationKey, key_of
from .families import VARIATION, enumerate_faults, in_fair_order
from .faults import Fault, Plan
from .minimise import Minimisation, minimise
from .oracles.catalogue import variations_of
from .oracles.clock import time_of_day_rules
from .oracles.names import LATE_WRITE
from .oracles.probe import Probe
from .runs.forks import Emit, fork_emitter, receive
from .runs.line_coverage import LineTracer, operator_files
from .runs.run import SimulatedRun
from .runs.run_result import Run
from .runs.session import Session
from .simulation.factories import OperatorPool

if TYPE_CHECKING:
    from .runs.trace import Trace
    from .scenarios.scenarios import Scenario
    from .simulation.factories import OperatorFactory

MAX_MINIMISED = 10
"""Number of violations per session that are minimised."""
MAX_PAIRS = 1000
"""Number of pairs of faults per session, without a budget."""
ROUND_RUNS = 32
"""Number of runs of the first round of a budget of seconds."""
PAIRS = "pairs"
"""Name under which pairs are counted, as a family."""
PREPARED_OPERATORS = 4
"""Number of operators that are created before runs are forked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """What a session explores."""

    factory: OperatorFactory
    scenario: Scenario
    families: Sequence[str]
    seed: int = 0
    jobs: int = 1
    with_variations: bool = False
    """Whether variations of the scenario are executed as well."""
    with_pairs: bool = False
    """Whether runs have two faults instead of one."""
    failing: frozenset[Fault] = frozenset()
    """Faults that violate something alone, and are not combined with others."""
    budget: ExplorationBudget = field(default_factory=ExplorationBudget)
    tolerances: tuple[str, ...] = ()
    coverage: bool = False
    replicas: int = 1
    old_factory: OperatorFactory | None = None
    """Creates the operators that run until an upgrade."""
    expected: Run | None = None
    """The run whose final state is expected, if not the reference run of the session."""
    known: frozenset[ViolationKey] = frozenset()
    """Violations that an earlier session of the scenario has found, which are not minimised again."""


def explore_session(options: SessionOptions, emit: Emit) -> None:
    """Explore a scenario in this process, which ends afterwards."""
    session = _prepare(options)
    reference = session.execute()
    emit("reference", reference)
    emit("lines", reference.lines)
    if not reference.ok:
        return
    expected = reference
    if options.expected is not None:
        expected = replace(options.expected, step_ends=reference.step_ends, errors=reference.errors)
    faults = enumerate_faults(reference, options.families)
    plans: dict[str, list[Plan]] = {name: [(each,) for each in found] for name, found in faults.items()}
    if options.with_pairs:
        clean = {
            name: [each for each in found if each not in options.failing] for name, found in faults.items()
        }
        plans = {PAIRS: pairs_of(clean, reference.trace)}
    runs = _Runs(session, reference, expected, options.budget, emit)
    if options.with_variations:
        runs.vary(families=len(options.families))
    if "clock" in options.families:
        session.run.time_of_day = time_of_day_rules(session, reference)
    runs.explore(plans, most=MAX_PAIRS if options.with_pairs else 0)
    for key, found in runs.first_of_each_violation(options.known).items():
        smallest = _run_all(session, minimise(found, expected, key[0]))
        if smallest[0] is not found:
            emit("minimised", (key, *smallest))


def _run_all(session: Session, minimisation: Minimisation) -> tuple[Run, Run]:
    """Execute the runs of a minimisation, and return its result."""
    result: Run | None = None
    while True:
        try:
            wanted = minimisation.send(result)
        except StopIteration as end:
            smallest: tuple[Run, Run] = end.value
            return smallest
        result = session.execute(wanted.faults, skip=wanted.skip, reference=wanted.reference)


def pairs_of(faults: Mapping[str, Sequence[Fault]], trace: Trace) -> list[Plan]:
    """Return every fault together with every fault of another family at a later point."""
    numbers = {each.point: each.number for each in trace if each.point}
    ordered = sorted(
        ((numbers[each.point], family, each) for family, found in faults.items() for each in found),
        key=lambda item: item[0],
    )
    return [
        (first, second)
        for index, (number, family, first) in enumerate(ordered)
        for later, other, second in ordered[index + 1 :]
        if later > number and other != family
    ]


def _prepare(options: SessionOptions) -> Session:
    """Start the cluster of a session; it is never stopped, because the process ends with it.

    Operators are created in the simulation: those that keep a clock keep that of the simulation.
    """
    pool = OperatorPool(options.factory)
    old_pool = OperatorPool(options.old_factory) if options.old_factory is not None else None
    run = SimulatedRun(
        pool,
        options.scenario,
        seed=options.seed,
        replicas=options.replicas,
        old_factory=old_pool,
        tolerances=options.tolerances,
        tracer=LineTracer(operator_files(pool())) if options.coverage else None,
    )
    session = Session(run, jobs=options.jobs)
    session.__enter__()
    pool.prepare(PREPARED_OPERATORS * options.replicas)
    if old_pool is not None:
        old_pool.prepare(PREPARED_OPERATORS)
    return session


class _Runs:
    """The runs of a session. A child of the session process executes the reference run and forks them."""

    def __init__(
        self, session: Session, reference: Run, expected: Run, budget: ExplorationBudget, emit: Emit
    ) -> None:
        self._session = session
        self._reference = reference
        self._expected = expected
        self._budget = budget
        self._emit = emit
        self._found: dict[ViolationKey, tuple[int, Run]] = {}
        self._order: dict[Plan, int] = {}
        """Numbers of the plans in the enumeration."""
        self._started = real_monotonic()

    def vary(self, *, families: int) -> None:
        """Execute the variations of the scenario; what they find is not minimised.

        Of a budget of runs, they use the share of one family.
        """
        run, reference = self._session.run, self._reference
        control = self._session.execute(reference=reference, variation="control")
        run.random, run.periodic = control.random, control.periodic
        reference.random_values = self._expected.random_values = control.random_values
        names = variations_of(Probe(run), reference, run.scenario.allow)
        if control.periodic:  # what happens at certain times also happens while a variation waits
            names = [each for each in names if each in ("restart", "deletion")]
        self._emit("plans", {VARIATION: names})
        if not control.ok:
            self._emit("run", (VARIATION, -1, control))
        if self._budget.runs:
            names = names[: -(-self._budget.runs // (families + 1))]
            self._budget = replace(self._budget, runs=max(self._budget.runs - len(names), 1))
        for order, name in enumerate(names):
            if self._is_exhausted():
                return
            varied = self._session.execute(reference=reference, variation=name)
            self._emit("run", (VARIATION, order, varied))

    def explore(self, plans: Mapping[str, Sequence[Plan]], *, most: int = 0) -> None:
        """Execute a run per plan, or as many as the budget allows, and emit them.

        `most` is the number of runs without a budget; 0 means without a limit. A budget of seconds is used in
        rounds, each with more runs than the one before: a round visits the points in the order of the run, so
        that one round would explore only the first points.
        """
        budget = self._budget
        self._order = {each: index for index, each in enumerate(chain.from_iterable(plans.values()))}
        planned = in_fair_order(plans)[: budget.runs or most or None]
        self._emit(
            "plans", {name: [",".join(map(str, each)) for each in found] for name, found in plans.items()}
        )
        self._emit("planned", len(planned))
        size = ROUND_RUNS if budget.seconds else len(planned)
        while planned and not self._is_exhausted():
            chosen, planned = planned[:size], planned[size:]
            size *= 2
            pid, pipe = fork_emitter(partial(self._execute, chosen))
            for kind, value in receive(pipe):
                self._emit(kind, value)
                if kind == "run":
                    self._add(*value)
            os.waitpid(pid, 0)

    def _is_exhausted(self) -> bool:
        return bool(self._budget.seconds) and real_monotonic() - self._started > self._budget.seconds

    def first_of_each_violation(self, known: frozenset[ViolationKey]) -> dict[ViolationKey, Run]:
        """Return the first run of each violation, without those that are known."""
        new = sorted((key for key in self._found if key not in known), key=lambda key: self._found[key][0])
        return {key: self._found[key][1] for key in new[:MAX_MINIMISED]}

    def _add(self, family: str, order: int, run: Run) -> None:
        for each in run.findings:
            key = key_of(each, run)
            if each.name in ("process", LATE_WRITE):
                continue
            if key not in self._found or self._found[key][0] > order:
                self._found[key] = (order, run)

    def _execute(self, planned: Sequence[tuple[str, Plan]], emit: Emit) -> None:
        families = {each: family for family, each in planned}
        by_point: dict[str, list[Plan]] = {}
        for each in families:
            by_point.setdefault(each[0].point, []).append(each)

        def report(run: Run) -> None:
            emit("run", (families[run.faults], self._order[run.faults], run))
            if run.lines:
                emit("lines", run.lines)

        digest = self._session.explore(self._expected, by_point, report, is_exhausted=self._is_exhausted)
        if digest != self._reference.trace.digest(switches=False) and self._expected is self._reference:
            emit("nondeterministic", None)
