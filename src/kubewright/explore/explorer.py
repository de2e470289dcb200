"""`explore`: run scenarios with every fault of every family, and collect what was violated.

    result = explore(ModuleFactory("shop:operator"), load_scenarios("tests/scenarios"), jobs=2)
    for violation in result.violations:
        print(violation.token, violation.message)

For each scenario, a session process (`exploration_session`) starts a cluster, executes the reference run,
enumerates the faults and runs each in its own process. Findings with the same message are one violation; its
first run is minimised. Runs with two replicas (`leader`), with an older version (`upgrade`) and with two
faults have sessions of their own. A budget is shared by all sessions, in proportion to their families; what a
session does not use is left for the later ones.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .exploration import Exploration, ExplorationBudget, Progress, ViolationKey
from .exploration_session import PAIRS, SessionOptions, explore_session
from .families import VARIATION, all_families, single_families
from .runs.forks import fork_emitter, receive
from .runs.line_coverage import measure
from .runs.session import available_cpus
from .runs.warm_up import warm_up

if TYPE_CHECKING:
    from .faults import Fault
    from .runs.run_result import Run
    from .scenarios.scenarios import Scenario
    from .simulation.factories import OperatorFactory

OnProgress = Callable[[Progress], None]
MAX_SESSION_RUNS = 1_000_000_000
"""Runs of a later session are numbered after those of an earlier one."""


class ExplorationError(Exception):
    """The exploration cannot start; the message says what to change."""


class Interrupt:
    """Ends an exploration early, with a result of what was explored: `signal.signal(..., interrupt)`."""

    def __init__(self) -> None:
        self.is_set = False
        self._group = 0

    def __call__(self, *arguments: object) -> None:
        """End the exploration; a handler of signals."""
        self.is_set = True
        self._kill()

    def watch(self, group: int) -> None:
        """Kill a process group when the exploration is ended."""
        self._group = group
        if self.is_set:
            self._kill()

    def _kill(self) -> None:
        if self._group:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, signal.SIGKILL)


def explore(
    factory: OperatorFactory,
    scenarios: Sequence[Scenario],
    *,
    families: Sequence[str] | None = None,
    faults: int = 1,
    seed: int = 0,
    jobs: int | None = None,
    budget: ExplorationBudget | None = None,
    tolerances: Sequence[str] = (),
    old_factory: OperatorFactory | None = None,
    coverage: bool = False,
    on_progress: OnProgress | None = None,
    interrupt: Interrupt | None = None,
) -> Exploration:
    """Explore scenarios and return the result.

    `families` are the fault families, by default all of them. `faults` is the maximum number of faults in a
    run, 1 or 2. `jobs` is the number of runs at the same time, by default the number of CPUs. `old_factory`
    creates the previous version of the operator, for the family `upgrade`. `coverage` records which lines of
    the operator were reached, which takes about twice the time. `interrupt` ends the exploration early.
    """
    if not hasattr(os, "fork"):
        raise ExplorationError("exploration requires a system with fork, such as Linux or macOS")
    families = all_families() if families is None else families
    unknown = [each for each in families if each not in all_families()]
    if unknown:
        raise ExplorationError(
            f"unknown fault families {', '.join(unknown)}; expected some of {', '.join(all_families())}"
        )
    if not scenarios:
        raise ExplorationError("there are no scenarios")
    if faults not in (1, 2):
        raise ExplorationError(f"{faults} faults in one run are not supported; expected 1 or 2")
    started = time.monotonic()
    warm_up(factory, scenarios[0])
    explorer = _Explorer(budget or ExplorationBudget(), on_progress, interrupt or Interrupt())
    single = [each for each in families if each in single_families()]
    base = [
        SessionOptions(
            factory=factory,
            scenario=each,
            families=single,
            seed=seed,
            jobs=available_cpus() if jobs is None else jobs,
            tolerances=tuple(tolerances),
            coverage=coverage,
        )
        for each in scenarios
    ]
    for each in base:
        varied = VARIATION in families
        explorer.plan(replace(each, with_variations=varied), weight=len(single) + varied)
        if "leader" in families:
            explorer.plan(replace(each, families=["leader"], replicas=2))
        if "upgrade" in families and old_factory is not None:
            explorer.plan(replace(each, families=["upgrade"], old_factory=old_factory))
    if faults > 1:  # last, because they can use up any budget
        for each in base:
            explorer.plan(replace(each, with_pairs=True))
    result = explorer.explore()
    result.finish(time.monotonic() - started)
    if coverage:
        result.coverage = measure(explorer.lines)
    return result


class _Explorer:
    """Runs sessions, and collects their results."""

    def __init__(
        self, budget: ExplorationBudget, on_progress: OnProgress | None, interrupt: Interrupt
    ) -> None:
        self._budget = budget
        self._on_progress = on_progress
        self._interrupt = interrupt
        self._started = time.monotonic()
        self._sessions: list[tuple[SessionOptions, int]] = []
        self._reference_failed: set[str] = set()
        """Scenarios whose reference run violates something."""
        self.result = Exploration()
        self.failing: dict[str, set[Fault]] = {}
        """Faults that violate something alone, with one replica, by scenario."""
        self.lines: dict[str, set[int]] = {}
        """Executed lines of the operator by file."""

    def plan(self, options: SessionOptions, *, weight: int = 1) -> None:
        """Add a session, with its share of the budget."""
        self._sessions.append((options, weight))

    def explore(self) -> Exploration:
        """Run all sessions."""
        for number, (options, _) in enumerate(self._sessions):
            name = options.scenario.name
            if name in self._reference_failed:
                continue
            if self._interrupt.is_set:
                self.result.is_exhausted = True
                break
            expected = self.result.references.get(name) if options.old_factory is not None else None
            options = replace(
                options,
                budget=self._share(number),
                known=self.result.known(name),
                failing=frozenset(self.failing.get(name, ())),
                expected=expected,
            )
            reference = self._run_session(options, number)
            if reference is not None and reference.ok:
                self.result.references.setdefault(name, reference)
            elif name not in self.result.references:
                self._reference_failed.add(name)
        if self._interrupt.is_set:
            self.result.notes.append("the exploration was interrupted")
        return self.result

    def _run_session(self, options: SessionOptions, number: int) -> Run | None:
        """Run a session process, and collect what it emits; return the reference run."""
        collected = _Session(options, self, first=number * MAX_SESSION_RUNS)
        pid, pipe = fork_emitter(lambda emit: explore_session(options, emit), new_group=True)
        self._interrupt.watch(pid)
        try:
            for kind, value in receive(pipe):
                collected.add(kind, value)
                if self._on_progress is not None:
                    self._on_progress(collected.progress())
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            raise
        finally:
            self._interrupt.watch(0)
            os.waitpid(pid, 0)
        return collected.finish(was_interrupted=self._interrupt.is_set)

    def _share(self, number: int) -> ExplorationBudget:
        """Return the share of a session of what is left of the budget."""
        budget = self._budget
        weights = [weight for _, weight in self._sessions[number:]]
        share = weights[0] / sum(weights) if sum(weights) else 1.0
        runs = max(round((budget.runs - self.result.runs) * share), 1) if budget.runs else 0
        seconds = 0.0
        if budget.seconds:
            seconds = max((budget.seconds - (time.monotonic() - self._started)) * share, 0.001)
        return ExplorationBudget(runs, seconds)


class _Session:
    """What one session has emitted so far."""

    def __init__(self, options: SessionOptions, explorer: _Explorer, *, first: int) -> None:
        self._options = options
        self._explorer = explorer
        self._result = explorer.result
        self._name = options.scenario.name
        self._first = first
        self._reference: Run | None = None
        self._pending: dict[str, dict[str, None]] = {}
        """Plans that have not been run, by family."""
        self._done = self._total = 0

    def add(self, kind: str, value: Any) -> None:
        """Add a value; the kinds are those of `exploration_session`."""
        match kind:
            case "error":
                raise ExplorationError(value)
            case "reference":
                self._reference = value
            case "plans":
                self._pending |= {name: dict.fromkeys(plans) for name, plans in value.items()}
                self._result.add_points({name: len(plans) for name, plans in value.items()})
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

    def progress(self) -> Progress:
        """Return how far the session is."""
        return Progress(self._name, self._done, self._total, len(self._result.violations))

    def finish(self, *, was_interrupted: bool) -> Run | None:
        """Complete the result, and return the reference run."""
        reference, result = self._reference, self._result
        if reference is None:
            if was_interrupted:
                result.is_exhausted = True
                return None
            raise ExplorationError(f"the reference run of the scenario {self._name} ended without a result")
        for each in reference.findings:
            result.add_finding(each, reference, reference, order=self._first)
        for family, plans in self._pending.items():
            if plans:
                result.is_exhausted = True
                query = "variation" if family == VARIATION else "faults"
                names = [] if family == PAIRS else [f"{self._name}?{query}={each}" for each in plans]
                result.unexplored.setdefault(family, []).extend(names)
        return reference

    def _add_run(self, family: str, order: int, run: Run) -> None:
        result, reference = self._result, self._reference
        assert reference is not None
        self._done += 1
        result.runs += 1
        result.cpu_seconds += run.cpu_seconds
        result.runs_by_family[family] = result.runs_by_family.get(family, 0) + 1
        self._pending[family].pop(run.variation or ",".join(map(str, run.faults)), None)
        if run.findings and len(run.faults) == 1 and self._options.replicas == 1:
            self._explorer.failing.setdefault(self._name, set()).update(run.faults)
        for each in run.findings:
            result.add_finding(
                each,
                run,
                self._options.expected or reference,
                family=family,
                order=self._first + order,
                tolerances=self._options.tolerances,
            )

    def _minimise(self, key: ViolationKey, run: Run, reference: Run) -> None:
        violation = self._result.violation(self._name, key)
        assert violation is not None
        violation.minimise(run, reference)
