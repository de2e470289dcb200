"""Text output of the commands."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tests.conformance.known import StepID
from tests.conformance.runner import StepResult


def describe(step: StepResult, level: int, most: int = 8) -> str:
    """A failing step and its differences up to a level."""
    shown = [each for each in step.differences if each.level <= level]
    lines = [f"FAIL {step.label}"]
    lines += [f"       L{each.level} {each.path}: {each.text}" for each in shown[:most]]
    if len(shown) > most:
        lines.append(f"       ... {len(shown) - most} more")
    return "\n".join(lines)


def table(steps: Iterable[StepResult], known: Collection[StepID]) -> str:
    """Steps per category that pass at each level."""
    header = ("category", "cases", "steps", "L1", "L2", "L3", "known")
    rows: dict[str, list[int]] = {}
    cases: dict[str, set[str]] = {}
    for step in steps:
        category = step.case.partition("/")[0]
        row = rows.setdefault(category, [0] * 6)
        cases.setdefault(category, set()).add(step.case)
        row[1] += 1
        for level in (1, 2, 3):
            row[1 + level] += step.level >= level
        row[5] += (step.case, step.step) in known
    for category, names in cases.items():
        rows[category][0] = len(names)
    total = [sum(column) for column in zip(*rows.values(), strict=True)] or [0] * 6
    lines = [f"{header[0]:<26}" + "".join(f"{each:>8}" for each in header[1:])]
    for category, row in [*sorted(rows.items()), ("total", total)]:
        lines.append(f"{category:<26}" + "".join(f"{each:>8}" for each in row))
    return "\n".join(lines)
