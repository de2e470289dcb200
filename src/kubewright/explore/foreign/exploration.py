"""`explore_command`: run a program with every fault of every family, and collect what was violated.

The reference run is repeated: points that not both runs have are not explored, and fields whose final values
differ are tolerated. A violation counts only if a second run with the same fault violates the same, because
real time is not reproducible. `jobs` runs are made at the same time, each with its own control plane and
process; most of the time of a run is spent waiting for the program, so more jobs than processors are useful.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubewright.explore.exploration import Progress, ViolationKey, key_of
from kubewright.explore.faults import Fault
from kubewright.explore.final_state import differences
from kubewright.explore.reports.exploration_report import scenario_file
from kubewright.explore.reports.model import ExplorationReport, FamilyReport, ViolationReport
from kubewright.explore.reports.run_report import describe_run
from kubewright.explore.run_result import Finding

from .families import FAMILIES, enumerate_faults, interleaved
from .foreign_run import ForeignOptions, run_command
from .minimise import minimise
from .points import general_text
from .replay import CommandToken, generated_test, replay_run, write_replay

if TYPE_CHECKING:
    from kubewright.explore.scenarios import Scenario

    from .result import ProgramRun

MAX_MINIMISED = 5
"""Number of violations per scenario that are minimised."""
MAX_NOTED = 3
_INDEX = re.compile(r"\[\d+\]")

DescribeReplay = Callable[[CommandToken, ForeignOptions], str]
OnProgress = Callable[[Progress], None]


@dataclass(slots=True, kw_only=True)
class _Violation:
    """What some runs have violated, and the first of them."""

    scenario: Scenario
    finding: Finding
    run: ProgramRun
    reference: ProgramRun
    options: ForeignOptions
    family: str = ""
    order: int = 0
    count: int = 1


@dataclass(slots=True)
class _Counts:
    points: int = 0
    runs: int = 0


class _Explorer:
    """Explores one scenario after the other."""

    def __init__(
        self,
        options: ForeignOptions,
        *,
        families: Sequence[str],
        runs: int,
        seconds: float,
        jobs: int,
        on_progress: OnProgress | None,
    ) -> None:
        self.options = options
        self.families = families
        self.jobs = max(jobs, 1)
        self.violations: list[_Violation] = []
        self.counts = {name: _Counts() for name in families}
        self.notes: list[str] = []
        self.runs = 0
        self.is_complete = True
        self.started = time.monotonic()
        self._max_runs = runs
        self._seconds = seconds
        self._on_progress = on_progress

    @property
    def is_exhausted(self) -> bool:
        """Whether the budget is used up."""
        if self._max_runs and self.runs >= self._max_runs:
            return True
        return bool(self._seconds) and time.monotonic() - self.started > self._seconds

    async def explore(self, scenario: Scenario) -> None:
        """Explore one scenario."""
        self._report(scenario, 0, 0)
        references = await self._run_references(scenario)
        failed = next((each for each in references if each.findings), None)
        if failed is not None:
            self.violations += [
                _Violation(
                    scenario=scenario, finding=each, run=failed, reference=failed, options=self.options
                )
                for each in failed.findings
            ]
            return
        one, other = references
        reference = replace(
            one,
            watched_at_start=one.watched_at_start & other.watched_at_start,
            watched=one.watched & other.watched,
        )
        options = self._compare(scenario, one, other)
        if options is None:
            return
        session = _Session(self, scenario, reference, options)
        planned = enumerate_faults(reference, self.families)
        common = set(one.names) & set(other.names)
        names = {reference.names[key] for key in common}
        for name, faults in planned.items():
            self.counts[name].points += len(faults)
            planned[name] = [each for each in faults if each.point in names]
        self._note_points(scenario, [str(key) for key in reference.names if key not in common])
        try:
            await session.explore(interleaved(planned))
        finally:
            found = sorted(session.violations.values(), key=lambda violation: violation.order)
            self.violations += found
            self._note_faults(scenario, session.missed, "not injected, because the point was not reached")
            self._note_faults(
                scenario, session.unconfirmed, "violated something that a second run did not confirm"
            )
        await self._minimise(session, found)

    def _compare(self, scenario: Scenario, one: ProgramRun, other: ProgramRun) -> ForeignOptions | None:
        """Return options that tolerate fields whose values differ without faults.

        Objects that only one of the runs has are a violation: there is nothing to compare other runs with.
        """
        options = self.options
        tolerances = (*scenario.tolerate, *options.tolerances)
        found = differences(one.final_state, other.final_state, tolerances)
        for each in found:
            if not each.path:
                finding = Finding(
                    "final-state", f"two runs without faults end differently: {each}", other.end
                )
                other.findings.append(finding)
                self.violations.append(
                    _Violation(scenario=scenario, finding=finding, run=other, reference=one, options=options)
                )
                return None
        for each in found[:MAX_NOTED]:
            self.notes.append(f"{scenario.name}: not compared, two runs without faults differ: {each}")
        rules = {f"{each.object.partition(' ')[0]}:{_INDEX.sub('', each.path)}" for each in found}
        return replace(options, tolerances=(*options.tolerances, *sorted(rules)))

    def _note_points(self, scenario: Scenario, unstable: list[str]) -> None:
        if unstable:
            shown = ", ".join(unstable[:MAX_NOTED]) + (", ..." if len(unstable) > MAX_NOTED else "")
            self.notes.append(
                f"{scenario.name}: {len(unstable)} points are not in every run without faults, and are not "
                f"explored: {shown}"
            )

    def _note_faults(self, scenario: Scenario, faults: list[Fault], text: str) -> None:
        if faults:
            shown = ", ".join(map(str, faults[:MAX_NOTED])) + (", ..." if len(faults) > MAX_NOTED else "")
            self.notes.append(f"{scenario.name}: {text}: {shown}")

    async def _run_references(self, scenario: Scenario) -> list[ProgramRun]:
        """Run a scenario twice without faults, at the same time if there are several jobs."""
        if self.jobs == 1:
            return [await self.run(self.options, scenario) for _ in range(2)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.run(self.options, scenario)) for _ in range(2)]
        return [each.result() for each in tasks]

    async def run(self, options: ForeignOptions, scenario: Scenario, **values: Any) -> ProgramRun:
        """Make a run, and count it."""
        self.runs += 1
        return await run_command(options, scenario, **values)

    async def _minimise(self, session: _Session, found: Sequence[_Violation]) -> None:
        limit = asyncio.Semaphore(self.jobs)

        async def shorten(violation: _Violation) -> None:
            async with limit:
                violation.run, violation.reference = await minimise(
                    session.run,
                    violation.run,
                    violation.reference,
                    violation.finding.name,
                    is_exhausted=lambda: self.is_exhausted,
                )
            name = violation.finding.name
            violation.finding = next(each for each in violation.run.findings if each.name == name)

        async with asyncio.TaskGroup() as group:
            for each in found[:MAX_MINIMISED]:
                group.create_task(shorten(each))

    def _report(self, scenario: Scenario, done: int, total: int, violations: int = 0) -> None:
        if self._on_progress is not None:
            self._on_progress(Progress(scenario.name, done, total, len(self.violations) + violations))

    def progressed(self, session: _Session) -> None:
        """Report the progress."""
        self._report(session.scenario, session.done, session.total, len(session.violations))


@dataclass(slots=True)
class _Session:
    """The runs of one scenario."""

    explorer: _Explorer
    scenario: Scenario
    reference: ProgramRun
    options: ForeignOptions
    violations: dict[ViolationKey, _Violation] = field(default_factory=dict)
    missed: list[Fault] = field(default_factory=list)
    """Faults whose point was not reached."""
    unconfirmed: list[Fault] = field(default_factory=list)
    done: int = 0
    total: int = 0
    _queue: list[tuple[int, str, Fault]] = field(default_factory=list)

    async def explore(self, planned: list[tuple[str, Fault]]) -> None:
        """Run all faults."""
        self.total = len(planned)
        self._queue = [(order, name, fault) for order, (name, fault) in enumerate(planned)]
        async with asyncio.TaskGroup() as group:
            for _ in range(self.explorer.jobs):
                group.create_task(self._work())

    async def _work(self) -> None:
        while self._queue:
            if self.explorer.is_exhausted:
                self.explorer.is_complete = False
                return
            await self._explore_fault(*self._queue.pop(0))
            self.done += 1
            self.explorer.progressed(self)

    async def _explore_fault(self, order: int, family: str, fault: Fault) -> None:
        run = await self._run_fault(fault)
        if not run.is_complete:
            # The point may be reached the next time: programs are not deterministic.
            run = await self._run_fault(fault)
        if not run.is_complete:
            self.missed.append(fault)
        self.explorer.counts[family].runs += 1
        keys = [_key(each.name, general_text(each.message, run.generated)) for each in run.findings]
        new = [key for key in keys if key not in self.violations]
        confirmed: set[str] = set()
        if new:
            confirmed = {each.name for each in (await self._run_fault(fault)).findings}
            if not confirmed.issuperset(name for name, _ in new):
                self.unconfirmed.append(fault)
        for key, each in zip(keys, run.findings, strict=True):
            known = self.violations.get(key)
            if known is not None:
                known.count += 1
                if order < known.order:
                    known.run, known.order, known.family, known.finding = run, order, family, each
            elif each.name in confirmed:
                self.violations[key] = _Violation(
                    scenario=self.scenario,
                    finding=each,
                    run=run,
                    reference=self.reference,
                    options=self.options,
                    family=family,
                    order=order,
                )

    async def _run_fault(self, fault: Fault) -> ProgramRun:
        return await self.run(faults=[fault], reference=self.reference, is_known=self._is_known)

    async def run(self, **values: Any) -> ProgramRun:
        """Make a run of the scenario; the values are those of `run_command`."""
        return await self.explorer.run(self.options, self.scenario, **values)

    def _is_known(self, name: str, message: str) -> bool:
        return _key(name, message) in self.violations


async def explore_command(
    options: ForeignOptions,
    scenarios: Sequence[Scenario],
    *,
    families: Sequence[str] = tuple(FAMILIES),
    runs: int = 0,
    seconds: float = 0.0,
    jobs: int = 1,
    stop: asyncio.Event | None = None,
    save: Path | None = None,
    replay: DescribeReplay | None = None,
    on_progress: OnProgress | None = None,
) -> ExplorationReport:
    """Explore a program and return the report; `runs` and `seconds` are a budget, 0 is unlimited.

    `stop` ends the exploration early when it is set, with a report of what was found. `save` is a directory
    for a replay file and the output of the program of each violation. `replay` returns the command that
    replays a run, for the report.
    """
    explorer = _Explorer(
        options, families=families, runs=runs, seconds=seconds, jobs=jobs, on_progress=on_progress
    )

    async def explore_all() -> None:
        for each in scenarios:
            if explorer.is_exhausted:
                explorer.is_complete = False
                return
            await explorer.explore(each)

    task = asyncio.create_task(explore_all())
    stopping = asyncio.create_task(stop.wait()) if stop is not None else None
    try:
        await asyncio.wait(
            {task} if stopping is None else {task, stopping}, return_when=asyncio.FIRST_COMPLETED
        )
        if not task.done():
            explorer.is_complete = False
            explorer.notes.append("the exploration was interrupted")
    finally:
        if stopping is not None:
            stopping.cancel()
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    if not task.cancelled():
        _raise_first(task.exception())
    found = explorer.violations
    if save is not None:
        _save(save, options.command, found)
    return ExplorationReport(
        operator=options.command,
        scenarios=[each.name for each in scenarios],
        families=[
            FamilyReport(
                name=name,
                points=each.points,
                runs=each.runs,
                skipped=each.points - each.runs,
                violations=sum(violation.family == name for violation in found),
            )
            for name, each in explorer.counts.items()
        ],
        violations=[_describe(each, replay) for each in found],
        runs=explorer.runs,
        seconds=time.monotonic() - explorer.started,
        complete=explorer.is_complete,
        notes=explorer.notes,
    )


def _key(name: str, message: str) -> ViolationKey:
    return key_of(Finding(name, message))


def _raise_first(error: BaseException | None) -> None:
    """Raise an error of a run; the group of its task only hides it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is not None:
        raise error


