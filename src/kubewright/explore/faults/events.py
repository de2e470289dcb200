"""What several faults look for in the trace of a reference run.

The points are enumerated, not sampled. A fault is left out if its run would equal that of another fault:
memory is lost in a crash, so there is one crash for each state of the cluster and of external systems, after
a write, and before one only if something else changed since the previous write.

Faults of Event and Lease writes are left out: no reconcile reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Final

from kubewright.explore.runs.trace import Trace, TraceEvent

MARGIN: Final = 0.02
"""Seconds by which a delay is longer than what it must outlast."""
_EXTERNAL_READS: Final = frozenset(("get", "list"))


def verb(event: TraceEvent) -> str:
    """Return the first word of an event: a verb, or the type of a delivery."""
    return event.text.partition(" ")[0]


def subject(event: TraceEvent) -> str:
    """Return resource, namespace and name of an event."""
    return event.text.partition(" ")[2]


def is_external_read(event: TraceEvent) -> bool:
    """Whether a call of an external system has no effect."""
    return verb(event) in _EXTERNAL_READS


def fits_steps(trace: Trace, begin: float, seconds: float) -> bool:
    """Whether no wait of the scenario times out if the operator sees nothing for some time."""
    steps = [each for each in trace if each.kind == "step"]
    ends = [each.time for each in steps[1:]]
    for step, end in zip_longest(steps, ends, fillvalue=None):
        if step is None or step.timeout <= 0 or (end is not None and end < begin):
            continue
        if step.time < begin + seconds and begin + seconds - step.time >= step.timeout:
            return False
    return True


def crash_points(trace: Trace) -> Iterator[tuple[TraceEvent, bool]]:
    """Return the events at which a crash has a state of its own, and whether it is after the event."""
    seen: set[tuple[int, int]] = set()
    revision = external = 0
    for event in trace:
        if event.kind == "change":
            revision = max(revision, event.revision)
        is_call = event.kind == "external" and not is_external_read(event)
        if event.kind != "write" and not is_call:
            continue
        if (revision, external) not in seen:
            seen.add((revision, external))
            yield event, False
        external += is_call
        after = max(revision, event.revision) if event.status < 300 else revision
        if (after, external) not in seen:
            seen.add((after, external))
            yield event, True


def stored_writes(trace: Trace) -> Iterator[TraceEvent]:
    """Return the writes after which the cluster has a state of its own."""
    return (event for event, is_after in crash_points(trace) if is_after and event.kind == "write")


def distinct_reads(trace: Trace, *kinds: str) -> Iterator[TraceEvent]:
    """Return reads, or starts of watches, without those that a process repeats though nothing has changed."""
    seen: set[tuple[str, str, str, int]] = set()
    for kind in kinds:
        for event in trace.points(kind):
            key = (event.process, event.reconcile, event.text, event.store_revision)
            if key not in seen:
                seen.add(key)
                yield event
