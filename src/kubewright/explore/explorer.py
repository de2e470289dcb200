"""`explore`: run scenarios with every fault of every family, and collect what was violated.

    result = explore(ModuleFactory("shop:operator"), load_scenarios("tests/scenarios"), jobs=2)
    for violation in result.violations:
        print(violation.token, violation.message)

For each scenario, a session process (`exploration_session`) starts a cluster, executes the reference run,
enumerates the faults and runs each in its own process. Findings with the same message are one violation; its
first run is minimised. Runs with two replicas (`leader`), with an older version (`upgrade`) and with two
faults have sessions of their own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .exploration import Exploration, ExplorationBudget, Progress, Violation, ViolationKey, key_of
from .exploration_session import SessionOptions, explore_session
from .families import ALL, SINGLE
from .forks import fork_emitter, receive
from .line_coverage import measure
from .session import available_cpus
from .warm_up import warm_up

if TYPE_CHECKING:
    from .factories import OperatorFactory
    from .faults import Fault
    from .run_result import Run
    from .scenarios import Scenario

OnProgress = Callable[[Progress], None]
LATER_SESSION = 1_000_000_000
"""Number of a run of a later session, which does not replace the run of a violation."""


class ExplorationError(Exception):
    """The exploration cannot start; the message says what to change."""


def explore(
    factory: OperatorFactory,
    scenarios: Sequence[Scenario],
    *,
    families: Sequence[str] = ALL,
    faults: int = 1,
    seed: int = 0,
    jobs: int | None = None,
    budget: ExplorationBudget | None = None,
    tolerances: Sequence[str] = (),
    old_factory: OperatorFactory | None = None,
    coverage: bool = False,
    on_progress: OnProgress | None = None,
) -> Exploration:
    """Explore scenarios and return the result.

    `faults` is the maximum number of faults in a run, 1 or 2. `jobs` is the number of runs at the same time,
    by default the number of CPUs. `old_factory` creates the previous version of the operator, for the family
    `upgrade`. `coverage` records which lines of the operator were reached, which takes about twice the time.
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
    if faults not in (1, 2):
        raise ExplorationError(f"{faults} faults in one run are not supported; expected 1 or 2")
    started = time.monotonic()
    warm_up(factory, scenarios[0])
    explorer = _Explorer(families, faults, budget or ExplorationBudget(), on_progress)
    for each in scenarios:
        explorer.explore(
            SessionOptions(
                factory=factory,
                scenario=each,
                families=families,
                seed=seed,
                jobs=available_cpus() if jobs is None else jobs,
                tolerances=tuple(tolerances),
                coverage=coverage,
            ),
            old_factory,
        )
    result = explorer.result
    result.seconds = time.monotonic() - started
    if coverage:
        result.coverage = measure(explorer.lines)
    return result


class _Explorer:
    """Runs sessions, and collects their results."""

    def __init__(
        self, families: Sequence[str], faults: int, budget: ExplorationBudget, on_progress: OnProgress | None
    ) -> None:
        self._families = families
        self._faults = faults
        self._budget = budget
        self._on_progress = on_progress
        self._started = time.monotonic()
        self.result = Exploration()
        self.found: dict[tuple[str, ViolationKey], Violation] = {}
        """Violations by scenario and key; that of one replica is not reported again for two."""
        self.failing: set[Fault] = set()
        """Faults of the current scenario that violate something alone, with one replica."""
        self.lines: dict[str, set[int]] = {}
        """Executed lines of the operator by file."""

    def explore(self, options: SessionOptions, old_factory: OperatorFactory | None) -> None:
        """Explore one scenario in all modes; pairs of faults last, because they can use up any budget."""
        self.failing.clear()
        single = [each for each in self._families if each in SINGLE]
        reference = self._run_session(replace(options, families=single))
        if not reference.ok:
            return
        self.result.references[options.scenario.name] = reference
        if "leader" in self._families:
            self._run_session(replace(options, families=["leader"], replicas=2))
        if "upgrade" in self._families and old_factory is not None:
            self._run_session(
                replace(options, families=["upgrade"], old_factory=old_factory, expected=reference)
            )
        if self._faults > 1:
            self._run_session(
                replace(options, families=single, with_pairs=True, failing=frozenset(self.failing))
            )

    def _run_session(self, options: SessionOptions) -> Run:
        """Run a session process, and collect what it emits; return the reference run."""
        known = frozenset(key for scenario, key in self.found if scenario == options.scenario.name)
        options = replace(options, budget=self._remaining_budget(), known=known)
        collected = _Session(options, self)
        pid, pipe = fork_emitter(lambda emit: explore_session(options, emit))
        try:
            for kind, value in receive(pipe):
                collected.add(kind, value)
                if self._on_progress is not None:
                    self._on_progress(collected.progress())
        finally:
            os.waitpid(pid, 0)
        return collected.finish()

    def _remaining_budget(self) -> ExplorationBudget:
        budget = self._budget
        runs = max(budget.runs - self.result.runs, 1) if budget.runs else 0
        seconds = 0.0
        if budget.seconds:
            seconds = max(budget.seconds - (time.monotonic() - self._started), 0.001)
        return ExplorationBudget(runs, seconds)


