"""The error tree: one class per reason that an API server gives.

    APIError
     +- BadRequest (400)            +- Conflict (409)            +- TooManyRequests (429)
     +- Unauthorized (401)          |   +- AlreadyExists         +- InternalError (500)
     +- Forbidden (403)             +- Expired (410)             +- ServerTimeout (500)
     +- NotFound (404)              |   +- Gone                  +- StoreReadError (500)
     +- MethodNotAllowed (405)      +- RequestEntityTooLarge     +- ServiceUnavailable (503)
     +- NotAcceptable (406)         +- UnsupportedMediaType      +- Timeout (504)
                                    +- Invalid (422), with one cause per field

Servers raise them, clients catch them, and both sides print the same `Status` body: `to_status()` and
`APIError.from_status()` are inverse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from .field_errors import FieldError, aggregate, quote
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
        self._details_given = details is not None
        self.status_reason = self.reason if reason is None else reason
        self.status_code = self.code if code is None else code
        self.headers: dict[str, str] = {}

    @property
    def causes(self) -> list[dict[str, Any]]:
        """The causes, one per field or conflict."""
        return self.details.get("causes") or []

    @property
    def retry_after(self) -> float | None:
        """Seconds the server asks to wait before the next try, if it says so in the body or a header."""
        seconds = self.details.get("retryAfterSeconds")
        if not seconds:
            given = {name.lower(): value for name, value in self.headers.items()}
            seconds = given.get("retry-after", "").strip()
        return float(seconds) if seconds and str(seconds).isdecimal() else None

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
        if self.details or self._details_given:
            status["details"] = self.details
        status["code"] = self.status_code
        return status

    @staticmethod
    def from_status(
        status: Status, http_code: int | None = None, headers: Mapping[str, str] | None = None
    ) -> APIError:
        """Build the right class from a `Status` body; an unknown reason falls back on the code."""
        reason = status.get("reason") or ""
        code = status.get("code") or http_code or 500
        cls = _BY_REASON.get(reason) or _BY_CODE.get(code, APIError)
        error = cls(status.get("message") or "", details=status.get("details"), reason=reason, code=code)
        error.headers.update(headers or {})
        return error


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


class StoreReadError(APIError):
    """What is stored cannot be read: damaged, or encrypted with a key that is gone."""

    reason, code = "StoreReadError", 500


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
    StoreReadError,
    ServiceUnavailable,
    Timeout,
)
_BY_REASON: dict[str, type[APIError]] = {cls.reason: cls for cls in _CLASSES}
_BY_CODE: dict[int, type[APIError]] = {}
for _cls in _CLASSES:
    _BY_CODE.setdefault(_cls.code, _cls)


def invalid(kind: GroupKind, name: str, errors: Iterable[FieldError]) -> Invalid:
    """422 with one cause per field error, worded as Kubernetes words it."""
    listed = list(errors)
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if kind.group:
        details["group"] = kind.group
    if kind.kind:
        details["kind"] = kind.kind
    if listed:
        details["causes"] = [error.cause() for error in listed]
    subject = f"{kind} {quote(name)} is invalid"
    return Invalid(f"{subject}: {aggregate(listed)}" if listed else subject, details=details)


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
    return NotFound(f"{resource} {quote(name)} not found", details=_resource_details(resource, name))


def already_exists(resource: GroupResource, name: str, *, deleting: bool = False) -> AlreadyExists:
    """409 for a name that is taken."""
    prefix = "object is being deleted: " if deleting else ""
    return AlreadyExists(
        f"{prefix}{resource} {quote(name)} already exists", details=_resource_details(resource, name)
    )


def generate_name_conflict(resource: GroupResource, name: str, retry_after: int = 1) -> AlreadyExists:
    """409 after every name that was made from `generateName` turned out to be taken."""
    return AlreadyExists(
        f"{resource} {quote(name)} already exists, "
        "the server was not able to generate a unique name for the object",
        details={**_resource_details(resource, name), "retryAfterSeconds": retry_after},
    )


def conflict(resource: GroupResource, name: str, why: str) -> Conflict:
    """409 for an update that lost a race or broke a precondition."""
    return Conflict(
        f"Operation cannot be fulfilled on {resource} {quote(name)}: {why}",
        details=_resource_details(resource, name),
    )


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def forbidden(
    resource: GroupResource, name: str, why: str, causes: Sequence[dict[str, Any]] = ()
) -> Forbidden:
    """403 for a named object, for the collection when `name` is empty, for a path when both are."""
    if not resource.resource and not resource.group:
        return Forbidden(f"forbidden: {why}")
    details = _resource_details(resource, name)
    if causes:
        details["causes"] = list(causes)
    subject = f"{resource} {quote(name)} is forbidden" if name else f"{resource} is forbidden"
    return Forbidden(f"{subject}: {why}", details=details)


def method_not_allowed(resource: GroupResource, action: str) -> MethodNotAllowed:
    """405 for a verb that the resource does not have."""
    return MethodNotAllowed(
        f"{action} is not supported on resources of kind {quote(str(resource))}",
        details=_resource_details(resource, ""),
    )


def internal_error(cause: object) -> InternalError:
    """500 with the cause named."""
    return InternalError(f"Internal error occurred: {cause}", details={"causes": [{"message": str(cause)}]})


def server_timeout(resource: GroupResource, operation: str, retry_after: int = 0) -> ServerTimeout:
    """500 for an operation that the server gave up and the client may try again."""
    details = _resource_details(resource, "")
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return ServerTimeout(
        f"The {operation} operation against {resource} could not be completed at this time, "
        "please try again.",
        details=details,
    )


def timeout(message: str, retry_after: int = 0) -> Timeout:
    """504 for a request that ran out of time."""
    return Timeout(f"Timeout: {message}", details={"retryAfterSeconds": retry_after} if retry_after else None)


def too_large_resource_version(asked: int | str, current: int | str, retry_after: int = 1) -> Timeout:
    """504 for a read at a version that the server has not reached yet."""
    return Timeout(
        f"Timeout: Too large resource version: {asked}, current: {current}",
        details={
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": retry_after,
        },
    )


def too_many_requests(message: str, retry_after: int = 1) -> TooManyRequests:
    """429; the client waits `retry_after` seconds."""
    return TooManyRequests(message, details={"retryAfterSeconds": retry_after})


_UNEXPLAINED: dict[int, str] = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client supports",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, "
    "but may still be processing the request",
}


def from_response(
    code: int,
    body: str = "",
    *,
    verb: str = "",
    resource: GroupResource | None = None,
    name: str = "",
    headers: Mapping[str, str] | None = None,
) -> APIError:
    """The error for a failed response whose body is no `Status`; the body becomes a cause."""
    cls = AlreadyExists if code == 409 and verb.upper() == "POST" else _BY_CODE.get(code)
    if code >= 500 and code not in _UNEXPLAINED:
        cls = InternalError
        message = f"an error on the server ({quote(body)}) has prevented the request from succeeding"
    elif code in (403, 406, 415) and body and body != "unknown":
        message = body
    else:
        message = _UNEXPLAINED.get(
            code, f"the server responded with the status code {code} but did not return more information"
        )
    details: dict[str, Any] = {}
    if resource is not None:
        message += f" ({' '.join(part for part in (verb.lower(), str(resource), name) if part)})"
        details = _resource_details(resource, name)
    details["causes"] = [{"reason": "UnexpectedServerResponse", "message": body or "unknown"}]
    error = (cls or APIError)(message, details=details, code=code)
    error.headers.update(headers or {})
    return error
