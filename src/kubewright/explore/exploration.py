"""`Exploration`: the result of an exploration, and its `Violation`s."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .replay import RunToken

if TYPE_CHECKING:
    from .faults import Fault
    from .line_coverage import FileCoverage
    from .run_result import Finding, Run

MAX_OTHERS = 5
"""Number of other runs with the same violation whose tokens are kept."""
ViolationKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ExplorationBudget:
    """Limits of an exploration; 0 means without a limit.

    With fewer runs than faults, the runs are spread evenly over the faults of each family.
    """

    runs: int = 0
    seconds: float = 0.0


@dataclass(slots=True, kw_only=True)
class Violation:
    """Something that was violated, with the smallest run that shows it."""

    name: str
    """Name of the invariant or check."""
    message: str
    scenario: str
    family: str
    """Empty if the reference run violates it."""
    run: Run
    reference: Run
    count: int = 1
    """Number of runs that violated the same."""
    order: int = 0
    """Number of the run in the enumeration; the first run with the violation is reported."""
    others: list[str] = field(default_factory=list)
    """Tokens of some other runs that violated the same."""

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults of the run."""
        return self.run.faults

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.run.seed

    @property
    def token(self) -> RunToken:
        """What replays the run."""
        return token_of(self.run)

    def add(self, finding: Finding, family: str, order: int, run: Run) -> None:
        """Add another run that violated the same."""
        self.count += 1
        other = run
        if order < self.order:
            other = self.run
            self.run, self.order, self.family, self.message = run, order, family, finding.message
        if len(self.others) < MAX_OTHERS:
            self.others.append(str(token_of(other)))


@dataclass(slots=True, kw_only=True)
class Exploration:
    """The result of an exploration."""

    violations: list[Violation] = field(default_factory=list)
    points: dict[str, int] = field(default_factory=dict)
    """Number of enumerated faults by family, and of pairs of them."""
    runs_by_family: dict[str, int] = field(default_factory=dict)
    runs: int = 0
    seconds: float = 0.0
    """Real seconds."""
    cpu_seconds: float = 0.0
    """CPU time of all runs."""
    references: dict[str, Run] = field(default_factory=dict)
    """Reference runs with one replica, by scenario."""
    nondeterministic: list[str] = field(default_factory=list)
    """Scenarios whose reference run had another trace when it was repeated."""
    coverage: list[FileCoverage] = field(default_factory=list)
    """Reached lines of the operator, if requested."""
    is_exhausted: bool = False
    """Whether the budget ended the exploration early."""

    @property
    def ok(self) -> bool:
        """Whether nothing was violated."""
        return not self.violations

    @property
    def fault_coverage(self) -> float:
        """Fraction of the enumerated faults that were run."""
        total = sum(self.points.values())
        return sum(self.runs_by_family.values()) / total if total else 1.0

    @property
    def runs_per_minute(self) -> float:
        """Runs per minute of real time."""
        return 60.0 * self.runs / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Progress:
    """State of an exploration while it runs."""

    scenario: str
    done: int
    total: int
    violations: int


def token_of(run: Run) -> RunToken:
    """Return the token that replays a run."""
    return RunToken(run.scenario, run.faults, run.seed, run.replicas, run.skipped_steps)


def key_of(finding: Finding) -> ViolationKey:
    """Return the key by which findings are grouped to violations: numbers in messages do not matter."""
    return finding.name, re.sub(r"\d+", "#", finding.message)


__all__ = ["Exploration", "ExplorationBudget", "Progress", "Violation", "ViolationKey", "key_of", "token_of"]
