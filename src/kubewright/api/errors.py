"""Errors of API requests, one class per Status reason.

    APIError
     +- BadRequest (400)            +- Conflict (409)            +- TooManyRequests (429)
     +- Unauthorized (401)          |   +- AlreadyExists         +- InternalError (500)
     +- Forbidden (403)             +- Expired (410)             +- ServerTimeout (500)
     +- NotFound (404)              |   +- Gone                  +- StoreReadError (500)
     +- MethodNotAllowed (405)      +- RequestEntityTooLarge     +- ServiceUnavailable (503)
     +- NotAcceptable (406)         +- UnsupportedMediaType      +- Timeout (504)
                                    +- Invalid (422), with one cause per field

Servers raise them and send the `Status` body of `to_status()`; clients create the same error from the body
with `APIError.from_status()`. Functions such as `not_found(Pod, "web-0")` and `invalid(Shop, "a", errors)`
create them with the message and details of kube-apiserver, for servers, webhooks and tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from .field_errors import FieldError, aggregate
from .gvk import GroupKind, GroupResource
from .values.go_format import quote

Status = dict[str, Any]
AnyResource = GroupResource | type[Any]
"""A resource, or the class of a kind."""


class APIError(Exception):
    """A failed request. `reason`, `code` and `details` are those of the Status body."""

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
        """Causes of the failure, such as one per invalid field."""
        return self.details.get("causes") or []

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait before a retry, from the body or the Retry-After header, or `None`."""
        seconds = self.details.get("retryAfterSeconds")
        if not seconds:
            given = {name.lower(): value for name, value in self.headers.items()}
            seconds = given.get("retry-after", "").strip()
        return float(seconds) if seconds and str(seconds).isdecimal() else None

    def to_status(self) -> Status:
        """Return the `Status` object for this error."""
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
        """Create the error of a `Status` body; for an unknown reason, the class follows from the code."""
        reason = status.get("reason") or ""
        code = status.get("code") or http_code or 500
        cls = _BY_REASON.get(reason) or _BY_CODE.get(code, APIError)
        error = cls(status.get("message") or "", details=status.get("details"), reason=reason, code=code)
        error.headers.update(headers or {})
        return error


class BadRequest(APIError):
    """The request is malformed."""

    reason, code = "BadRequest", 400


class Unauthorized(APIError):
    """The request has no valid credentials."""

    reason, code = "Unauthorized", 401


class Forbidden(APIError):
    """The user is not allowed to do this."""

    reason, code = "Forbidden", 403


class NotFound(APIError):
    """The object or resource does not exist."""

    reason, code = "NotFound", 404


class MethodNotAllowed(APIError):
    """The resource does not support this verb."""

    reason, code = "MethodNotAllowed", 405


class NotAcceptable(APIError):
    """The server cannot produce a content type that the client accepts."""

    reason, code = "NotAcceptable", 406


class Conflict(APIError):
    """The object has changed, or another manager owns the fields."""

    reason, code = "Conflict", 409


class AlreadyExists(Conflict):
    """An object with that name already exists."""

    reason, code = "AlreadyExists", 409


class Expired(APIError):
    """The resource version or continue token is too old; list again."""

    reason, code = "Expired", 410


class Gone(Expired):
    """The requested resource is permanently unavailable."""

    reason, code = "Gone", 410


class RequestEntityTooLarge(APIError):
    """The request body exceeds the limit."""

    reason, code = "RequestEntityTooLarge", 413


class UnsupportedMediaType(APIError):
    """The content type of the request body is not supported."""

    reason, code = "UnsupportedMediaType", 415


class Invalid(APIError):
    """The object fails validation; `causes` has one entry per field."""

    reason, code = "Invalid", 422


class TooManyRequests(APIError):
    """The server limits the request rate; see `retry_after`."""

    reason, code = "TooManyRequests", 429


class InternalError(APIError):
    """The server failed to process the request."""

    reason, code = "InternalError", 500


class ServerTimeout(APIError):
    """The server could not complete the operation in time; the client may retry."""

    reason, code = "ServerTimeout", 500


class StoreReadError(APIError):
    """A stored object cannot be read: it is corrupt, or its encryption key is missing."""

    reason, code = "StorageReadError", 500


class ServiceUnavailable(APIError):
    """The server, or a server behind it, is unavailable."""

    reason, code = "ServiceUnavailable", 503


class Timeout(APIError):
    """The request exceeded its timeout."""

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


