"""Minimises a violation: the fewest steps of the scenario with which its faults still violate the same.

Without a step, the run has other points: `w5` may become `w3`. Each fault is therefore looked up again in the
reference run without the step, by its class and by what happens at its point (`create configmaps default/a`).
The first ones with the same violation replace the original. The second fault of a run may be at a point that
the reference run does not have; it keeps its number.

`minimise` is a generator that yields the runs it needs and receives their results, so that both drivers, one
with forked processes and one with programs in real time, can execute them.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import islice, product

from .families import enumerate_faults
from .faults import VIRTUAL, Fault, Plan, Timing
from .runs.run_result import Run

MAX_CANDIDATES = 4
"""Number of runs that are tried for each step that is left out."""
_ORDINAL = re.compile(r" \(\d+\)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A run to execute."""

    skip: tuple[int, ...]
    faults: Plan = ()
    reference: Run | None = None


Minimisation = Generator[RunRequest, Run | None, tuple[Run, Run]]
"""Receives `None` to end; returns the smallest run with the violation, and its reference run."""


def minimise(
    run: Run, reference: Run, name: str, *, timing: Timing = VIRTUAL, candidates: int = MAX_CANDIDATES
) -> Minimisation:
    """Minimise a run with the violation `name`."""
    for step in reversed(range(len(reference.steps))):
        skip = tuple(sorted((*run.skipped_steps, step)))
        shorter = yield RunRequest(skip=skip)
        if shorter is None:
            break
        if not shorter.ok:
            continue
        for plan in islice(_plans(run.faults, reference, shorter, timing), candidates):
            found = yield RunRequest(skip=skip, faults=plan, reference=shorter)
            if found is None:
                return run, reference
            if not found.missed and any(each.name == name for each in found.findings):
                run, reference = found, shorter
                break
    return run, reference


def _plans(faults: Plan, reference: Run, shorter: Run, timing: Timing) -> Iterator[Plan]:
    """Return plans of a shorter run that correspond to the faults of a run."""
    first, *others = faults
    later = [[*_candidates(each, reference, shorter, timing)] or [each] for each in others]
    plans = product(_candidates(first, reference, shorter, timing), *later)
    return (plan for plan in plans if len({each.place for each in plan}) == len(plan))


def _candidates(fault: Fault, reference: Run, shorter: Run, timing: Timing) -> Iterator[Fault]:
    """Return the faults of a shorter run that correspond to a fault of the reference run."""
    text = _text_at(fault, reference)
    for faults in enumerate_faults(shorter, list(fault.families), timing).values():
        for each in faults:
            is_same = (type(each), each.value) == (type(fault), fault.value)
            if is_same and _text_at(each, shorter) == text:
                # A second fault of a simulated run is at the point with its number in that run.
                yield each if timing.is_virtual else each.named_in(shorter.trace)


def _text_at(fault: Fault, run: Run) -> str:
    """Return what happens at the point of a fault, without how often it happened before."""
    event = fault.event_in(run.trace)
    return "" if event is None else _ORDINAL.sub("", event.name)
