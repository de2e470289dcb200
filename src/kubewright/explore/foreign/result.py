"""`ProgramRun`: the result of a run of a program."""

from __future__ import annotations

from dataclasses import dataclass, field

from kubewright.explore.faults import Fault
from kubewright.explore.run_result import Run

from .points import PointKey


@dataclass(slots=True, kw_only=True)
class ProgramRun(Run):
    """The result of a run, with what only runs of programs have."""

    names: dict[PointKey, str] = field(default_factory=dict)
    """Names of the points that were reached."""
    keys: tuple[PointKey, ...] = ()
    """Points of the faults."""
    generated: dict[str, str] = field(default_factory=dict)
    """Names that the server has generated, with what stands for them in keys."""
    injected: tuple[Fault, ...] = ()
    """Faults whose point was reached."""
    stale_reads: dict[str, bool] = field(default_factory=dict)
    """Points of lists that may be stale, and whether the resource has changed before."""
    watched_at_start: frozenset[str] = frozenset()
    """What the program watches before the first step."""
    watched: frozenset[str] = frozenset()
    """What the program watches at the end."""
    output: str = ""
    """Output of the program."""

    @property
    def is_complete(self) -> bool:
        """Whether all faults were injected."""
        return len(self.injected) == len(self.faults)


__all__ = ["ProgramRun"]
