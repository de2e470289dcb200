"""Sentences about faults, for readers who have not seen their text form before."""

from __future__ import annotations

from typing import Final

from kubewright.explore.faults import ERRORS, Fault
from kubewright.explore.trace import Trace

_SENTENCES: Final = {
    "crash-before": "the operator is killed before it sends {event}",
    "crash-after": "the operator is killed after {event} was stored, before it receives the response",
    "lost-request": "{event} does not reach the API server, and the operator gets a timeout",
    "lost-response": "{event} is stored, and the operator gets a timeout instead of the response",
    "slow-request": "{event} reaches the API server {seconds:g} s later",
    "slow-response": "the response of {event} arrives {seconds:g} s later",
    "outage": "the API server is unreachable for the operator for {seconds:g} s, from {event} on",
    "hold": "the event {event} and later ones of that watch arrive {seconds:g} s later",
    "reset": "the watch breaks before the event {event}",
    "expired": "the watch ends with 410 Gone before the event {event}",
    "gap": "the watch breaks before the event {event}, and after {seconds:g} s the operator must list again",
    "stale": "the operator is killed after {event}, and restarts with a server that lags by {seconds:g} s",
    "pause": "the operator is paused for {seconds:g} s before it sends {event}",
    "lease-lost": "requests for Leases fail for {seconds:g} s, from {event} on",
    "skew": "the clock of the operator is changed by {value} s at {event}",
    "defer": "all requests that are ready are reconciled before {event}",
    "upgrade": "the new version of the operator starts after {event}",
}


def explain_fault(fault: Fault, trace: Trace) -> str:
    """Return a sentence about what a fault does in a run, with the request or event that it concerns."""
    found = next((each for each in trace if each.point == fault.point), None)
    event = f"`{found.text}` ({fault.point})" if found is not None else fault.point
    if fault.action == "error":
        error = ERRORS[fault.value]
        return f"{event} gets the response {error.status} {error.reason}, and has no effect"
    if fault.action == "stale" and fault.point.startswith("r"):
        return f"{event} gets the state before the last change of the resource"
    sentence = _SENTENCES.get(fault.action)
    if sentence is None:
        return f"{fault} at {event}"
    return sentence.format(event=event, seconds=fault.seconds, value=fault.value)


__all__ = ["explain_fault"]
