"""The faults of a program, enumerated from a recorded reference run.

They are those of `kubewright.explore.families`, without what needs control of the program's event loop and
with real delays. Faults with equal runs are left out:

- *crash*: one for each state of the store that exists before or after a write.
- *stale*: a restart with a lagging API server only if the program allows stale lists, a stale list only if
  its resource has changed before.
- *unobserved*: a gap matters if the object changes again later.
- *errors*: a read is repeated with the same result until something changes; one of them has faults.
- *reorder*: only if something else happens meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Final

from kubewright.explore import families as simulated
from kubewright.explore.faults import Fault

if TYPE_CHECKING:
    from kubewright.explore.trace import TraceEvent

    from .result import ProgramRun

HOLD_SECONDS = 2.0
GAP_SECONDS = 2.0
LAG_SECONDS = 5.0
OUTAGE_SECONDS = 2.0
SLOW_SECONDS = 1.0


def stale(run: ProgramRun) -> Iterator[Fault]:
    """Delay each watch event, make lists old, and restart against a lagging API server."""
    for event in run.trace.points("delivery"):
        yield Fault("hold", event.point, seconds=HOLD_SECONDS)
    for point, has_changed in run.stale_reads.items():
        if has_changed:
            yield Fault("stale", point)
    if run.stale_reads:
        for each in simulated.SINGLE["crash"](run.trace):
            if each.action == "crash-after":
                yield Fault("stale", each.point, seconds=LAG_SECONDS)


def unobserved(run: ProgramRun) -> Iterator[Fault]:
    """Hide intermediate states: watches break, and the objects are listed again after later changes."""
    deliveries = list(run.trace.points("delivery"))
    for index, event in enumerate(deliveries):
        watched = event.text.partition(" ")[2]
        if any(each.text.partition(" ")[2] == watched for each in deliveries[index + 1 :]):
            yield Fault("gap", event.point, seconds=GAP_SECONDS)


def watch(run: ProgramRun) -> Iterator[Fault]:
    """Break the watch before each event: connection reset, 410 Gone."""
    for event in run.trace.points("delivery"):
        yield Fault("reset", event.point)
        yield Fault("expired", event.point)


def conflict(run: ProgramRun) -> Iterator[Fault]:
    """Respond 409 Conflict to each update, and to each patch and delete with a resource version."""
    for event in run.trace.points("write"):
        verb = event.text.partition(" ")[0]
        if verb == "update" or (verb in ("patch", "delete") and b'"resourceVersion"' in event.body):
            yield Fault("error", event.point, "conflict")


def timeout(run: ProgramRun) -> Iterator[Fault]:
    """Lose each write, and the response of each write."""
    for event in run.trace.points("write"):
        yield Fault("lost-response", event.point)
        yield Fault("lost-request", event.point)


def errors(run: ProgramRun) -> Iterator[Fault]:
    """Respond 429, 500 or 503 to each request, and make the API server unreachable."""
    for event in run.trace.points("write"):
        for name in ("internal", "throttled", "unavailable"):
            yield Fault("error", event.point, name)
        yield Fault("outage", event.point, seconds=OUTAGE_SECONDS)
    seen: set[tuple[str, int]] = set()
    for event in (*run.trace.points("read"), *run.trace.points("watch")):
        if (event.text, event.store_revision) not in seen:
            seen.add((event.text, event.store_revision))
            yield Fault("error", event.point, "internal")
            yield Fault("error", event.point, "unavailable")


def reorder(run: ProgramRun) -> Iterator[Fault]:
    """Delay each write, or its response, while something else happens."""
    events = run.trace.events
    for event in run.trace.points("write"):
        if any(_is_concurrent(event, each) for each in events[event.number + 1 :]):
            yield Fault("slow-request", event.point, seconds=SLOW_SECONDS)
            yield Fault("slow-response", event.point, seconds=SLOW_SECONDS)


def _is_concurrent(write: TraceEvent, event: TraceEvent) -> bool:
    if event.kind == "step":
        return True
    return event.kind == "delivery" and event.revision != write.revision


def _of_trace(name: str) -> Callable[[ProgramRun], Iterable[Fault]]:
    return lambda run: simulated.SINGLE[name](run.trace)


FAMILIES: Final[dict[str, Callable[[ProgramRun], Iterable[Fault]]]] = {
    "crash": _of_trace("crash"),
    "timeout": timeout,
    "conflict": conflict,
    "errors": errors,
    "stale": stale,
    "unobserved": unobserved,
    "watch": watch,
    "reorder": reorder,
    "admission": _of_trace("admission"),
}
"""Families that need no control of the program."""


def enumerate_faults(run: ProgramRun, families: Sequence[str]) -> dict[str, list[Fault]]:
    """Return the faults of families for a reference run."""
    return {name: list(dict.fromkeys(FAMILIES[name](run))) for name in families}


def interleaved(planned: dict[str, list[Fault]]) -> list[tuple[str, Fault]]:
    """Return the first fault of each family, then the second of each, and so on.

    A small budget then explores something of each family.
    """
    rows = zip_longest(*([(name, fault) for fault in faults] for name, faults in planned.items()))
    return [each for each in chain.from_iterable(rows) if each is not None]


__all__ = ["FAMILIES", "enumerate_faults", "interleaved"]
