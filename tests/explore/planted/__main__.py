"""Explore the planted operators with default settings and print a row for each.

    python -m tests.explore.planted                  # all bugs and their twins
    python -m tests.explore.planted record_leaked    # some of them
    python -m tests.explore.planted --table          # the table of docs/explore.md

The invariants of the scenarios are left out: what is found needs no expectation.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from pathlib import Path

from tests.explore.planted.catalogue import NAMES, Planted, load

from kubewright.explore import Exploration, explore, explore_specs
from kubewright.explore.families import all_families

DOCS = Path(__file__).parents[3] / "docs" / "explore.md"
BEGIN, END = "<!-- planted bugs: begin -->", "<!-- planted bugs: end -->"


@dataclass(frozen=True, kw_only=True)
class Row:
    """What exploration has found in an operator with a bug, and in its twin."""

    name: str
    planted: Planted
    found_by: list[str]
    """Check and family of each violation."""
    runs: int
    cpu: float
    alarms: list[str]
    """Violations in the twin."""

    def line(self) -> str:
        """Return a row of the table."""
        found = ", ".join(f"`{each}`" for each in self.found_by[:3]) or "-"
        name = self.name.replace("_", " ")
        return f"| {self.planted.topic} | {name} | {found} | {self.runs} |"


def explore_bug(name: str, selected: tuple[str, ...] = all_families()) -> Row:
    """Explore an operator with a bug, and its twin."""
    planted = load(name)
    scenario = replace(planted.scenario, invariants=())
    if "specs" in planted.families:
        report = explore_specs(lambda: planted.build(False), [scenario])
        twin = explore_specs(lambda: planted.build(True), [scenario])
        found = [f"--specs: {each.rule}" for each in report.violations]
        alarms = [f"{each.rule}: {each.problems}" for each in twin.violations]
        return Row(name=name, planted=planted, found_by=found, runs=report.runs, cpu=0.0, alarms=alarms)
    result = explore(lambda: planted.build(False), [scenario], families=selected)
    twin_result = explore(lambda: planted.build(True), [scenario], families=selected)
    return Row(
        name=name,
        planted=planted,
        found_by=_checks(result),
        runs=result.runs,
        cpu=result.cpu_seconds,
        alarms=[f"{each.token} {each.name}: {each.message}" for each in twin_result.violations],
    )


def _checks(result: Exploration) -> list[str]:
    return list(
        dict.fromkeys(f"{each.name} ({each.family or 'reference run'})" for each in result.violations)
    )


def main() -> int:
    """Explore, print, and return 1 if a bug was not found or a twin has an alarm."""
    parser = argparse.ArgumentParser(description="Explore the planted operators with default settings.")
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--family", action="append", help="explore only this family; repeat it")
    parser.add_argument("--table", action="store_true", help="write the table of docs/explore.md")
    options = parser.parse_args()
    rows = []
    for name in options.names:
        load(name)
    for name in options.names:
        began = time.monotonic()
        row = explore_bug(name, tuple(options.family or all_families()))
        rows.append(row)
        verdict = "found" if row.found_by else "MISSED"
        seconds = time.monotonic() - began
        print(
            f"{verdict:6} {name:34} {row.runs:4} runs {row.cpu:5.1f} s CPU {seconds:6.1f} s  {row.found_by}"
        )
        for each in row.alarms:
            print(f"       ALARM in the twin: {each[:300]}")
    found, clean = sum(bool(each.found_by) for each in rows), sum(not each.alarms for each in rows)
    print(f"{found} of {len(rows)} bugs found, {clean} of {len(rows)} twins without an alarm")
    if options.table:
        _write(sorted(rows, key=lambda each: (each.planted.topic, each.name)))
    return 0 if found == clean == len(rows) else 1


def _write(rows: list[Row]) -> None:
    lines = [
        "| class | bug | found by | runs |",
        "|---|---|---|---|",
        *(each.line() for each in rows),
    ]
    text = DOCS.read_text()
    head, rest = text.split(BEGIN)
    DOCS.write_text("\n".join([head + BEGIN, *lines, END + rest.split(END)[1]]))


if __name__ == "__main__":
    raise SystemExit(main())