async def replay_command(
    options: ForeignOptions,
    scenarios: Sequence[Scenario],
    token: CommandToken,
    *,
    replay: DescribeReplay | None = None,
) -> ExplorationReport:
    """Repeat the run of a token, and return the report of what it violates."""
    started = time.monotonic()
    run, reference, scenario = await replay_run(options, scenarios, token)
    found = [
        _Violation(scenario=scenario, finding=each, run=run, reference=reference, options=options)
        for each in run.findings
    ]
    notes = []
    if run is not reference and not run.is_complete:
        notes.append("the point of the fault was not reached: the program or the scenario has changed")
    return ExplorationReport(
        operator=options.command,
        scenarios=[scenario.name],
        violations=[_describe(each, replay) for each in found],
        runs=1 if run is reference else 2,
        seconds=time.monotonic() - started,
        notes=notes,
    )


def _describe(violation: _Violation, replay: DescribeReplay | None) -> ViolationReport:
    run, name = violation.run, violation.finding.name
    expected = violation.reference.state if name == "final-state" and run.faults else None
    file = scenario_file(violation.scenario)
    return describe_run(
        run,
        violation.scenario,
        name=name,
        message=violation.finding.message,
        expected=expected,
        count=violation.count,
        replay=replay(CommandToken.of(run), violation.options) if replay is not None else "",
        test=generated_test(run, violation.options, scenario_file=file, finding=name),
    )


def _save(directory: Path, command: str, found: Sequence[_Violation]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for number, each in enumerate(found, 1):
        write_replay(
            directory / f"{number:02}-{each.finding.name}.json",
            each.run,
            command=command,
            scenario_file=scenario_file(each.scenario),
            finding=str(each.finding),
        )


__all__ = ["FAMILIES", "explore_command", "replay_command"]
