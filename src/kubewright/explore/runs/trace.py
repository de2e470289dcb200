"""`Trace`: the numbered events of one run.

An event is a request of the operator or of the scenario, a watch delivery, a call of an external system, the
start or end of a simulated process, a step of the scenario, an injected fault or an error. Each has the
virtual time, the number of task switches (`step`) and timers so far, and for writes and deliveries a checksum
of the bytes. Two runs with equal `text()` made the same task switches and sent the same bytes.

Events at which a fault can be injected are *points*: a letter and a number, counted over all processes of the
operator; `w3` is the third write. A point also has a name, which is the same after most changes of operator
and scenario, and in runs of a program that does not send its requests in a fixed order: what happens there,
and how often that happened before. `create configmaps default/a` is the first create of an object,
`MODIFIED shops.example.com default/a (2)` the second such event. Names that the server has generated are
replaced by their prefix, and UUIDs by `*`.

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
| `s` | a task of a reconcile continues after an await, while others can run |
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
    "switch": "s",
}
"""Letter of the points of each kind of event."""
_RANDOM = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?<=[-/])(?=[a-f]*\d)[0-9a-f]{8,}$"
)
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
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
    task: int = 0
    """Number of the task that sent a request, or continues."""
    name: str = ""
    """Name of the point."""
    resource: str = ""
    """Resource of a change."""
    timeout: float = 0.0
    """Seconds after which a step that waits fails; 0 for other events."""
    accepts_stale: bool = False
    """Whether a list can have any revision."""

    @property
    def place(self) -> str:
        """Letter and name of the point."""
        return f"{self.point[:1]} {self.name}"

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
    generated: dict[str, str] = field(default_factory=dict)
    """Names that the server has generated, with what stands for them: `a-*`."""
    _ordinals: dict[str, int] = field(default_factory=dict)
    """Number of points by letter and text."""

    def __iter__(self) -> Iterator[TraceEvent]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def points(self, kind: str) -> Iterator[TraceEvent]:
        """Return the events of a kind at which faults can be injected."""
        return (each for each in self.events if each.kind == kind and each.point)

    def append(self, event: TraceEvent, *, shared: str = "") -> None:
        """Add an event; number and name it if it is a point.

        `shared` is the text by which other runs find the point, if it is not that of the event.
        """
        letter = POINT_KINDS.get(event.kind)
        if letter is not None:
            number = self.counts[letter] = self.counts.get(letter, 0) + 1
            event.point = f"{letter}{number}"
            text = self._general_name(shared or event.text)
            key = f"{letter} {text}"
            ordinal = self._ordinals[key] = self._ordinals.get(key, 0) + 1
            event.name = text if ordinal == 1 else f"{text} ({ordinal})"
        self.events.append(event)

    def add_generated(self, name: str, prefix: str) -> None:
        """Note that the server has generated a name."""
        if prefix and name.startswith(prefix):
            self.generated[name] = f"{prefix}*"

    def _general_name(self, text: str) -> str:
        """Return the text of a point without what differs between runs."""
        head, separator, name = text.rpartition("/" if "/" in text.rpartition(" ")[2] else " ")
        return f"{head}{separator}{self.generated.get(name) or _RANDOM.sub('*', name)}"

    def general_text(self, text: str) -> str:
        """Return a text in which generated names are replaced, so that it is the same in other runs."""
        if not self.generated:
            return text
        return _NAME.sub(lambda match: self.generated.get(match[0], match[0]), text)

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