def _group_resource(resource: AnyResource) -> GroupResource:
    """Return the group and resource of a class; raise `TypeError` if it is not a kind."""
    if isinstance(resource, GroupResource):
        return resource
    from .declaring.declarations import is_resource, resource_info
    from .scheme import Scheme

    info = resource_info(resource) if is_resource(resource) else Scheme().info_of(resource)
    return GroupResource(info.gvk.group, info.plural)


def invalid(kind: GroupKind | type[Any], name: str, errors: Iterable[FieldError]) -> Invalid:
    """Return a 422 with one cause per field error."""
    listed = list(errors)
    if isinstance(kind, type):
        if getattr(kind, "gvk", None) is None:
            raise TypeError(f"{kind.__name__} is not a kind; pass a class with @resource, or a GroupKind")
        kind = kind.gvk.group_kind
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


def not_found(resource: AnyResource, name: str) -> NotFound:
    """Return a 404 for a named object."""
    resource = _group_resource(resource)
    return NotFound(f"{resource} {quote(name)} not found", details=_resource_details(resource, name))


def already_exists(resource: AnyResource, name: str, *, deleting: bool = False) -> AlreadyExists:
    """Return a 409 for a name that already exists."""
    resource = _group_resource(resource)
    prefix = "object is being deleted: " if deleting else ""
    return AlreadyExists(
        f"{prefix}{resource} {quote(name)} already exists", details=_resource_details(resource, name)
    )


def generate_name_conflict(resource: AnyResource, name: str, retry_after: int = 1) -> AlreadyExists:
    """Return a 409 if no unused name could be generated from `generateName`."""
    resource = _group_resource(resource)
    return AlreadyExists(
        f"{resource} {quote(name)} already exists, "
        "the server was not able to generate a unique name for the object",
        details={**_resource_details(resource, name), "retryAfterSeconds": retry_after},
    )


def conflict(resource: AnyResource, name: str, why: str) -> Conflict:
    """Return a 409 for a conflicting update or a failed precondition."""
    resource = _group_resource(resource)
    return Conflict(
        f"Operation cannot be fulfilled on {resource} {quote(name)}: {why}",
        details=_resource_details(resource, name),
    )


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def forbidden(resource: AnyResource, name: str, why: str, causes: Sequence[dict[str, Any]] = ()) -> Forbidden:
    """Return a 403 for an object, for a collection if `name` is empty, or for a path if both are empty."""
    resource = _group_resource(resource)
    if not resource.resource and not resource.group:
        return Forbidden(f"forbidden: {why}")
    details = _resource_details(resource, name)
    if causes:
        details["causes"] = list(causes)
    subject = f"{resource} {quote(name)} is forbidden" if name else f"{resource} is forbidden"
    return Forbidden(f"{subject}: {why}", details=details)


def method_not_allowed(resource: AnyResource, action: str) -> MethodNotAllowed:
    """Return a 405 for a verb that the resource does not support."""
    resource = _group_resource(resource)
    return MethodNotAllowed(
        f"{action} is not supported on resources of kind {quote(str(resource))}",
        details=_resource_details(resource, ""),
    )


def internal_error(cause: object) -> InternalError:
    """Return a 500 with its cause."""
    return InternalError(f"Internal error occurred: {cause}", details={"causes": [{"message": str(cause)}]})


def server_timeout(resource: AnyResource, operation: str, retry_after: int = 0) -> ServerTimeout:
    """Return a 500 for an operation that could not be completed and may be retried."""
    resource = _group_resource(resource)
    details = _resource_details(resource, "")
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return ServerTimeout(
        f"The {operation} operation against {resource} could not be completed at this time, "
        "please try again.",
        details=details,
    )


def timeout(message: str, retry_after: int = 0) -> Timeout:
    """Return a 504 for a request that exceeded its timeout."""
    return Timeout(f"Timeout: {message}", details={"retryAfterSeconds": retry_after} if retry_after else None)


def too_large_resource_version(requested: int | str, current: int | str, retry_after: int = 1) -> Timeout:
    """Return a 504 for a read at a resource version that the server has not reached."""
    return Timeout(
        f"Timeout: Too large resource version: {requested}, current: {current}",
        details={
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": retry_after,
        },
    )


def too_many_requests(message: str, retry_after: int = 1) -> TooManyRequests:
    """Return a 429 that asks the client to wait `retry_after` seconds."""
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
    """Return the error for a failed response without a `Status` body; the body becomes a cause."""
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
