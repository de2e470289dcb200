"""`explore`: run scenarios with every fault of every family, and collect what was violated.

    result = explore(ModuleFactory("shop:operator"), load_scenarios("tests/scenarios"), jobs=2)
    for violation in result.violations:
        print(violation.token, violation.message)

For each scenario, a session process starts a cluster, executes the reference run, enumerates the faults and
runs each in its own process (`forks`). Violations with the same message are one violation; its first run is
minimised. Runs with two replicas (`leader`) and with an older version (`upgrade`) have sessions of their own.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic as real_monotonic  # the function; the module attribute is replaced in runs
from typing import TYPE_CHECKING, Any

from .factories import OperatorPool
from .families import ALL, SINGLE, enumerate_faults
from .faults import Fault
from .forks import Session, fork, receive, send
from .line_coverage import FileCoverage, LineTracer, measure, operator_files
from .minimise import minimise
from .replay import RunToken
from .run import Run, SimulatedRun, warm_up

if TYPE_CHECKING:
    from .factories import OperatorFactory
    from .scenarios import Scenario

MAX_MINIMISED = 10
"""Number of violations per session that are minimised."""
MAX_OTHERS = 5
PREPARED_OPERATORS = 4
"""Number of operators that are created before runs are forked."""


class ExplorationError(Exception):
    """The exploration cannot start; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of an exploration; 0 means without a limit.

    With fewer runs than faults, the runs are spread evenly over the faults of each family.
    """

    runs: int = 0
    seconds: float = 0.0


@dataclass(slots=True, kw_only=True)
class Violation:
    """Something that was violated, with the smallest run that shows it."""

    name: str
    """Name of the invariant or check."""
    message: str
    scenario: str
    family: str
    """Empty if the reference run violates it."""
    run: Run
    reference: Run
    count: int = 1
    """Number of runs that violated the same."""
    order: int = 0
    """Number of the fault in the enumeration; the first fault with the violation is reported."""
    others: list[str] = field(default_factory=list)
    """Tokens of some other runs that violated the same."""

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults of the run."""
        return self.run.faults

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.run.seed

    @property
    def token(self) -> RunToken:
        """What replays the run."""
        return token_of(self.run)


@dataclass(slots=True, kw_only=True)
class Exploration:
    """The result of an exploration."""

    violations: list[Violation] = field(default_factory=list)
    points: dict[str, int] = field(default_factory=dict)
    """Number of enumerated faults by family."""
    runs_by_family: dict[str, int] = field(default_factory=dict)
    runs: int = 0
    seconds: float = 0.0
    """Real seconds."""
    cpu_seconds: float = 0.0
    """CPU time of all runs."""
    references: dict[str, Run] = field(default_factory=dict)
    """Reference runs with one replica, by scenario."""
    nondeterministic: list[str] = field(default_factory=list)
    """Scenarios whose reference run had another trace when it was repeated."""
    coverage: list[FileCoverage] = field(default_factory=list)
    """Reached lines of the operator, if requested."""
    is_exhausted: bool = False
    """Whether the budget ended the exploration early."""

    @property
    def ok(self) -> bool:
        """Whether nothing was violated."""
        return not self.violations

    @property
    def fault_coverage(self) -> float:
        """Fraction of the enumerated faults that were run."""
        total = sum(self.points.values())
        return sum(self.runs_by_family.values()) / total if total else 1.0

    @property
    def runs_per_minute(self) -> float:
        """Runs per minute of real time."""
        return 60.0 * self.runs / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Progress:
    """State of an exploration while it runs."""

    scenario: str
    done: int
    total: int
    violations: int


OnProgress = Callable[[Progress], None]


def explore(
    factory: OperatorFactory,
    scenarios: Sequence[Scenario],
    *,
    families: Sequence[str] = ALL,
    seed: int = 0,
    jobs: int = 1,
    budget: Budget | None = None,
    tolerances: Sequence[str] = (),
    old_factory: OperatorFactory | None = None,
    coverage: bool = False,
    on_progress: OnProgress | None = None,
) -> Exploration:
    """Explore scenarios and return the result.

    `old_factory` creates the previous version of the operator, for the family `upgrade`. `coverage` records
    which lines of the operator were reached, which takes about twice the time.
    """
    if not hasattr(os, "fork"):
        raise ExplorationError("exploration requires a system with fork, such as Linux or macOS")
    unknown = [each for each in families if each not in ALL]
    if unknown:
        raise ExplorationError(
            f"unknown fault families {', '.join(unknown)}; expected some of {', '.join(ALL)}"
        )
    if not scenarios:
        raise ExplorationError("there are no scenarios")
    started = time.monotonic()
    warm_up()
    explorer = _Explorer(
        factory,
        families=tuple(families),
        seed=seed,
        jobs=jobs,
        budget=budget or Budget(),
        tolerances=tuple(tolerances),
        old_factory=old_factory,
        coverage=coverage,
        on_progress=on_progress,
    )
    for each in scenarios:
        explorer.explore(each)
    result = explorer.result
    result.seconds = time.monotonic() - started
    if coverage:
        result.coverage = measure(explorer.lines)
    return result


