"""What a report contains, independent of how it is printed.

`ExplorationReport.to_dict` is the JSON form; its fields are part of the public interface.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

Column = Literal["true", "saw", "wrote"]
"""Columns of a timeline: what was true in the store, what the operator received, what it wrote."""
Emphasis = Literal["", "fault", "stale", "error", "problem", "step", "dim"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """One line of a timeline."""

    number: int
    """Number of the event in the trace."""
    time: float
    """Simulated seconds since the start of the run."""
    process: str
    """`operator-1#2` is the second start of the first replica; `scenario`, or empty for the control plane."""
    column: Column
    text: str
    detail: str = ""
    """What else is known, such as the current revision beside a stale one."""
    point: str = ""
    emphasis: Emphasis = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerNode:
    """An object in an owner graph, with its children."""

    text: str
    change: Literal["", "added", "removed", "changed"] = ""
    """Difference to the other graph."""
    note: str = ""
    children: Sequence[OwnerNode] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ViolationReport:
    """A violation, minimised and explained."""

    scenario: str
    source: str
    """File of the scenario."""
    rule: str
    """The invariant, or what else was violated."""
    problems: Sequence[str]
    faults: Sequence[str]
    """Faults in their text form, such as `crash-after@w5`; empty if the bug needs none."""
    explanation: Sequence[str] = ()
    """What the faults do, one sentence each."""
    steps: Sequence[str] = ()
    """Steps of the scenario that are necessary."""
    timeline: Sequence[TimelineEntry] = ()
    before: Sequence[OwnerNode] = ()
    """Owner graph before the first fault, or of the reference run."""
    before_title: str = "before"
    after: Sequence[OwnerNode] = ()
    """Owner graph when the violation was found."""
    replay: str = ""
    """Command that repeats the run."""
    test: str = ""
    """A pytest test that repeats the run."""
    count: int = 1
    """Number of runs with the same violation."""
    family: str = ""
    """The fault family; empty if the reference run violates it."""
    key: str = ""
    """The problem without numbers and generated names, which differ between runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyReport:
    """Coverage of one fault family."""

    name: str
    points: int = 0
    """Fault points of the reference run."""
    runs: int = 0
    skipped: int = 0
    """Runs that are equivalent to others, or that the budget did not allow."""
    violations: int = 0
    unexplored: Sequence[str] = ()
    """Faults that the budget left out, as tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorationReport:
    """The result of an exploration."""

    operator: str
    seed: int = 0
    scenarios: Sequence[str] = ()
    families: Sequence[FamilyReport] = ()
    violations: Sequence[ViolationReport] = ()
    runs: int = 0
    seconds: float = 0.0
    """Wall-clock seconds."""
    complete: bool = True
    """Whether every run was made that the families enumerate."""
    nondeterministic: Sequence[str] = ()
    """Scenarios whose reference run had another trace when it was repeated."""
    notes: Sequence[str] = ()
    """What else was learned, one line each."""
    coverage: Mapping[str, str] = field(default_factory=dict)
    """Lines of the operator that the runs reached, by file."""

    @property
    def exit_code(self) -> int:
        """1 if something was violated, 3 if the budget left out faults, and 0 otherwise."""
        if self.violations:
            return 1
        return 0 if self.complete else 3

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        result: dict[str, Any] = msgspec.to_builtins(self)
        return result

    def to_json(self) -> str:
        """Return the report as JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"
