"""Fault families: every fault that a reference run offers, by what goes wrong.

The faults themselves declare the families to which they belong, and what they contribute to each
(`kubewright.explore.faults`). Most families are explored with one replica; `leader` is explored in runs with
two replicas and leader election, `upgrade` in runs that begin with an older version of the operator. Faults
of a program (`foreign`) are those that do not need control of its event loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Final, TypeVar

from .faults import VIRTUAL, Fault, Timing

if TYPE_CHECKING:
    from .runs.run_result import Run

T = TypeVar("T")

_ORDER: Final = (
    "crash",
    "stale",
    "unobserved",
    "conflict",
    "timeout",
    "errors",
    "admission",
    "watch",
    "external",
    "clock",
    "reorder",
    "schedule",
)
SPECIAL: Final = ("leader", "upgrade")
"""Families that need another cluster than that of the reference run."""
VARIATION: Final = "variation"
"""Name under which variations of the scenario (`oracles`) are selected and counted, as a family."""
_IN_PROCESS_POINTS: Final = ("external",)
"""Families whose points only simulated processes have."""


def single_families() -> tuple[str, ...]:
    """Return the families that are explored with one replica, in the order of their exploration."""
    declared = chain.from_iterable(each.families for each in Fault.registered.values())
    return tuple(dict.fromkeys((*_ORDER, *(each for each in declared if each not in SPECIAL))))


def all_families() -> tuple[str, ...]:
    """Return the names of all families."""
    return (*single_families(), *SPECIAL, VARIATION)


def program_families() -> tuple[str, ...]:
    """Return the families that can be explored without control of a program's event loop."""
    return tuple(
        name
        for name in single_families()
        if name not in _IN_PROCESS_POINTS
        and any(name in each.families and not each.needs_event_loop for each in Fault.registered.values())
    )


def enumerate_faults(
    reference: Run, families: Sequence[str], timing: Timing = VIRTUAL
) -> dict[str, list[Fault]]:
    """Return the faults of families for a reference run, in the order of their points.

    A fault of two families belongs to the first.
    """
    trace = reference.trace
    numbers = {each.point: each.number for each in trace if each.point}
    seen: set[Fault] = set()
    result: dict[str, list[Fault]] = {}
    for name in families:
        found = [
            each
            for fault in Fault.registered.values()
            if name in fault.families and (timing.is_virtual or not fault.needs_event_loop)
            for each in fault.families[name](trace, timing)
        ]
        new = sorted(
            (each for each in dict.fromkeys(found) if each not in seen),
            key=lambda each: (each.is_fallback, numbers[each.point]),
        )
        seen.update(new)
        result[name] = new
    return result


def in_fair_order(planned: Mapping[str, Sequence[T]]) -> list[tuple[str, T]]:
    """Return the plans of all families so that any number of the first ones is a fair selection.

    Families take turns, and each begins with plans that are far apart from each other. Every budget then
    explores something of each family, at points that are spread over the run.
    """
    columns = [[(name, each) for each in spread_out(plans)] for name, plans in planned.items()]
    return [each for each in chain.from_iterable(zip_longest(*columns)) if each is not None]


def spread_out(values: Sequence[T]) -> Iterator[T]:
    """Return values in an order in which the first ones are evenly spread: first, middle, quarters, ..."""
    width = max(len(values) - 1, 0).bit_length()
    for number in range(1 << width):
        index = int(f"{number:0{width}b}"[::-1], 2) if width else 0
        if index < len(values):
            yield values[index]
