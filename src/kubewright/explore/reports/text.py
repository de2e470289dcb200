"""Reports as plain text with rich: a table of the families, and for each violation its timeline.

Without a terminal there are no colours, and lines are not wrapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from .model import ExplorationReport, OwnerNode, TimelineEntry, ViolationReport
from .timeline import shorten

_STYLES: Final = {
    "fault": "bold yellow",
    "stale": "yellow",
    "error": "red",
    "problem": "bold red",
    "step": "cyan",
    "dim": "dim",
    "": "",
}
_CHANGE_STYLES: Final = {"added": "green", "removed": "red", "changed": "yellow", "": ""}
_CHANGE_MARKS: Final = {"added": "+ ", "removed": "- ", "changed": "~ ", "": ""}
MAX_UNEXPLORED: Final = 3
"""Number of faults of a family that are listed; the JSON report has all of them."""
_COLUMNS: Final = {"true": "TRUE", "saw": "SAW", "wrote": "WROTE"}


def print_report(report: ExplorationReport, console: Console) -> None:
    """Print a report."""
    for number, violation in enumerate(report.violations, 1):
        print_violation(violation, console, number=number)
    for note in report.notes:
        console.print(Text(note), soft_wrap=True)
    _print_families(report, console)
    count = len(report.violations)
    verdict = (
        Text(f"{count} violation{'s' if count != 1 else ''} found", style="bold red")
        if count
        else Text("no violations", style="bold green")
    )
    rate = f", {report.runs / report.seconds * 60:.0f} per minute" if report.seconds else ""
    limit = "" if report.complete else "; not every fault was explored"
    console.print(
        Text.assemble(verdict, f" in {report.runs} runs ({report.seconds:.1f} s{rate}){limit}"),
        soft_wrap=True,
    )


def _print_families(report: ExplorationReport, console: Console) -> None:
    if not report.families:
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("FAMILY")
    for title in ("POINTS", "RUNS", "SKIPPED", "VIOLATIONS"):
        table.add_column(title, justify="right")
    for each in report.families:
        table.add_row(
            each.name,
            str(each.points),
            str(each.runs),
            str(each.skipped),
            Text(str(each.violations), style="bold red" if each.violations else ""),
        )
    console.print(table)
    for each in report.families:
        if each.unexplored:
            shown = ", ".join(each.unexplored[:MAX_UNEXPLORED])
            more = ", ..." if len(each.unexplored) > MAX_UNEXPLORED else ""
            text = f"not explored: {len(each.unexplored)} of {each.points} {each.name}: {shown}{more}"
            console.print(Text(text), soft_wrap=True)


def print_violation(violation: ViolationReport, console: Console, *, number: int = 0) -> None:
    """Print one violation with its timeline, owner graphs, replay command and test."""
    title = f"violation {number}: {violation.rule}" if number else violation.rule
    console.print(Text(title, style="bold red"), soft_wrap=True)
    _print_line(
        console,
        "scenario",
        f"{violation.scenario} ({violation.source})" if violation.source else violation.scenario,
    )
    for problem in violation.problems:
        _print_line(console, "problem", problem)
    for sentence in violation.explanation or ["no fault is needed"]:
        _print_line(console, "fault", sentence)
    if violation.count > 1:
        _print_line(console, "found in", f"{violation.count} runs")
    console.print()
    _print_timeline(violation.timeline, console)
    if violation.before or violation.after:
        console.print()
        console.print(_tree(f"owners {violation.before_title}", violation.before))
        console.print(_tree("owners after", violation.after))
    if violation.replay:
        console.print()
        console.print(Text("replay:", style="bold"), Text(violation.replay), soft_wrap=True)
    if violation.test:
        console.print()
        console.print(Text("test:", style="bold"))
        console.print(Text(violation.test), soft_wrap=True)
    console.print()


def _print_line(console: Console, title: str, text: str) -> None:
    console.print(Text.assemble((f"  {title + ':':<10}", "bold"), text), soft_wrap=True)


def _print_timeline(entries: Sequence[TimelineEntry], console: Console) -> None:
    shown = shorten(entries)
    for each in shown:
        where = _short_process(each.process)
        detail = f"  ({each.detail})" if each.detail else ""
        console.print(
            Text.assemble(
                (f"  {each.time:>9.3f}s ", "dim"),
                (f"{where:<5}", "dim"),
                (f"{_COLUMNS[each.column]:<6}", "bold" if each.column == "wrote" else ""),
                (f"{each.text}{detail}", _STYLES[each.emphasis]),
            ),
            soft_wrap=True,
        )
    if len(shown) < len(entries):
        console.print(
            Text(f"  ({len(entries) - len(shown)} more events are in the JSON report)", style="dim")
        )


def _short_process(name: str) -> str:
    """Return `#2` for the second start of the first replica, `2#1` for the first start of the second."""
    return name.removeprefix("operator-").removeprefix("1") if name.startswith("operator-") else ""


def _tree(title: str, nodes: Sequence[OwnerNode]) -> Tree:
    tree = Tree(Text(title, style="bold"))
    for each in nodes:
        _add_node(tree, each)
    if not nodes:
        tree.add(Text("no objects", style="dim"))
    return tree


def _add_node(tree: Tree, node: OwnerNode) -> None:
    note = f"  ({node.note})" if node.note else ""
    branch = tree.add(
        Text(f"{_CHANGE_MARKS[node.change]}{node.text}{note}", style=_CHANGE_STYLES[node.change])
    )
    for each in node.children:
        _add_node(branch, each)
