"""`Run`: the result of a run, which can be sent to another Python process, and its `Finding`s."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from .trace import Trace

if TYPE_CHECKING:
    from kubewright.explore.faults import Fault
    from kubewright.explore.final_state import NormalisedState
    from kubewright.explore.state import ClusterState


@dataclass(frozen=True, slots=True)
class Finding:
    """What a run violated: the name of an invariant or of a check, and what was wrong."""

    name: str
    message: str
    time: float = 0.0
    event: int = 0
    """Number of the last event of the trace at that time."""

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"


@dataclass(slots=True, kw_only=True)
class Run:
    """The result of a run."""

    scenario: str
    seed: int
    faults: tuple[Fault, ...] = ()
    missed: tuple[Fault, ...] = ()
    """Faults whose point was not reached."""
    skipped_steps: tuple[int, ...] = ()
    replicas: int = 1
    variation: str = ""
    """Text of the variation (`oracles`); empty for a run of the scenario as it is."""
    random: tuple[str, ...] = ()
    """Tolerances for fields with random values, which the variation `control` has found."""
    periodic: tuple[str, ...] = ()
    """Tolerances for what changes while nothing happens."""
    random_values: tuple[str, ...] = ()
    """Random values of Secrets, as `namespace/name:key`."""
    findings: list[Finding] = field(default_factory=list)
    trace: Trace = field(default_factory=Trace)
    final_state: NormalisedState = field(default_factory=dict)
    step_ends: list[float] = field(default_factory=list)
    """Virtual time at which each step ended."""
    steps: list[str] = field(default_factory=list)
    """Descriptions of the steps."""
    end: float = 0.0
    """Virtual time at which the run ended."""
    converged_at: float = 0.0
    """Virtual time of the last change before the quiet period."""
    writes: int = 0
    requests: int = 0
    switches: int = 0
    """Task switches."""
    errors: list[str] = field(default_factory=list)
    """Types of the exceptions that were logged."""
    cpu_seconds: float = 0.0
    uses_threads: bool = False
    """Whether the operator has plain functions, which run in threads."""
    state: ClusterState | None = None
    """The final state, with the earlier ones; without requests if the run was in another Python process."""
    state_at_fault: ClusterState | None = None
    """The state before the first fault."""
    output: str = ""
    """Output of the program, if it is not an operator of Kubewright."""
    lines: dict[str, list[int]] = field(default_factory=dict)
    """Executed lines of the operator by file, if they were recorded."""

    @property
    def ok(self) -> bool:
        """Whether nothing was violated."""
        return not self.findings

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields for another Python process; the chain of earlier states becomes a list."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        states = [] if self.state is None else [self.state, *self.state.earlier()]
        values["state"] = [_transferable(each) for each in states]
        if self.state_at_fault is not None:
            values["state_at_fault"] = _transferable(self.state_at_fault)
        return values

    def __setstate__(self, values: dict[str, Any]) -> None:
        """Set the fields of a run of another Python process."""
        state = None
        for each in reversed(values["state"]):
            state = replace(each, previous=state)
        for name, value in {**values, "state": state}.items():
            setattr(self, name, value)

    def without_details(self) -> Run:
        """Return the run without what only the explanation of a violation needs."""
        return replace(self, trace=Trace(), final_state={}, state=None, state_at_fault=None)

    def add(self, name: str, message: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(name, message, self.end, max(len(self.trace) - 1, 0)))


def _transferable(state: ClusterState) -> ClusterState:
    """Return a state without references to other states, requests and rules."""
    return replace(state, previous=None, converged=None, declared=(), _requests=(), _request_count=0)
