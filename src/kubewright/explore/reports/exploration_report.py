"""The report of an exploration: coverage of the families, and each violation with its replay and test."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubewright.explore.subjects import Subject, generated_test, replay_command

from .model import ExplorationReport, FamilyReport, ViolationReport
from .run_report import describe_run, relative_path

if TYPE_CHECKING:
    from kubewright.explore.exploration import Exploration, Violation
    from kubewright.explore.scenarios.scenarios import Scenario


def report_of(
    result: Exploration, subject: Subject, *, scenarios: Sequence[Scenario], seed: int = 0
) -> ExplorationReport:
    """Return the report of an exploration."""
    families = [
        FamilyReport(
            name=name,
            points=points,
            runs=result.runs_by_family.get(name, 0),
            skipped=points - result.runs_by_family.get(name, 0),
            violations=sum(each.family == name for each in result.violations),
            unexplored=result.unexplored.get(name, ()),
        )
        for name, points in result.points.items()
    ]
    by_name = {each.name: each for each in scenarios}
    coverage: dict[str, Any] = {
        relative_path(each.file): {"reached": each.reached, "lines": each.total, "missing": each.missing}
        for each in result.coverage
    }
    return ExplorationReport(
        operator=subject.name,
        seed=seed,
        scenarios=[str(each) for each in scenarios],
        families=families,
        violations=[_violation(each, subject, by_name[each.scenario]) for each in result.violations],
        runs=result.runs,
        seconds=result.seconds,
        complete=not result.is_exhausted,
        nondeterministic=result.nondeterministic,
        notes=result.notes,
        coverage=coverage,
    )


def scenario_file(scenario: Scenario) -> str:
    """Return the file of a scenario for commands and tests, relative to the current directory if below it."""
    relative = os.path.relpath(scenario.file)
    is_below = scenario.file.startswith("/") and not relative.startswith("..")
    return relative if is_below else scenario.file


def save_replays(
    directory: Path, result: Exploration, subject: Subject, *, scenarios: Sequence[Scenario]
) -> None:
    """Write a replay file for each violation, and the output of a program beside it."""
    directory.mkdir(parents=True, exist_ok=True)
    files = {each.name: scenario_file(each) for each in scenarios}
    for number, each in enumerate(result.violations, 1):
        path = directory / f"{number:02}-{each.name}.json"
        replay = subject.replay(each, files[each.scenario])
        replay.write(path)
        if replay.command:
            path.with_suffix(".log").write_text(each.run.output)


def _violation(violation: Violation, subject: Subject, scenario: Scenario) -> ViolationReport:
    file, token, tolerances = scenario_file(scenario), violation.token, violation.tolerances
    is_compared = violation.name == "final-state" and bool(violation.faults)
    described = describe_run(
        violation.run,
        scenario,
        name=violation.name,
        message=violation.message,
        expected=violation.reference.state if is_compared else None,
        count=violation.count,
        replay=replay_command(subject, token, scenario_file=file, tolerances=tolerances),
        test=generated_test(
            subject, token, scenario_file=file, finding=violation.name, tolerances=tolerances
        ),
    )
    return replace(described, family=violation.family, key=violation.key[1])
