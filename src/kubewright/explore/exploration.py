"""`Exploration`: the result of an exploration, and its `Violation`s."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .oracles.names import LATE_WRITE
from .replay import RunToken
from .runs.run_result import Finding, Run

if TYPE_CHECKING:
    from .faults import Fault
    from .runs.line_coverage import FileCoverage

MAX_OTHERS = 5
"""Number of other runs with the same violation whose tokens are kept."""
ViolationKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ExplorationBudget:
    """Limits of an exploration; 0 means without a limit.

    With fewer runs than faults, families take turns, and the faults of each are spread over the scenario.
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
    family: str = ""
    """Empty if the reference run violates it."""
    run: Run
    reference: Run
    count: int = 1
    """Number of runs that violated the same."""
    order: int = 0
    """Number of the run in the enumeration; the first run with the violation is reported."""
    others: list[str] = field(default_factory=list)
    """Tokens of some other runs that violated the same."""
    tolerances: Sequence[str] = ()
    """Fields that were not compared, in addition to those of the scenario."""

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults of the run."""
        return self.run.faults

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.run.seed

    @property
    def key(self) -> ViolationKey:
        """Name and message without what differs between runs."""
        return key_of(Finding(self.name, self.message), self.run)

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

    def minimise(self, run: Run, reference: Run) -> None:
        """Replace the run by a smaller one."""
        self.run, self.reference = run, reference
        self.message = next(each.message for each in run.findings if each.name == self.name)


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
    notes: list[str] = field(default_factory=list)
    """What else was learned, one line each."""
    warnings: list[Violation] = field(default_factory=list)
    """What is not safe, and which nearly every operator does: late writes of a paused leader."""
    coverage: list[FileCoverage] = field(default_factory=list)
    """Reached lines of the operator, if requested."""
    unexplored: dict[str, list[str]] = field(default_factory=dict)
    """Faults that the budget left out, by family, as tokens."""
    is_exhausted: bool = False
    """Whether the budget, or the user, ended the exploration early."""
    _found: dict[tuple[str, ViolationKey], Violation] = field(default_factory=dict)
    """Violations by scenario and key."""

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

    def add_points(self, counts: dict[str, int]) -> None:
        """Add the number of faults of families."""
        for name, count in counts.items():
            self.points[name] = self.points.get(name, 0) + count

    def known(self, scenario: str) -> frozenset[ViolationKey]:
        """Return the keys of the violations that a scenario has already."""
        return frozenset(key for name, key in self._found if name == scenario)

    def violation(self, scenario: str, key: ViolationKey) -> Violation | None:
        """Return the violation with a key."""
        return self._found.get((scenario, key))

    def add_finding(
        self,
        finding: Finding,
        run: Run,
        reference: Run,
        *,
        family: str = "",
        order: int = 0,
        tolerances: Sequence[str] = (),
    ) -> None:
        """Add what a run has violated, to an equal violation of another run if there is one."""
        is_warning = finding.name == LATE_WRITE
        key = (LATE_WRITE, "") if is_warning else key_of(finding, run)
        known = self._found.get((run.scenario, key))
        if known is not None:
            known.add(finding, family, order, run)
            return
        self._found[run.scenario, key] = violation = Violation(
            name=finding.name,
            message=finding.message,
            scenario=run.scenario,
            family=family,
            run=run,
            reference=reference,
            order=order,
            tolerances=tolerances,
        )
        (self.warnings if is_warning else self.violations).append(violation)

    def finish(self, seconds: float) -> None:
        """Sort the violations by the order of their runs."""
        self.violations.sort(key=lambda each: each.order)
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class Progress:
    """State of an exploration while it runs."""

    scenario: str
    done: int
    total: int
    violations: int


def token_of(run: Run) -> RunToken:
    """Return the token that replays a run."""
    faults = tuple(each.named_in(run.trace) for each in run.faults)
    return RunToken(run.scenario, faults, run.seed, run.replicas, run.skipped_steps, run.variation)


def key_of(finding: Finding, run: Run) -> ViolationKey:
    """Return the key by which findings are grouped to violations.

    Numbers, and names that the server has generated, do not matter.
    """
    return finding.name, re.sub(r"\d+", "#", run.trace.general_text(finding.message))
