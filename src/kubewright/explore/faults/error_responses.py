"""Error responses of an API server, which faults inject by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


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