class _Explorer:
    """Collects the results of sessions."""

    def __init__(
        self,
        factory: OperatorFactory,
        *,
        families: tuple[str, ...],
        seed: int,
        jobs: int,
        budget: Budget,
        tolerances: tuple[str, ...],
        old_factory: OperatorFactory | None,
        coverage: bool,
        on_progress: OnProgress | None,
    ) -> None:
        self.factory = factory
        self.families = families
        self.seed = seed
        self.jobs = jobs
        self.budget = budget
        self.tolerances = tolerances
        self.old_factory = old_factory
        self.coverage = coverage
        self.on_progress = on_progress
        self.result = Exploration()
        self.lines: dict[str, set[int]] = {}
        self._started = time.monotonic()

    def explore(self, scenario: Scenario) -> None:
        """Explore one scenario in all modes."""
        single = [each for each in self.families if each in SINGLE]
        reference = self._run_session(scenario, _Mode(single))
        if reference is None or not reference.ok:
            return
        self.result.references[scenario.name] = reference
        if "leader" in self.families:
            self._run_session(scenario, _Mode(["leader"], replicas=2))
        if "upgrade" in self.families and self.old_factory is not None:
            self._run_session(scenario, _Mode(["upgrade"], expected=reference, is_upgrade=True))

    def _run_session(self, scenario: Scenario, mode: _Mode) -> Run | None:
        """Run a session process, and collect what it sends; return the reference run."""
        budget = self._remaining_budget()
        pid, pipe = fork_session(lambda emit: self._session(scenario, mode, budget, emit))
        reference: Run | None = None
        found: dict[tuple[str, str], Violation] = {}
        done = total = 0
        try:
            for kind, value in receive(pipe):
                if kind == "error":
                    raise ExplorationError(value)
                if kind == "reference":
                    reference = value
                elif kind == "points":
                    for name, count in value.items():
                        self.result.points[name] = self.result.points.get(name, 0) + count
                elif kind == "planned":
                    total = value
                elif kind == "run":
                    done += 1
                    family, order, run = value
                    self._add_run(scenario, mode, family, order, run, reference, found)
                elif kind == "minimised":
                    key, run, shorter = value
                    found[key].run, found[key].reference = run, shorter
                    finding = next(each for each in run.findings if each.name == key[0])
                    found[key].message = finding.message
                elif kind == "nondeterministic":
                    self.result.nondeterministic.append(scenario.name)
                elif kind == "lines":
                    for file, lines in value.items():
                        self.lines.setdefault(file, set()).update(lines)
                elif kind == "exhausted":
                    self.result.is_exhausted = True
                if self.on_progress is not None:
                    violations = len(self.result.violations) + len(found)
                    self.on_progress(Progress(scenario.name, done, total, violations))
        finally:
            os.waitpid(pid, 0)
        self.result.violations.extend(sorted(found.values(), key=lambda each: each.order))
        if reference is None:
            raise ExplorationError(
                f"the reference run of the scenario {scenario.name} ended without a result"
            )
        self._add_reference(scenario, reference)
        return reference

    def _add_reference(self, scenario: Scenario, reference: Run) -> None:
        for each in reference.findings:
            self.result.violations.append(
                Violation(
                    name=each.name,
                    message=each.message,
                    scenario=scenario.name,
                    family="",
                    run=reference,
                    reference=reference,
                )
            )

    def _add_run(
        self,
        scenario: Scenario,
        mode: _Mode,
        family: str,
        order: int,
        run: Run,
        reference: Run | None,
        found: dict[tuple[str, str], Violation],
    ) -> None:
        result = self.result
        result.runs += 1
        result.cpu_seconds += run.cpu_seconds
        result.runs_by_family[family] = result.runs_by_family.get(family, 0) + 1
        assert reference is not None
        for each in run.findings:
            key = key_of(each.name, each.message)
            known = found.get(key)
            if known is not None:
                known.count += 1
                if known.order > order:
                    known.run, run_of_other = run, known.run
                    known.order, known.family, known.message = order, family, each.message
                else:
                    run_of_other = run
                if len(known.others) < MAX_OTHERS:
                    known.others.append(str(token_of(run_of_other)))
                continue
            found[key] = Violation(
                name=each.name,
                message=each.message,
                scenario=scenario.name,
                family=family,
                order=order,
                run=run,
                reference=mode.expected or reference,
            )

    def _remaining_budget(self) -> Budget:
        budget = self.budget
        runs = max(budget.runs - self.result.runs, 1) if budget.runs else 0
        seconds = 0.0
        if budget.seconds:
            seconds = max(budget.seconds - (time.monotonic() - self._started), 0.001)
        return Budget(runs, seconds)

    # In the session process

    def _session(self, scenario: Scenario, mode: _Mode, budget: Budget, emit: Emit) -> None:
        pool = OperatorPool(self.factory)
        pool.prepare(PREPARED_OPERATORS * mode.replicas)
        old_pool = None
        if mode.is_upgrade:
            assert self.old_factory is not None
            old_pool = OperatorPool(self.old_factory)
            old_pool.prepare(PREPARED_OPERATORS)
        tracer = LineTracer(operator_files(pool())) if self.coverage else None
        run = SimulatedRun(
            pool,
            scenario,
            seed=self.seed,
            replicas=mode.replicas,
            old_factory=old_pool,
            tolerances=self.tolerances,
            tracer=tracer,
        )
        session = Session(run, jobs=self.jobs)
        session.__enter__()  # never left: the process ends with it
        reference = session.execute()
        emit("reference", reference)
        emit("lines", reference.lines)
        if not reference.ok:
            return
        expected = reference
        if mode.expected is not None:
            expected = replace(mode.expected, step_ends=reference.step_ends, errors=reference.errors)
        faults = enumerate_faults(reference, mode.families)
        emit("points", {name: len(each) for name, each in faults.items()})
        planned = _spread(faults, budget.runs)
        emit("planned", sum(len(each) for each in planned.values()))
        if sum(map(len, planned.values())) < sum(map(len, faults.values())):
            emit("exhausted", None)
        explored = _ExploredRuns(session, reference, expected, planned, budget, emit)
        for key, found in explored.violations().items():
            smallest = minimise(session, expected, found, key[0])
            if smallest[0] is not found:
                emit("minimised", (key, *smallest))


