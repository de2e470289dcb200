"""The changes of a plan as trees of owners, for reports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kubewright.rehearse.snapshot import ObjectName

from .model import Plan, PlannedChange
from .object_changes import MISSING

MARKS = {"create": "+", "change": "~", "delete": "-", "recreate": "±"}
MAX_VALUE = 100


@dataclass(slots=True)
class ChangeNode:
    """An object, with its change if there is one, and the objects that it owns."""

    name: ObjectName
    change: PlannedChange | None = None
    children: list[ChangeNode] = field(default_factory=list)


def change_trees(changes: Iterable[PlannedChange]) -> list[ChangeNode]:
    """Return the owners without an owner, with the changed objects below them, in the order of changes."""
    nodes: dict[ObjectName, ChangeNode] = {}
    roots: list[ChangeNode] = []

    def node(path: tuple[ObjectName, ...]) -> ChangeNode:
        name, *owners = path
        found = nodes.get(name)
        if found is None:
            found = nodes[name] = ChangeNode(name)
            (node(tuple(owners)).children if owners else roots).append(found)
        return found

    for change in changes:
        node((change.name, *change.owners)).change = change
    return roots


def shown_value(value: Any, limit: int = MAX_VALUE) -> str:
    """Return a value in one line, shortened."""
    import json

    if value == MISSING:
        return "(none)"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def change_title(change: PlannedChange) -> str:
    """Return the verb of a change in words."""
    if change.verb == "change":
        return "status" if change.is_status_only else "changed"
    return {"create": "created", "delete": "deleted", "recreate": "deleted and created again"}[change.verb]


def headline(plan: Plan) -> str:
    """Return what was planned in one line."""
    against = f" instead of {plan.against}" if plan.against else ""
    return (
        f"{plan.operator}{against} on {plan.source or 'the snapshot'} "
        f"(Kubernetes {plan.kubernetes_version}, {plan.objects} objects)"
    )


def problem_sections(plan: Plan) -> list[tuple[str, list[str]]]:
    """Return the titles and lines of what is not a change of an object, without empty sections."""
    sections: list[tuple[str, list[str]]] = [
        (
            "Order of disruptive changes",
            [
                f"after {each.seconds:.1f} s: {each.name}: {each.disruption}"
                for each in sorted(plan.disruptions, key=lambda each: each.order)
            ],
        ),
        (
            "Schema",
            [
                f"{'breaking: ' if each.is_breaking else ''}"
                f"{' '.join(filter(None, (each.definition, each.version, each.path)))}: {each.reason}"
                for each in plan.schema
            ],
        ),
        (
            "Stored objects that do not fit in the new schema",
            [
                f"{each.object} ({each.version}): "
                + "; ".join((*each.errors, *(f"{name} is removed by the next write" for name in each.lost)))
                for each in plan.rejected
            ],
        ),
        ("Missing permissions", [str(each) for each in plan.permissions]),
        ("Blocked calls of external systems", [f"{each}: no fake is declared" for each in plan.calls]),
        ("Errors", list(plan.errors)),
        ("Waits for", [f"{each.object}: {each.message}" for each in plan.waiting]),
        (
            "Conditions",
            [
                f"{each.object}: {each.type} {each.before or '(none)'} -> {each.after or '(none)'}"
                + (f", {each.reason}: {each.message}" if each.reason else "")
                for each in plan.conditions
            ],
        ),
        (
            "Events",
            [
                f"{each.type} {each.object}: {each.reason}: {each.message}"
                + (f" (x{each.count})" if each.count > 1 else "")
                for each in plan.events
            ],
        ),
        ("Denied by the policy", [f"{each.verb} {each.name}" for each in plan.denied]),
        ("Not covered", list(plan.notes)),
    ]
    return [(title, lines) for title, lines in sections if lines]
