"""`Trace`: the numbered events of one run.

An event is a request of the operator or of the scenario, a watch delivery, a call of an external system, the
start or end of a simulated process, a step of the scenario, an injected fault or an error. Each has the
virtual time, the number of task switches (`step`) and timers so far, and for writes and deliveries a checksum
of the bytes. Two runs with equal `text()` made the same task switches and sent the same bytes.

Events at which a fault can be injected are *points*. Their name is a letter and a number, counted over all
processes of the operator: `w3` is the third write.

| point | event |
|---|---|
| `w` | write of an object (not of Events and Leases) |
| `r` | get or list |
| `o` | start of a watch |
| `d` | delivery of a watch event after the initial state |
| `l` | write of a Lease |
| `x` | call of an external system |
| `q` | start of a reconcile, when its request leaves the work queue |
| `p` | start of a process of the operator |
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

POINT_KINDS: Final = {
    "write": "w",
    "read": "r",
    "watch": "o",
    "delivery": "d",
    "lease": "l",
    "external": "x",
    "reconcile": "q",
    "start": "p",
}
"""Letter of the points of each kind of event."""
_SWITCHES = re.compile(r" \d+/\d+(?= )| @\d+(?= =)")


@dataclass(slots=True, eq=False)
class TraceEvent:
    """One event. `text` describes it without values that differ between runs of the same plan."""

    number: int
    time: float
    """Virtual seconds since the start of the run."""
    step: int
    """Task switches before the event."""
    timers: int
    """Timers that fired before the event."""
    process: str
    """`operator-1#2` is the second start of the first replica; `scenario`, or empty for the control plane."""
    kind: str
    """A key of `POINT_KINDS`, or `request`, `event`, `initial`, `step`, `fault`, `crash`, `stop`, `error`,
    `log`, `change`."""
    text: str
    point: str = ""
    status: int = 0
    """HTTP status of a response; 0 without one."""
    revision: int = 0
    """Resource version of the object in a response or delivery."""
    store_revision: int = 0
    """Revision of the store when the event happened."""
    reconcile: str = ""
    """Controller and request of the reconcile that caused it."""
    body: bytes = b""
    """Body of a write, object of a delivery."""
    ended: int = 0
    """Task switches before the response."""
    ready: int = 0
    """Number of other requests in the work queues of the process that were ready, for a reconcile."""

    def line(self) -> str:
        """Return the event as one line of the trace."""
        checksum = f" {zlib.crc32(self.body):08x}" if self.body else ""
        outcome = f" -> {self.status or 'none'} rv={self.revision} @{self.ended}" if self.ended else ""
        cause = f" [{self.reconcile}]" if self.reconcile else ""
        return (
            f"{self.number} {self.time:.6f} {self.step}/{self.timers} {self.process or '-'} {self.kind}"
            f" {self.point or '-'} {self.text}{checksum}{outcome} ={self.store_revision}{cause}"
        )


@dataclass(slots=True)
class Trace:
    """The events of a run, in order."""

    events: list[TraceEvent] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    """Number of points by letter."""

    def __iter__(self) -> Iterator[TraceEvent]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def points(self, kind: str) -> Iterator[TraceEvent]:
        """Return the events of a kind at which faults can be injected."""
        return (each for each in self.events if each.kind == kind and each.point)

    def next_point(self, kind: str) -> str:
        """Return the name of the next point of a kind."""
        letter = POINT_KINDS[kind]
        number = self.counts[letter] = self.counts.get(letter, 0) + 1
        return f"{letter}{number}"

    def text(self) -> str:
        """Return the whole trace, one line per event."""
        return "".join(f"{each.line()}\n" for each in self.events)

    def digest(self, *, switches: bool = True) -> str:
        """Return a checksum of `text()`, optionally without the numbers of task switches and timers.

        A run that is compared with a reference run has other task switches at its end than the reference run.
        """
        text = self.text()
        if not switches:
            text = _SWITCHES.sub("", text)
        return hashlib.sha256(text.encode()).hexdigest()


__all__ = ["POINT_KINDS", "Trace", "TraceEvent"]
