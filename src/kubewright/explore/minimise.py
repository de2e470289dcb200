"""Minimises a violation: the fewest steps of the scenario with which its faults still violate the same.

Without a step, the run has other points: `w5` may become `w3`. Each fault is therefore looked up again in the
reference run without the step, by its action and by what happens at its point (`create configmaps
default/a`). The first ones with the same violation replace the original. The second fault of a run may be at
a point that the reference run does not have; it keeps its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product
from typing import TYPE_CHECKING

from .families import ALL, enumerate_faults
from .faults import Fault, Plan

if TYPE_CHECKING:
    from .run import Run
    from .session import Session

MAX_CANDIDATES = 4
"""Number of runs that are tried for each step that is left out."""


def minimise(session: Session, reference: Run, run: Run, name: str) -> tuple[Run, Run]:
    """Return the smallest run with the same violation that was found, and its reference run."""
    for step in reversed(range(len(reference.steps))):
        skip = tuple(sorted((*run.skipped_steps, step)))
        shorter = session.execute(skip=skip)
        if not shorter.ok:
            continue
        for plan in _plans(run.faults, reference, shorter):
            found = session.execute(plan, skip=skip, reference=shorter)
            if any(each.name == name for each in found.findings):
                run, reference = found, shorter
                break
    return run, reference


def _plans(faults: Plan, reference: Run, shorter: Run) -> Iterator[Plan]:
    """Return plans of a shorter run that correspond to the faults of a run."""
    first, *others = faults
    later = [[*_candidates(each, reference, shorter)] or [each] for each in others]
    plans = product(_candidates(first, reference, shorter), *later)
    distinct = (plan for plan in plans if len({each.point for each in plan}) == len(plan))
    return islice(distinct, MAX_CANDIDATES)


def _candidates(fault: Fault, reference: Run, shorter: Run) -> Iterator[Fault]:
    """Return the faults of a shorter run that correspond to a fault of the reference run."""
    text = _text_at(reference, fault.point)
    names = [name for name in ALL if name not in ("leader", "upgrade")]
    if fault.action in ("pause", "lease-lost"):
        names = ["leader"]
    elif fault.action == "upgrade":
        names = ["upgrade"]
    count = 0
    for faults in enumerate_faults(shorter, names).values():
        for each in faults:
            is_same = (each.action, each.value) == (fault.action, fault.value)
            if is_same and _text_at(shorter, each.point) == text:
                yield each
                count += 1
                if count == MAX_CANDIDATES:
                    return


def _text_at(run: Run, point: str) -> str:
    return next((each.text for each in run.trace.events if each.point == point), "")


__all__ = ["minimise"]
