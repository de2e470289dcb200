"""The report of an exploration: coverage of the families, and each violation with its replay and test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kubewright.explore.replay import generated_test

from .model import ExplorationReport, FamilyReport, ViolationReport
from .run_report import describe_run, relative_path

if TYPE_CHECKING:
    from kubewright.explore.exploration import Exploration, Violation
    from kubewright.explore.scenarios import Scenario


def report_of(
    result: Exploration, *, operator: str, scenarios: Sequence[Scenario], seed: int = 0
) -> ExplorationReport:
    """Return the report of an exploration; `operator` is what the command line has, `module:operator`."""
    families = [
        FamilyReport(
            name=name,
            points=points,
            runs=result.runs_by_family.get(name, 0),
            skipped=points - result.runs_by_family.get(name, 0),
            violations=sum(each.family == name for each in result.violations),
        )
        for name, points in result.points.items()
    ]
    by_name = {each.name: each for each in scenarios}
    coverage: dict[str, Any] = {
        relative_path(each.file): {"reached": each.reached, "lines": each.total, "missing": each.missing}
        for each in result.coverage
    }
    return ExplorationReport(
        operator=operator,
        seed=seed,
        scenarios=[str(each) for each in scenarios],
        families=families,
        violations=[_violation(each, operator, by_name[each.scenario]) for each in result.violations],
        runs=result.runs,
        seconds=result.seconds,
        complete=not result.is_exhausted,
        coverage=coverage,
    )


def scenario_file(scenario: Scenario) -> str:
    """Return the file of a scenario, without the line or document."""
    source = relative_path(scenario.source)
    path, colon, line = source.rpartition(":")
    return path if colon and line.split()[0].isdecimal() else source


def _violation(violation: Violation, operator: str, scenario: Scenario) -> ViolationReport:
    file, token = scenario_file(scenario), violation.token
    return describe_run(
        violation.run,
        scenario,
        name=violation.name,
        message=violation.message,
        expected=violation.reference.state if violation.name == "final-state" else None,
        count=violation.count,
        replay=f"kubewright explore {operator} --scenario {file} --replay '{token}'",
        test=generated_test(token, operator=operator, scenario_file=file, finding=violation.name),
    )


__all__ = ["report_of", "scenario_file"]
