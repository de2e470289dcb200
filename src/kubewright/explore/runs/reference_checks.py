"""Checks of a reference run: a run in which nothing happens proves nothing.

Faults are explored at the points of the reference run. If the operator fails in it, writes nothing, or the
steps change nothing, there is little to explore, and the result would be green without a meaning. Such a
reference run is therefore a violation named `reference`, before any fault is explored:

- `failing`: a reconcile still fails at the end
- `writes`: the operator has neither written an object nor called an external system
- `steps`: an `apply`, `patch` or `delete` of the scenario has changed nothing
- `external`: the operator has tried to connect to a system outside of the simulated cluster

A scenario in which one of them is intended names it: `@scenario(allow=["failing"])`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from kubewright.explore.oracles.names import ORACLES

from .trace import Trace

CHECKS: Final = ("external", "failing", "steps", "writes", *ORACLES)
"""Names of the checks, variations and default checks, which a scenario can switch off."""
_CHANGING: Final = ("apply", "patch", "delete")


def reference_problems(
    trace: Trace, allowed: Collection[str], *, blocked: Sequence[str] = (), failing: Sequence[str] = ()
) -> Iterator[str]:
    """Return what is wrong with a reference run that has ended, unless it is allowed.

    `blocked` are addresses outside of the simulated cluster to which the operator tried to connect, `failing`
    what is known about reconciles that fail.
    """
    if "external" not in allowed:
        for address in dict.fromkeys(blocked):
            yield (
                f"the operator connects to {address}, which is outside of the simulated cluster; replace the "
                "client of that system by an ExternalFake"
            )
    if "failing" not in allowed:
        yield from failing
    if "steps" not in allowed:
        for step in _steps_without_effect(trace):
            yield f"the step {step!r} has changed nothing"
    if "writes" not in allowed and not any(
        each.kind == "external" or (each.kind == "write" and each.status < 300) for each in trace.events
    ):
        yield "the operator has written nothing and called no external system"


def _steps_without_effect(trace: Trace) -> Iterator[str]:
    """Return the steps that should change an object, and after which no request of the scenario did."""
    events = trace.events
    starts = [each for each in events if each.kind == "step"]
    ends = [each.number for each in starts[1:]] + [len(events)]
    for start, end in zip(starts, ends, strict=True):
        description = start.text.partition(" ")[2]
        if description.partition(" ")[0] not in _CHANGING:
            continue
        during = events[start.number : end]
        requests = [each for each in during if each.kind == "request" and each.process == "scenario"]
        if requests and not any(each.revision for each in requests):
            yield description


def unknown_checks(allowed: Sequence[str]) -> list[str]:
    """Return the names that are not checks."""
    return [each for each in allowed if each not in CHECKS]
