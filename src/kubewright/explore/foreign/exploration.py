"""The faults of a program, enumerated from a recorded reference run, and their confirmation.

Real time is not reproducible: a violation counts only if a second run with the same fault violates the same.
Runs are ordered so that a small budget explores each family: the first point of each, then the second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Final

from kubewright.explore.faults import Fault
from kubewright.explore.reports.model import ExplorationReport, FamilyReport, ViolationReport
from kubewright.explore.reports.run_report import describe_run
from kubewright.explore.trace import Trace, TraceEvent

from .foreign_run import ForeignOptions, run_command

if TYPE_CHECKING:
    from kubewright.explore.run import Finding, Run
    from kubewright.explore.scenarios import Scenario

HOLD_SECONDS = 2.0
LAG_SECONDS = 5.0
_UPDATES: Final = frozenset(("update", "patch", "delete"))


def crash(trace: Trace) -> Iterator[Fault]:
    """Kill the program after and before each write."""
    for event in trace.points("write"):
        yield Fault("crash-after", event.point)
    for event in trace.points("write"):
        yield Fault("crash-before", event.point)


def timeout(trace: Trace) -> Iterator[Fault]:
    """Respond 504 to each write, with and without its effect."""
    for event in trace.points("write"):
        yield Fault("lost-response", event.point)
        yield Fault("lost-request", event.point)


def conflict(trace: Trace) -> Iterator[Fault]:
    """Respond 409 Conflict to each update, patch and delete."""
    for event in trace.points("write"):
        if _verb(event) in _UPDATES:
            yield Fault("error", event.point, "conflict")


def errors(trace: Trace) -> Iterator[Fault]:
    """Respond 500 and 503 to each write and read."""
    for kind in ("write", "read"):
        for event in trace.points(kind):
            yield Fault("error", event.point, "internal")
            yield Fault("error", event.point, "unavailable")


def stale(trace: Trace) -> Iterator[Fault]:
    """Delay each watch event, and kill the program and serve lists from before each write."""
    for event in trace.points("delivery"):
        yield Fault("hold", event.point, seconds=HOLD_SECONDS)
    for event in trace.points("write"):
        yield Fault("stale", event.point, seconds=LAG_SECONDS)


def watch(trace: Trace) -> Iterator[Fault]:
    """End each watch with 410 Gone, or break it, before each event."""
    for event in trace.points("delivery"):
        yield Fault("expired", event.point)
        yield Fault("reset", event.point)


FAMILIES: Final[dict[str, Callable[[Trace], Iterable[Fault]]]] = {
    "crash": crash,
    "timeout": timeout,
    "conflict": conflict,
    "errors": errors,
    "stale": stale,
    "watch": watch,
}
"""Families that need no control of the program."""

OnProgress = Callable[[str, int, int, int], None]
"""Receives the scenario, the numbers of runs that were made and that are planned, and of violations."""


async def explore_command(
    options: ForeignOptions,
    scenarios: Sequence[Scenario],
    *,
    families: Sequence[str] = tuple(FAMILIES),
    runs: int = 0,
    seconds: float = 0.0,
    replay: Callable[[Run], str] | None = None,
    on_progress: OnProgress | None = None,
) -> ExplorationReport:
    """Explore a program and return the report; `runs` and `seconds` are a budget, 0 is unlimited."""
    started = time.monotonic()
    found: list[ViolationReport] = []
    counts = {name: [0, 0, 0] for name in families}
    total = 0
    complete = True
    for scenario in scenarios:
        reference = await run_command(options, scenario)
        total += 1
        if reference.findings:
            found += [_describe(reference, each, scenario, None, replay) for each in reference.findings]
            continue
        planned = {name: list(FAMILIES[name](reference.trace)) for name in families}
        for name, faults in planned.items():
            counts[name][0] += len(faults)
        done: set[tuple[str, str]] = set()
        queue = list(_interleaved(planned))
        for number, (name, fault) in enumerate(queue):
            if (runs and total >= runs) or (seconds and time.monotonic() - started > seconds):
                complete = False
                break
            run = await run_command(options, scenario, faults=[fault], reference=reference)
            total += 1
            counts[name][1] += 1
            new = [each for each in run.findings if (each.name, each.message) not in done]
            if new:
                again = await run_command(options, scenario, faults=[fault], reference=reference)
                total += 1
                confirmed = {each.name for each in again.findings}
                for each in new:
                    if each.name in confirmed:
                        done.add((each.name, each.message))
                        counts[name][2] += 1
                        found.append(_describe(run, each, scenario, reference, replay))
            if on_progress is not None:
                on_progress(scenario.name, number + 1, len(queue), len(found))
    return ExplorationReport(
        operator=options.command,
        scenarios=[each.name for each in scenarios],
        families=[
            FamilyReport(name=name, points=points, runs=made, skipped=points - made, violations=violations)
            for name, (points, made, violations) in counts.items()
        ],
        violations=found,
        runs=total,
        seconds=time.monotonic() - started,
        complete=complete,
    )


async def replay_command(
    options: ForeignOptions,
    scenario: Scenario,
    faults: Sequence[Fault],
    *,
    replay: Callable[[Run], str] | None = None,
) -> list[ViolationReport]:
    """Run a scenario with faults, and return what it violates."""
    reference = await run_command(options, scenario)
    run = await run_command(options, scenario, faults=faults, reference=reference) if faults else reference
    return [_describe(run, each, scenario, reference, replay) for each in run.findings]


def _describe(
    run: Run,
    finding: Finding,
    scenario: Scenario,
    reference: Run | None,
    replay: Callable[[Run], str] | None,
) -> ViolationReport:
    is_compared = finding.name == "final-state" and reference is not None
    return describe_run(
        run,
        scenario,
        name=finding.name,
        message=finding.message,
        expected=reference.state if is_compared and reference is not None else None,
        replay=replay(run) if replay is not None else "",
    )


def _interleaved(planned: dict[str, list[Fault]]) -> Iterator[tuple[str, Fault]]:
    """Return the first fault of each family, then the second of each, and so on."""
    rows = zip_longest(*([(name, fault) for fault in faults] for name, faults in planned.items()))
    return (each for each in chain.from_iterable(rows) if each is not None)


def _verb(event: TraceEvent) -> str:
    return event.text.partition(" ")[0]


__all__ = ["FAMILIES", "explore_command", "replay_command"]