class _Session:
    """What one session has emitted so far."""

    def __init__(self, options: SessionOptions, explorer: _Explorer) -> None:
        self._options = options
        self._explorer = explorer
        self._result = explorer.result
        self._name = options.scenario.name
        self._reference: Run | None = None
        self._found: dict[ViolationKey, Violation] = {}
        self._done = self._total = 0

    def add(self, kind: str, value: Any) -> None:
        """Add a value; the kinds are those of `exploration_session`."""
        match kind:
            case "error":
                raise ExplorationError(value)
            case "reference":
                self._reference = value
            case "points":
                for name, count in value.items():
                    self._result.points[name] = self._result.points.get(name, 0) + count
            case "planned":
                self._total = value
            case "run":
                self._add_run(*value)
            case "minimised":
                self._minimise(*value)
            case "nondeterministic":
                if self._name not in self._result.nondeterministic:
                    self._result.nondeterministic.append(self._name)
            case "lines":
                for file, lines in value.items():
                    self._explorer.lines.setdefault(file, set()).update(lines)
            case "exhausted":
                self._result.is_exhausted = True

    def progress(self) -> Progress:
        """Return how far the session is."""
        violations = len(self._result.violations) + len(self._found)
        return Progress(self._name, self._done, self._total, violations)

    def finish(self) -> Run:
        """Add the violations to the result, and return the reference run."""
        reference = self._reference
        if reference is None:
            raise ExplorationError(f"the reference run of the scenario {self._name} ended without a result")
        self._result.violations.extend(sorted(self._found.values(), key=lambda each: each.order))
        self._explorer.found.update({(self._name, key): each for key, each in self._found.items()})
        for each in reference.findings:
            self._result.violations.append(
                Violation(
                    name=each.name,
                    message=each.message,
                    scenario=self._name,
                    family="",
                    run=reference,
                    reference=reference,
                )
            )
        return reference

    def _add_run(self, family: str, order: int, run: Run) -> None:
        result, reference = self._result, self._reference
        assert reference is not None
        self._done += 1
        result.runs += 1
        result.cpu_seconds += run.cpu_seconds
        result.runs_by_family[family] = result.runs_by_family.get(family, 0) + 1
        if run.findings and len(run.faults) == 1 and self._options.replicas == 1:
            self._explorer.failing.update(run.faults)
        for each in run.findings:
            key = key_of(each)
            if key in self._options.known:
                self._explorer.found[self._name, key].add(each, family, LATER_SESSION, run)
            elif key in self._found:
                self._found[key].add(each, family, order, run)
            else:
                self._found[key] = Violation(
                    name=each.name,
                    message=each.message,
                    scenario=self._name,
                    family=family,
                    order=order,
                    run=run,
                    reference=self._options.expected or reference,
                )

    def _minimise(self, key: ViolationKey, run: Run, reference: Run) -> None:
        violation = self._found[key]
        violation.run, violation.reference = run, reference
        violation.message = next(each.message for each in run.findings if each.name == key[0])


__all__ = ["ExplorationError", "explore"]
