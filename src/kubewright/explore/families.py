"""Fault families: every fault that a reference run offers, without equivalent ones.

Each family is a function from the trace of a reference run to faults. The points of the trace are enumerated,
not sampled. A fault is left out if the run would equal that of another fault:

- *crash*: memory is lost in a crash, so only the state of the cluster and of external systems matters. There
  is one crash for each state that exists before or after a write of the operator: after a write, and before
  one only if something else changed since the previous write. A write without a change has no crash of its
  own.
- *stale*: a held delivery matters only by which writes the operator does without it. The hold therefore ends
  after the next write, the second next, ... (`LATER_WRITES`), and one lasts `LONG_SECONDS`. After a restart
  the API server lags: watch events are late, and lists are old where the request allows it.
- *unobserved*: a gap hides at least two changes of one object; a gap with fewer is a delay (`stale`). It ends
  after the next change of the object, or after the last one, within `MAX_GAP_SECONDS`.
- *watch*: a broken watch matters by how long it delays an event (`stale`) and by what the next list hides
  (`unobserved`). What remains is its restart: once before the first event of each type (added, modified,
  deleted) of each resource.
- *reorder*: a slow request or response matters only if something happens meanwhile: a step, a delivery of
  another object, or a request of another reconcile. A reconcile is deferred only if others are ready.
- *errors*: a watch that is started again although nothing has changed has no faults of its own. A read of
  the storage fails in one way only.
- *conflict*, *admission*: only for verbs that can get the response.

Faults of Event and Lease writes are left out: no reconcile reads them. `leader` is explored in runs with two
replicas and leader election, `upgrade` in runs that begin with an older version of the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from .faults import Fault
from .processes import LEASE_DURATION
from .run import Run
from .trace import Trace, TraceEvent

LATER_WRITES = 3
"""Number of later writes up to which a delivery is held."""
LONG_SECONDS = 120.0
"""Duration of a long hold and of an outage."""
LAG_SECONDS = 30.0
MAX_GAP_SECONDS = 600.0
"""Longest time for which a watch is broken."""
PAUSE_SECONDS = 2 * LEASE_DURATION
"""Longer than the duration of a Lease and the retry periods of the other replica."""
SKEWS: Final = ("300", "-300")
MARGIN = 0.02
MAX_SLOW_SECONDS = 300.0
_EXTERNAL_READS: Final = frozenset(("get", "list"))
_UPDATES: Final = frozenset(("update", "patch", "delete"))


def crash(trace: Trace) -> Iterator[Fault]:
    """Kill the process before or after each write and each external call, and restart it."""
    seen: set[tuple[int, int]] = set()
    revision = external = 0
    for event in trace.events:
        if event.kind == "change":
            revision = max(revision, event.revision)
        is_external = event.kind == "external" and event.text.partition(" ")[0] not in _EXTERNAL_READS
        if event.kind != "write" and not is_external:
            continue
        if (revision, external) not in seen:
            seen.add((revision, external))
            yield Fault("crash-before", event.point)
        external += is_external
        after = max(revision, event.revision) if event.status < 300 else revision
        if (after, external) not in seen:
            seen.add((after, external))
            yield Fault("crash-after", event.point)


def stale(trace: Trace) -> Iterator[Fault]:
    """Delay watch deliveries up to each later write, and restart against a lagging API server."""
    writes = list(trace.points("write"))
    for event in trace.points("delivery"):
        later = [each.time for each in writes if each.number > event.number and each.time >= event.time]
        for moment in dict.fromkeys(later[:LATER_WRITES]):
            delay = moment - event.time + MARGIN
            if delay < LONG_SECONDS:
                yield Fault("hold", event.point, seconds=round(delay, 3))
        yield Fault("hold", event.point, seconds=LONG_SECONDS)
    for each in crash(trace):
        if each.action == "crash-after" and each.point.startswith("w"):
            yield Fault("stale", each.point, seconds=LAG_SECONDS)


def unobserved(trace: Trace) -> Iterator[Fault]:
    """Hide intermediate states: watches break, and the objects are listed again after later changes."""
    deliveries = list(trace.points("delivery"))
    for index, event in enumerate(deliveries):
        key = (event.process, _object_of(event))
        same = [each for each in deliveries[index + 1 :] if (each.process, _object_of(each)) == key]
        ends = dict.fromkeys(round(each.time - event.time + MARGIN, 3) for each in (*same[:1], *same[-1:]))
        for seconds in ends:
            if seconds <= MAX_GAP_SECONDS:
                yield Fault("gap", event.point, seconds=seconds)


def conflict(trace: Trace) -> Iterator[Fault]:
    """Respond 409 Conflict to each update, patch and delete."""
    for event in trace.points("write"):
        if _verb(event) in _UPDATES:
            yield Fault("error", event.point, "conflict")


def timeout(trace: Trace) -> Iterator[Fault]:
    """Lose each write, and lose the response of each write and read."""
    for event in trace.points("write"):
        yield Fault("lost-request", event.point)
        yield Fault("lost-response", event.point)
    for event in trace.points("read"):
        yield Fault("lost-request", event.point)


def errors(trace: Trace) -> Iterator[Fault]:
    """Respond 429, 500 or 503 to each request, and make the API server unreachable."""
    for event in trace.points("write"):
        for name in ("throttled", "internal", "unavailable"):
            yield Fault("error", event.point, name)
        yield Fault("outage", event.point, seconds=LONG_SECONDS)
    started: dict[tuple[str, str], int] = {}
    for event in (*trace.points("read"), *trace.points("watch")):
        key = (event.process, event.text)
        if event.kind == "watch" and started.get(key) == event.store_revision:
            continue
        started[key] = event.store_revision
        yield Fault("error", event.point, "internal")
        if not _is_storage_read(event):
            yield Fault("error", event.point, "unavailable")


def admission(trace: Trace) -> Iterator[Fault]:
    """Fail the admission of each create, update and patch: webhook down, request denied."""
    for event in trace.points("write"):
        if _verb(event) != "delete":
            yield Fault("error", event.point, "webhook-down")
            yield Fault("error", event.point, "denied")


def watch(trace: Trace) -> Iterator[Fault]:
    """Break each watch before a delivery of each type: connection reset, 410 Gone."""
    seen: set[tuple[str, ...]] = set()
    for event in trace.points("delivery"):
        type_and_resource = (event.process, *event.text.split(" ")[:2])
        if type_and_resource not in seen:
            seen.add(type_and_resource)
            yield Fault("reset", event.point)
            yield Fault("expired", event.point)


def external(trace: Trace) -> Iterator[Fault]:
    """Fail, lose and delay each call of an external system."""
    for event in trace.points("external"):
        yield Fault("error", event.point, "unavailable")
        yield Fault("lost-request", event.point)
        if event.text.partition(" ")[0] not in _EXTERNAL_READS:
            yield Fault("lost-response", event.point)
        yield Fault("slow-request", event.point, seconds=60.0)


def clock(trace: Trace) -> Iterator[Fault]:
    """Set the clock of the process forward and back, from the start or from each write on."""
    for event in (*trace.points("start"), *trace.points("write")):
        for skew in SKEWS:
            yield Fault("skew", event.point, skew)


def reorder(trace: Trace) -> Iterator[Fault]:
    """Delay each write, or its response, until something else has happened; defer each reconcile."""
    for event in trace.points("reconcile"):
        if event.ready:
            yield Fault("defer", event.point)
    events = trace.events
    for event in trace.points("write"):
        moment = next((each.time for each in events[event.number + 1 :] if _is_concurrent(event, each)), None)
        if moment is None or moment - event.time > MAX_SLOW_SECONDS:
            continue
        seconds = round(moment - event.time + 0.5, 3)
        yield Fault("slow-request", event.point, seconds=seconds)
        yield Fault("slow-response", event.point, seconds=seconds)


def leader(trace: Trace) -> Iterator[Fault]:
    """Pause or kill the leader at each write, or take its Lease away; another replica takes over."""
    for event in trace.points("write"):
        yield Fault("pause", event.point, seconds=PAUSE_SECONDS)
        yield Fault("lease-lost", event.point, seconds=LONG_SECONDS)
        yield Fault("crash-after", event.point)


def upgrade(trace: Trace) -> Iterator[Fault]:
    """Replace the old version of the operator by the new one after each write."""
    for each in crash(trace):
        if each.action == "crash-after" and each.point.startswith("w"):
            yield Fault("upgrade", each.point)


Family = Callable[[Trace], Iterable[Fault]]

SINGLE: Final[Mapping[str, Family]] = {
    "crash": crash,
    "stale": stale,
    "unobserved": unobserved,
    "conflict": conflict,
    "timeout": timeout,
    "errors": errors,
    "admission": admission,
    "watch": watch,
    "external": external,
    "clock": clock,
    "reorder": reorder,
}
"""Families that are explored with one replica."""
ALL: Final = (*SINGLE, "leader", "upgrade")
"""The names of all families."""


def enumerate_faults(reference: Run, families: Sequence[str]) -> dict[str, list[Fault]]:
    """Return the faults of families for a reference run; a fault of two families belongs to the first."""
    functions: dict[str, Family] = {**SINGLE, "leader": leader, "upgrade": upgrade}
    seen: set[Fault] = set()
    result: dict[str, list[Fault]] = {}
    for name in families:
        found = [each for each in dict.fromkeys(functions[name](reference.trace)) if each not in seen]
        seen.update(found)
        result[name] = found
    return result


def _verb(event: TraceEvent) -> str:
    return event.text.partition(" ")[0]


def _is_storage_read(event: TraceEvent) -> bool:
    """Whether a read does not pass the API server (`replica`), so that it has no HTTP status."""
    return event.text.partition(" ")[2].startswith("storage")


def _object_of(event: TraceEvent) -> str:
    """Return resource, namespace and name of a delivery."""
    return event.text.partition(" ")[2]


def _is_concurrent(write: TraceEvent, event: TraceEvent) -> bool:
    """Whether an event can overtake a write: it is caused by something else."""
    if event.kind == "step":
        return True
    if event.kind == "delivery":
        return event.revision != write.revision
    if event.kind in ("write", "read", "external"):
        return bool(event.reconcile) and event.reconcile != write.reconcile
    return False


__all__ = ["ALL", "SINGLE", "Family", "enumerate_faults"]
