"""The error tree: one class per reason that an API server gives.

    APIError
     +- BadRequest (400)            +- Conflict (409)            +- TooManyRequests (429)
     +- Unauthorized (401)          |   +- AlreadyExists         +- InternalError (500)
     +- Forbidden (403)             +- Expired (410)             +- ServerTimeout (500)
     +- NotFound (404)              |   +- Gone                  +- ServiceUnavailable (503)
     +- MethodNotAllowed (405)      +- RequestEntityTooLarge     +- Timeout (504)
     +- NotAcceptable (406)         +- UnsupportedMediaType
                                    +- Invalid (422), with one cause per field

Servers raise them, clients catch them, and both sides print the same `Status` body: `to_status()` and
`APIError.from_status()` are inverse.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from .gvk import GroupKind, GroupResource

Status = dict[str, Any]


class APIError(Exception):
    """A failed request. `reason` and `code` are those of its Status; `details` is as on the wire."""

    reason: ClassVar[str] = ""
    code: ClassVar[int] = 500

    def __init__(
        self,
        message: str = "",
        *,
        details: dict[str, Any] | None = None,
        reason: str | None = None,
        code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = details or {}
        self.status_reason = self.reason if reason is None else reason
        self.status_code = self.code if code is None else code
        self.headers: dict[str, str] = {}

    @property
    def causes(self) -> list[dict[str, Any]]:
        """The causes, one per field or conflict."""
        return self.details.get("causes") or []

    @property
    def retry_after(self) -> float | None:
        """Seconds the server asks to wait before the next try, if it says so."""
        seconds = self.details.get("retryAfterSeconds")
        return float(seconds) if seconds else None

    def to_status(self) -> Status:
        """The `Status` object that an API server sends for this error."""
        status: Status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.status_reason:
            status["reason"] = self.status_reason
        if self.details:
            status["details"] = self.details
        status["code"] = self.status_code
        return status

    @staticmethod
    def from_status(status: Status, http_code: int | None = None) -> APIError:
        """Build the right class from a `Status` body; an unknown reason falls back on the code."""
        reason = status.get("reason") or ""
        code = status.get("code") or http_code or 500
        cls = _BY_REASON.get(reason) or (_BY_CODE.get(code, APIError) if not reason else APIError)
        return cls(status.get("message") or "", details=status.get("details"), reason=reason, code=code)


class BadRequest(APIError):
    """The request itself is malformed."""

    reason, code = "BadRequest", 400


class Unauthorized(APIError):
    """No identity, or a wrong one."""

    reason, code = "Unauthorized", 401


class Forbidden(APIError):
    """The identity may not do this."""

    reason, code = "Forbidden", 403


class NotFound(APIError):
    """The object, or the resource, is not there."""

    reason, code = "NotFound", 404


class MethodNotAllowed(APIError):
    """The resource does not support this verb."""

    reason, code = "MethodNotAllowed", 405


class NotAcceptable(APIError):
    """No representation that the client accepts."""

    reason, code = "NotAcceptable", 406


class Conflict(APIError):
    """The object changed meanwhile, or somebody else owns the fields."""

    reason, code = "Conflict", 409


class AlreadyExists(Conflict):
    """An object of that name exists."""

    reason, code = "AlreadyExists", 409


class Expired(APIError):
    """The resource version or continue token is too old: list again."""

    reason, code = "Expired", 410


class Gone(Expired):
    """What was asked for is no longer there and will not return."""

    reason, code = "Gone", 410


class RequestEntityTooLarge(APIError):
    """The body is over the limit."""

    reason, code = "RequestEntityTooLarge", 413


class UnsupportedMediaType(APIError):
    """The content type of the body is not understood."""

    reason, code = "UnsupportedMediaType", 415


class Invalid(APIError):
    """The object breaks its schema or rules; `causes` says where."""

    reason, code = "Invalid", 422


class TooManyRequests(APIError):
    """The server asks to slow down; see `retry_after`."""

    reason, code = "TooManyRequests", 429


class InternalError(APIError):
    """The server failed."""

    reason, code = "InternalError", 500


class ServerTimeout(APIError):
    """The server could not finish in time; the request may be tried again."""

    reason, code = "ServerTimeout", 500


class ServiceUnavailable(APIError):
    """The server, or one behind it, is away."""

    reason, code = "ServiceUnavailable", 503


class Timeout(APIError):
    """The request did not finish within its time."""

    reason, code = "Timeout", 504


_CLASSES: tuple[type[APIError], ...] = (
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    Conflict,
    AlreadyExists,
    Expired,
    Gone,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    InternalError,
    ServerTimeout,
    ServiceUnavailable,
    Timeout,
)
_BY_REASON: dict[str, type[APIError]] = {cls.reason: cls for cls in _CLASSES}
_BY_CODE: dict[int, type[APIError]] = {}
for _cls in _CLASSES:
    _BY_CODE.setdefault(_cls.code, _cls)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with one field. `reason` is the cause's reason, `message` its whole text."""

    reason: str
    field: str
    message: str

    def cause(self) -> dict[str, str]:
        """The entry in `details.causes`."""
        return {"reason": self.reason, "message": self.message, "field": self.field}

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def invalid(kind: GroupKind, name: str, errors: Iterable[FieldError]) -> Invalid:
    """422 with one cause per field error, worded as Kubernetes words it."""
    listed = list(dict.fromkeys(errors))
    texts = list(dict.fromkeys(str(error) for error in listed))
    text = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    details: dict[str, Any] = {"kind": kind.kind}
    if name:
        details["name"] = name
    if kind.group:
        details["group"] = kind.group
    if listed:
        details["causes"] = [error.cause() for error in listed]
    return Invalid(f'{kind} "{name}" is invalid: {text}', details=details)


def _resource_details(resource: GroupResource, name: str) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.resource
    return details


def not_found(resource: GroupResource, name: str) -> NotFound:
    """404 for a named object."""
    return NotFound(f'{resource} "{name}" not found', details=_resource_details(resource, name))


def already_exists(resource: GroupResource, name: str, *, deleting: bool = False) -> AlreadyExists:
    """409 for a name that is taken."""
    prefix = "object is being deleted: " if deleting else ""
    return AlreadyExists(f'{prefix}{resource} "{name}" already exists', details=_resource_details(resource, name))


def conflict(resource: GroupResource, name: str, why: str) -> Conflict:
    """409 for an update that lost a race or broke a precondition."""
    return Conflict(
        f'Operation cannot be fulfilled on {resource} "{name}": {why}', details=_resource_details(resource, name)
    )


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def forbidden(resource: GroupResource, name: str, why: str, causes: Sequence[dict[str, Any]] = ()) -> Forbidden:
    """403 for a named object, or for the collection when `name` is empty."""
    details = _resource_details(resource, name)
    if causes:
        details["causes"] = list(causes)
    subject = f'{resource} "{name}" is forbidden' if name else f"{resource} is forbidden"
    return Forbidden(f"{subject}: {why}", details=details)


def method_not_allowed(resource: GroupResource, action: str) -> MethodNotAllowed:
    """405 for a verb that the resource does not have."""
    return MethodNotAllowed(
        f'{action} is not supported on resources of kind "{resource}"', details=_resource_details(resource, "")
    )
