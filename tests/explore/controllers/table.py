"""`Explored`: a scenario, the controllers that it explores, and the families that apply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kubewright.explore import ExploredProgram, Scenario

FAMILIES = (
    "crash",
    "stale",
    "unobserved",
    "conflict",
    "timeout",
    "errors",
    "admission",
    "watch",
    "clock",
    "reorder",
)
"""All families that apply to controllers without external systems, leader election and older versions."""


@dataclass(frozen=True, slots=True)
class Explored:
    """A row of the table of explored controllers."""

    name: str
    factory: Callable[[], ExploredProgram]
    scenario: Scenario
    families: Sequence[str] = FAMILIES