@dataclass(frozen=True, slots=True)
class _Mode:
    """How the runs of a session differ from others."""

    families: list[str]
    replicas: int = 1
    expected: Run | None = None
    """The run whose final state is expected, if not the reference run of the session."""
    is_upgrade: bool = False


Emit = Callable[[str, Any], None]


class _ExploredRuns:
    """The runs of one session, which a child of the session process executes."""

    def __init__(
        self,
        session: Session,
        reference: Run,
        expected: Run,
        faults: dict[str, list[Fault]],
        budget: Budget,
        emit: Emit,
    ) -> None:
        self._session = session
        self._reference = reference
        self._expected = expected
        self._families = {each: family for family, found in faults.items() for each in found}
        self._order = {each: index for index, each in enumerate(self._families)}
        self._budget = budget
        self._emit = emit
        self._by_point: dict[str, list[Fault]] = {}
        for each in self._families:
            self._by_point.setdefault(each.point, []).append(each)

    def violations(self) -> dict[tuple[str, str], Run]:
        """Execute all runs, emit them, and return the first run of each violation."""
        found: dict[tuple[str, str], tuple[int, Run]] = {}
        pid, pipe = fork_session(self._execute)
        for kind, value in receive(pipe):
            self._emit(kind, value)
            if kind == "run":
                _, order, run = value
                for each in run.findings:
                    key = key_of(each.name, each.message)
                    if each.name != "process" and (key not in found or found[key][0] > order):
                        found[key] = (order, run)
        os.waitpid(pid, 0)
        first = sorted(found, key=lambda key: found[key][0])[:MAX_MINIMISED]
        return {key: found[key][1] for key in first}

    def _execute(self, emit: Emit) -> None:
        started = real_monotonic()
        seconds = self._budget.seconds

        def is_exhausted() -> bool:
            return bool(seconds) and real_monotonic() - started > seconds

        def report(run: Run) -> None:
            fault = run.faults[0]
            emit("run", (self._families[fault], self._order[fault], run))
            if run.lines:
                emit("lines", run.lines)

        digest = self._session.explore(self._expected, self._by_point, report, is_exhausted=is_exhausted)
        if is_exhausted():
            emit("exhausted", None)
        if digest != self._reference.trace.digest(switches=False) and self._expected is self._reference:
            emit("nondeterministic", None)


def fork_session(function: Callable[[Emit], None]) -> tuple[int, int]:
    """Fork a process that calls a function which emits values; return its id and the pipe to read."""

    def run(pipe: int) -> None:
        def emit(kind: str, value: Any) -> None:
            send(pipe, (kind, value))

        try:
            function(emit)
        except Exception as error:
            if os.environ.get("KUBEWRIGHT_TRACEBACK"):
                raise
            emit("error", f"{type(error).__name__}: {error}")

    return fork(run)


def token_of(run: Run) -> RunToken:
    """Return the token that replays a run."""
    return RunToken(run.scenario, run.faults, run.seed, run.replicas, run.skipped_steps)


def key_of(name: str, message: str) -> tuple[str, str]:
    """Return the key by which violations are grouped: numbers in messages do not matter."""
    return name, re.sub(r"\d+", "#", message)


def _spread(faults: dict[str, list[Fault]], runs: int) -> dict[str, list[Fault]]:
    """Select as many faults as there are runs, evenly over each family."""
    total = sum(map(len, faults.values()))
    if not runs or runs >= total:
        return faults
    selected = {}
    for family, found in faults.items():
        count = max(round(len(found) * runs / total), 1) if found else 0
        selected[family] = [found[index * len(found) // count] for index in range(count)]
    return selected


__all__ = [
    "Budget",
    "Exploration",
    "ExplorationError",
    "Progress",
    "Violation",
    "explore",
    "token_of",
]
