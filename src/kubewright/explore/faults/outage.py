"""`outage`: the API server is unreachable; `application=HOW`: a fake application fails at a call.

An application recovers later:

| how | effect |
|---|---|
| `slow` | calls of the replica take a minute |
| `reject` | all replicas reject connections for two minutes |
| `partial` | the replica rejects connections for two minutes, others do not |
| `lie` | the replica acknowledges writes without storing them, and returns old data, for two minutes |
| `restart` | the replica restarts during the call, and loses data that is not persistent |
| `lose-data` | the same, after the response |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubewright.explore.runs.trace import Trace

from .fault import Fault, FaultError
from .targets import FaultTarget, Timing

LOSE_DATA: Final = "lose-data"
_EFFECTS: Final = {
    "slow": "calls of the replica take a minute",
    "reject": "the application rejects connections for two minutes",
    "partial": "the replica rejects connections for two minutes",
    "lie": "the replica lies for two minutes: writes are not stored, reads are old",
    "restart": "the replica restarts, and loses what is not persistent",
    LOSE_DATA: "the replica responds, restarts, and loses what is not persistent",
}


def _outages(trace: Trace, timing: Timing) -> Iterator[Fault]:
    return (Outage(event.point, seconds=timing.long_seconds) for event in trace.points("write"))


class Outage(Fault):
    """The API server is unreachable, from a request on."""

    action = "outage"
    points = "w"
    sentence = "the API server is unreachable for the operator for {seconds:g} s, from {event} on"
    families = {"errors": _outages}

    async def before(self, target: FaultTarget) -> None:
        """Disconnect the process."""
        await target.disconnect(self.seconds)


def _calls(trace: Trace, timing: Timing) -> Iterator[Fault]:
    seen: set[tuple[str, int]] = set()
    for event in trace.points("external"):
        # A call that is repeated although no object has changed has no faults of its own.
        key = (event.text, event.store_revision)
        if event.resource == "application" and key not in seen:
            seen.add(key)
            for how in _EFFECTS:
                yield ApplicationFailure(event.point, how, timing.long_seconds)


class ApplicationFailure(Fault):
    """The application that is called fails."""

    action = "application"
    points = "x"
    families = {"application": _calls}
    needs_event_loop = True

    def check(self) -> None:
        """Raise `FaultError` if the failure is not known."""
        if self.value not in _EFFECTS:
            raise FaultError(f"unknown failure {self.value!r}; expected one of {', '.join(_EFFECTS)}")

    def describe(self, event: str) -> str:
        """Return the sentence with the call that it concerns."""
        return f"at {event} {_EFFECTS[self.value]}"

    async def before(self, target: FaultTarget) -> None:
        """Let the application fail."""
        if self.value != LOSE_DATA:
            await target.fail_application(self.value, self.seconds)

    async def after(self, target: FaultTarget) -> None:
        """Let the application lose its data after the response."""
        if self.value == LOSE_DATA:
            await target.fail_application(self.value, self.seconds)
