"""Plans as text with rich: the owner tree with the fields that change, and a section for everything else.

Without a terminal there are no colours, and lines are not wrapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from .change_tree import (
    MARKS,
    ChangeNode,
    change_title,
    change_trees,
    headline,
    problem_sections,
    shown_value,
)
from .model import Plan, PlannedChange

_STYLES: Final = {"create": "green", "change": "yellow", "delete": "red", "recreate": "bold red"}
_PROBLEMS: Final = frozenset(
    (
        "Stored objects that do not fit in the new schema",
        "Missing permissions",
        "Blocked calls of external systems",
        "Errors",
        "Denied by the policy",
    )
)
MAX_FIELDS: Final = 20
MAX_LINES: Final = 30
"""Lines of a section that are printed; the other formats have all of them."""


def print_plan(plan: Plan, console: Console, *, all_changes: bool = False) -> None:
    """Print a plan; `all_changes`: also what the controllers of the cluster would do."""
    console.print(Text(f"Plan of {headline(plan)}", style="bold"), soft_wrap=True)
    shown = [each for each in plan.changes if all_changes or each.actor == "operator" or each.disruption]
    if shown:
        console.print()
        _print_nodes(change_trees(shown), console, 0)
    hidden = len(plan.changes) - len(shown)
    if hidden:
        text = f"{hidden} changes by controllers of the cluster follow; --all shows them"
        console.print(Text(f"\n{text}", style="dim"), soft_wrap=True)
    for title, lines in problem_sections(plan):
        console.print(Text(f"\n{title}", style="bold red" if title in _PROBLEMS else "bold"))
        for line in lines[:MAX_LINES]:
            console.print(Text(f"  {line}"), soft_wrap=True)
        if len(lines) > MAX_LINES:
            console.print(Text(f"  and {len(lines) - MAX_LINES} more", style="dim"))
    style = {0: "green", 2: "yellow"}.get(plan.exit_code, "red")
    seconds = f" (idle after {plan.seconds:.0f} virtual s)"
    console.print(Text(f"\n{plan.summary()}{seconds}", style=f"bold {style}"), soft_wrap=True)


def _print_nodes(nodes: Sequence[ChangeNode], console: Console, depth: int) -> None:
    for node in nodes:
        indent = "  " * depth
        change = node.change
        if change is None:
            console.print(Text(f"{indent}  {node.name}", style="dim"), soft_wrap=True)
        else:
            _print_change(change, console, indent)
        _print_nodes(node.children, console, depth + 1)


def _print_change(change: PlannedChange, console: Console, indent: str) -> None:
    line = Text(f"{indent}{MARKS[change.verb]} {change.name}", style=_STYLES[change.verb])
    line.append(f" {change_title(change)}", style="default")
    if change.actor == "cluster":
        line.append(" (by the cluster)", style="dim")
    if change.disruption:
        line.append(f"; {change.disruption}", style="bold red")
    if change.policy:
        line.append(f" [{change.policy}]", style="bold red" if change.policy == "denied" else "green")
    console.print(line, soft_wrap=True)
    for each in change.fields[:MAX_FIELDS]:
        text = f"{indent}    {each.path.lstrip('.')}: {shown_value(each.before)} -> {shown_value(each.after)}"
        console.print(Text(text, style="dim" if each.is_status else ""), soft_wrap=True)
    if len(change.fields) > MAX_FIELDS:
        console.print(Text(f"{indent}    and {len(change.fields) - MAX_FIELDS} more fields", style="dim"))
