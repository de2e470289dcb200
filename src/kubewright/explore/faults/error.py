"""`error=NAME`: a request gets an error response, and has no effect.

Only verbs that can get the response have the fault. A read of the storage fails in one way only. A read, or
the start of a watch, that is repeated although nothing has changed has no faults of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubewright.explore.runs.trace import Trace

from .error_responses import ERRORS
from .events import distinct_reads, subject, verb
from .fault import Fault, FaultError
from .targets import FaultTarget, Timing

_UPDATES: Final = frozenset(("update", "patch", "delete"))


def _conflicts(trace: Trace, timing: Timing) -> Iterator[Fault]:
    return (Error(each.point, "conflict") for each in trace.points("write") if verb(each) in _UPDATES)


def _errors(trace: Trace, timing: Timing) -> Iterator[Fault]:
    for event in trace.points("write"):
        for name in ("throttled", "internal", "unavailable"):
            yield Error(event.point, name)
    for event in distinct_reads(trace, "read", "watch"):
        yield Error(event.point, "internal")
        if not subject(event).startswith("storage"):
            yield Error(event.point, "unavailable")


def _admission(trace: Trace, timing: Timing) -> Iterator[Fault]:
    for event in trace.points("write"):
        if verb(event) != "delete":
            yield Error(event.point, "webhook-down")
            yield Error(event.point, "denied")


def _external(trace: Trace, timing: Timing) -> Iterator[Fault]:
    return (Error(each.point, "unavailable") for each in trace.points("external"))


class Error(Fault):
    """The request gets an error response."""

    action = "error"
    points = "wrolx"
    families = {"conflict": _conflicts, "errors": _errors, "admission": _admission, "external": _external}

    def check(self) -> None:
        """Raise `FaultError` if the error is not known."""
        if self.value not in ERRORS:
            raise FaultError(f"unknown error {self.value!r}; expected one of {', '.join(ERRORS)}")

    def describe(self, event: str) -> str:
        """Return the sentence with the request that it concerns."""
        error = ERRORS[self.value]
        return f"{event} gets the response {error.status} {error.reason}, and has no effect"

    async def before(self, target: FaultTarget) -> None:
        """Respond instead of the server."""
        if self.value == "conflict" and verb(target.event) == "create":
            return  # after another fault the point is a create, which gets no conflict
        await target.respond(ERRORS[self.value])
