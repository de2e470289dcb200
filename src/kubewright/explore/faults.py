"""`Fault`: what happens at which point of a run, and its text form.

    crash-after@w5              the process is killed after the fifth write was stored
    error=conflict@w2           the second write gets 409 and is not stored
    hold@d7+30s                 the seventh delivery, and later ones of that watch, arrive 30 s later
    gap@d3+12s                  the watch breaks before the third delivery and expires after 12 s: relist

| action | point | effect |
|---|---|---|
| `crash-before`, `crash-after` | `w`, `x`, `l` | the process is killed before the request or its response |
| `error=NAME` | `w`, `r`, `o`, `l` | an error response (see `ERRORS`); the request has no effect |
| `lost-request` | `w`, `r`, `x` | no effect, and a timeout instead of a response |
| `lost-response` | `w`, `x` | the request has its effect, and a timeout instead of a response |
| `slow-request`, `slow-response` | `w`, `x` | request or response are delayed |
| `outage` | `w`, `d` | the API server is unreachable for the process for the delay; its watches break |
| `hold` | `d` | this and later deliveries of the watch arrive after the delay |
| `reset`, `expired` | `d` | the watch breaks, or ends with 410 Gone, before the delivery |
| `gap` | `d` | the watch breaks, cannot be started for the delay, and then gets 410 Gone |
| `stale` | `w` | crash after the write; the new process is served by an API server that lags by the delay |
| `pause` | `w` | the process is stopped before it sends the request, and continues after the delay |
| `lease-lost` | `w` | requests for Leases fail for the delay |
| `skew=SECONDS` | `p`, `w` | the wall clock of the process is changed |
| `defer` | `q` | the request is put back, and all that are ready are reconciled before it |
| `upgrade` | `w` | crash after the write; the new version of the operator starts |

The text form is what replay tokens, reports and generated tests contain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_PATTERN = re.compile(
    r"(?P<action>[a-z-]+)(?:=(?P<value>[^@+]+))?@(?P<point>[wrodlxpq]\d+)(?:\+(?P<seconds>\d+(?:\.\d+)?)s)?"
)


class FaultError(ValueError):
    """The text of a fault is not valid."""


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An error response of the API server."""

    status: int
    reason: str
    message: str
    retry_after: int | None = None

    def body(self) -> dict[str, Any]:
        """Return the Status object of the response."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.status,
        }
        if self.retry_after is not None:
            status["details"] = {"retryAfterSeconds": self.retry_after}
        return status


ERRORS: Final[Mapping[str, ErrorResponse]] = {
    "conflict": ErrorResponse(
        409,
        "Conflict",
        "Operation cannot be fulfilled: the object has been modified; please apply your changes to the "
        "latest version and try again",
    ),
    "throttled": ErrorResponse(
        429,
        "TooManyRequests",
        "the server has received too many requests and has asked us to try again later",
        1,
    ),
    "internal": ErrorResponse(500, "InternalError", "Internal error occurred: injected by exploration"),
    "unavailable": ErrorResponse(
        503, "ServiceUnavailable", "the server is currently unable to handle the request"
    ),
    "webhook-down": ErrorResponse(
        500,
        "InternalError",
        'Internal error occurred: failed calling webhook "policy.example.com": failed to call webhook: Post '
        '"https://policy.example.svc:443/": dial tcp 10.0.0.99:443: connect: connection refused',
    ),
    "denied": ErrorResponse(
        403, "Forbidden", 'admission webhook "policy.example.com" denied the request: injected by exploration'
    ),
    "expired": ErrorResponse(410, "Expired", "The resourceVersion for the provided watch is too old."),
    "timeout": ErrorResponse(504, "Timeout", "Timeout: request did not complete within the allotted timeout"),
}
"""Error responses by name."""

ACTIONS: Final = frozenset(
    (
        "crash-before",
        "crash-after",
        "error",
        "lost-request",
        "lost-response",
        "slow-request",
        "slow-response",
        "outage",
        "hold",
        "reset",
        "expired",
        "gap",
        "stale",
        "pause",
        "lease-lost",
        "skew",
        "defer",
        "upgrade",
    )
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a run."""

    action: str
    point: str
    value: str = ""
    seconds: float = 0.0
    """Delay of the action, in virtual seconds."""

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise FaultError(f"unknown fault {self.action!r}; expected one of {', '.join(sorted(ACTIONS))}")
        if self.action == "error" and self.value not in ERRORS:
            raise FaultError(f"unknown error {self.value!r}; expected one of {', '.join(ERRORS)}")
        if (self.action == "defer") != self.point.startswith("q"):
            raise FaultError(f"{self.action} is not possible at the point {self.point}")
        if self.action == "skew":
            try:
                float(self.value)
            except ValueError:
                raise FaultError(f"the skew {self.value!r} is not a number of seconds") from None

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Return the fault of a text; raise `FaultError`."""
        match = _PATTERN.fullmatch(text.strip())
        if match is None:
            raise FaultError(
                f"{text!r} is not a fault; expected a text such as crash-after@w5 or hold@d7+30s"
            )
        return cls(match["action"], match["point"], match["value"] or "", float(match["seconds"] or 0))

    def __str__(self) -> str:
        value = f"={self.value}" if self.value else ""
        delay = f"+{self.seconds:g}s" if self.seconds else ""
        return f"{self.action}{value}@{self.point}{delay}"


Plan = tuple[Fault, ...]
"""The faults of one run, in the order of their points."""


def plan_of(faults: Iterable[Fault]) -> dict[str, Fault]:
    """Return faults by point; raise `FaultError` if two are at the same point."""
    plan: dict[str, Fault] = {}
    for each in faults:
        if each.point in plan:
            raise FaultError(f"two faults at the point {each.point}: {plan[each.point]} and {each}")
        plan[each.point] = each
    return plan


def parse_faults(text: str) -> tuple[Fault, ...]:
    """Return the faults of a text in which they are separated by commas."""
    return tuple(Fault.parse(each) for each in text.split(",") if each.strip())


__all__ = ["ACTIONS", "ERRORS", "ErrorResponse", "Fault", "FaultError", "Plan", "parse_faults", "plan_of"]
