"""`explore_command`: run a program with every fault of every family, and collect what was violated.

The reference run is repeated: points that not both runs have are not explored, and fields whose final values
differ are tolerated. A violation counts only if a second run with the same fault violates the same, because
real time is not reproducible. `jobs` runs are made at the same time, each with its own control plane and
process; most of the time of a run is spent waiting for the program, so more jobs than processors are useful.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubewright.explore.exploration import Exploration, ExplorationBudget, Progress, Violation, key_of
from kubewright.explore.families import enumerate_faults, in_fair_order, program_families
from kubewright.explore.faults import REAL, Fault
from kubewright.explore.final_state import differences
from kubewright.explore.minimise import minimise
from kubewright.explore.runs.run_result import Finding

from .foreign_run import ForeignOptions, ProgramRun, run_command
from .preloading import ProgramTemplates

if TYPE_CHECKING:
    from kubewright.explore.runs.run_result import Run
    from kubewright.explore.scenarios.scenarios import Scenario

MAX_MINIMISED = 5
"""Number of violations per scenario that are minimised."""
MAX_NOTED = 3
MAX_SCENARIO_RUNS = 1_000_000_000
"""Runs of a later scenario are numbered after those of an earlier one."""
_INDEX = re.compile(r"\[\d+\]")

OnProgress = Callable[[Progress], None]


class _Explorer:
    """Explores one scenario after the other."""

    def __init__(
        self,
        options: ForeignOptions,
        *,
        families: Sequence[str],
        budget: ExplorationBudget,
        jobs: int,
        templates: ProgramTemplates,
        on_progress: OnProgress | None,
    ) -> None:
        self.options = options
        self.templates = templates
        self.families = families
        self.jobs = max(jobs, 1)
        self.result = Exploration()
        self.started = time.monotonic()
        self._budget = budget
        self._on_progress = on_progress
        self._runs_until = self._seconds_until = 0.0
        """Limits of the current scenario; 0 is unlimited."""

    def begin(self, scenarios_left: int) -> None:
        """Give the next scenario its share of what is left of the budget."""
        budget, used = self._budget, time.monotonic() - self.started
        if budget.runs:
            self._runs_until = self.result.runs + (budget.runs - self.result.runs) / scenarios_left
        if budget.seconds:
            self._seconds_until = used + (budget.seconds - used) / scenarios_left

    @property
    def is_exhausted(self) -> bool:
        """Whether the share of the current scenario is used up."""
        if self._runs_until and self.result.runs >= self._runs_until:
            return True
        return bool(self._seconds_until) and time.monotonic() - self.started > self._seconds_until

    async def explore(self, scenario: Scenario, number: int) -> None:
        """Explore one scenario."""
        self.report(scenario, 0, 0)
        references = await self._run_references(scenario)
        first = number * MAX_SCENARIO_RUNS
        failed = next((each for each in references if each.findings), None)
        if failed is not None:
            for finding in failed.findings:
                self.result.add_finding(finding, failed, failed, order=first)
            return
        one, other = references
        reference = replace(
            one,
            watched_at_start=one.watched_at_start & other.watched_at_start,
            watched=one.watched & other.watched,
        )
        self.result.references[scenario.name] = reference
        options = self._compare(scenario, one, other, first)
        if options is None:
            return
        planned = enumerate_faults(reference, self.families, REAL)
        self.result.add_points({name: len(faults) for name, faults in planned.items()})
        common = {each.place for each in one.trace} & {each.place for each in other.trace}
        named = {
            name: [each for fault in faults if (each := fault.named_in(one.trace)).place in common]
            for name, faults in planned.items()
        }
        unstable = [each.name for each in one.trace if each.point and each.place not in common]
        self._note(scenario, unstable, "points that not every run without faults has are not explored")
        session = _Session(self, scenario, reference, options, first)
        try:
            await session.explore(in_fair_order(named))
        finally:
            missed, unconfirmed = session.missed, session.unconfirmed
            self._note(scenario, missed, "not injected, because the point was not reached")
            self._note(scenario, unconfirmed, "violated something that a second run did not confirm")
        await session.minimise()

    def _compare(
        self, scenario: Scenario, one: ProgramRun, other: ProgramRun, order: int
    ) -> ForeignOptions | None:
        """Return options that tolerate fields whose values differ without faults.

        Objects that only one of the runs has are a violation: there is nothing to compare other runs with.
        """
        options = self.options
        found = differences(one.final_state, other.final_state, (*scenario.tolerate, *options.tolerances))
        for each in found:
            if not each.path:
                text = f"two runs without faults end differently: {each}"
                other.add("final-state", text)
                self.result.add_finding(other.findings[-1], other, one, order=order)
                return None
        self._note(scenario, found, "not compared, two runs without faults differ")
        rules = {f"{each.object.partition(' ')[0]}:{_INDEX.sub('', each.path)}" for each in found}
        return replace(options, tolerances=(*options.tolerances, *sorted(rules)))

    def _note(self, scenario: Scenario, values: Sequence[object], text: str) -> None:
        if values:
            shown = ", ".join(map(str, values[:MAX_NOTED])) + (", ..." if len(values) > MAX_NOTED else "")
            self.result.notes.append(f"{scenario.name}: {text}: {shown}")

    async def _run_references(self, scenario: Scenario) -> list[ProgramRun]:
        """Run a scenario twice without faults, at the same time if there are several jobs."""
        if self.jobs == 1:
            return [await self.run(self.options, scenario) for _ in range(2)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.run(self.options, scenario)) for _ in range(2)]
        return [each.result() for each in tasks]

    async def run(self, options: ForeignOptions, scenario: Scenario, **values: Any) -> ProgramRun:
        """Make a run, and count it."""
        self.result.runs += 1
        async with self.templates.borrowed() as template:
            return await run_command(options, scenario, template=template, **values)

    def report(self, scenario: Scenario, done: int, total: int) -> None:
        """Report the progress."""
        if self._on_progress is not None:
            self._on_progress(Progress(scenario.name, done, total, len(self.result.violations)))


@dataclass(slots=True)
class _Session:
    """The runs of one scenario."""

    explorer: _Explorer
    scenario: Scenario
    reference: ProgramRun
    options: ForeignOptions
    first: int
    """Number of the first run."""
    missed: list[Fault] = field(default_factory=list)
    """Faults whose point was not reached."""
    unconfirmed: list[Fault] = field(default_factory=list)
    done: int = 0
    _queue: list[tuple[int, str, Fault]] = field(default_factory=list)

    async def explore(self, planned: list[tuple[str, Fault]]) -> None:
        """Run all faults."""
        self._queue = [(order, name, fault) for order, (name, fault) in enumerate(planned)]
        result = self.explorer.result
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self.explorer.jobs):
                    group.create_task(self._work(len(planned)))
        finally:
            for _, name, fault in self._queue:
                result.is_exhausted = True
                result.unexplored.setdefault(name, []).append(f"{self.scenario.name}?faults={fault}")

    async def _work(self, total: int) -> None:
        while self._queue and not self.explorer.is_exhausted:
            await self._explore_fault(*self._queue.pop(0))
            self.done += 1
            self.explorer.report(self.scenario, self.done, total)

    async def _explore_fault(self, order: int, family: str, fault: Fault) -> None:
        run = await self._run_fault(fault)
        if run.missed:
            # The point may be reached the next time: programs are not deterministic.
            run = await self._run_fault(fault)
        if run.missed:
            self.missed.append(fault)
        result = self.explorer.result
        result.runs_by_family[family] = result.runs_by_family.get(family, 0) + 1
        new = {each.name for each in run.findings if not self._is_known(each, run)}
        confirmed: set[str] = set()
        if new:
            confirmed = {each.name for each in (await self._run_fault(fault)).findings}
            if not confirmed.issuperset(new):
                self.unconfirmed.append(fault)
        for each in run.findings:
            if each.name in confirmed or self._is_known(each, run):
                result.add_finding(
                    each,
                    run,
                    self.reference,
                    family=family,
                    order=self.first + order,
                    tolerances=self.options.tolerances,
                )

    async def _run_fault(self, fault: Fault) -> ProgramRun:
        return await self._run(faults=[fault], reference=self.reference, is_known=self._is_known)

    async def _run(self, **values: Any) -> ProgramRun:
        """Make a run of the scenario; the values are those of `run_command`."""
        return await self.explorer.run(self.options, self.scenario, **values)

    def _is_known(self, finding: Finding, run: Run) -> bool:
        return self.explorer.result.violation(self.scenario.name, key_of(finding, run)) is not None

    async def minimise(self) -> None:
        """Minimise the first violations."""
        found = [each for each in self.explorer.result.violations if each.scenario == self.scenario.name]
        limit = asyncio.Semaphore(self.explorer.jobs)

        async def shorten(violation: Violation) -> None:
            async with limit:
                await self._shorten(violation)

        async with asyncio.TaskGroup() as group:
            for each in sorted(found, key=lambda violation: violation.order)[:MAX_MINIMISED]:
                group.create_task(shorten(each))

    async def _shorten(self, violation: Violation) -> None:
        runs = minimise(violation.run, violation.reference, violation.name, timing=REAL, candidates=1)
        result: ProgramRun | None = None
        while True:
            try:
                wanted = runs.send(result)
            except StopIteration as end:
                violation.minimise(*end.value)
                return
            result = None
            if not self.explorer.is_exhausted:
                result = await self._run(
                    faults=wanted.faults,
                    reference=wanted.reference,
                    skip=wanted.skip,
                    is_known=lambda finding, _: finding.name == violation.name,
                )


async def explore_command(
    options: ForeignOptions,
    scenarios: Sequence[Scenario],
    *,
    families: Sequence[str] | None = None,
    budget: ExplorationBudget | None = None,
    jobs: int = 1,
    stop: asyncio.Event | None = None,
    on_progress: OnProgress | None = None,
) -> Exploration:
    """Explore a program and return the result.

    `stop` ends the exploration early when it is set, with what was found.
    """
    with tempfile.TemporaryDirectory(prefix="kubewright-explore-") as scratch:
        templates = ProgramTemplates(options.command, directory=options.directory, scratch=Path(scratch))
        try:
            return await _explore(options, scenarios, families, budget, jobs, templates, stop, on_progress)
        finally:
            await templates.aclose()


async def _explore(
    options: ForeignOptions,
    scenarios: Sequence[Scenario],
    families: Sequence[str] | None,
    budget: ExplorationBudget | None,
    jobs: int,
    templates: ProgramTemplates,
    stop: asyncio.Event | None,
    on_progress: OnProgress | None,
) -> Exploration:
    explorer = _Explorer(
        options,
        families=program_families() if families is None else families,
        budget=budget or ExplorationBudget(),
        jobs=jobs,
        templates=templates,
        on_progress=on_progress,
    )
    result = explorer.result

    async def explore_all() -> None:
        for number, each in enumerate(scenarios):
            explorer.begin(len(scenarios) - number)
            await explorer.explore(each, number)

    task = asyncio.create_task(explore_all())
    stopping = asyncio.create_task(stop.wait()) if stop is not None else None
    try:
        await asyncio.wait(
            {task} if stopping is None else {task, stopping}, return_when=asyncio.FIRST_COMPLETED
        )
        if not task.done():
            result.is_exhausted = True
            result.notes.append("the exploration was interrupted")
    finally:
        if stopping is not None:
            stopping.cancel()
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    if not task.cancelled():
        _raise_first(task.exception())
    result.finish(time.monotonic() - explorer.started)
    return result


def _raise_first(error: BaseException | None) -> None:
    """Raise an error of a run; the group of its task only hides it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is not None:
        raise error
