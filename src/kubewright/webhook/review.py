"""Requests and responses of admission webhooks (`AdmissionReview`).

`read_review` decodes a review into an `AdmissionRequest`; `encode_response` encodes an `AdmissionResponse` in
the version of the request. A body that is not a review raises `InvalidReviewError`, which becomes a 400
response with the reason, so that the API server's own message shows what was wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from kubewright.api.encoding import codec
from kubewright.api.field_errors import FieldError
from kubewright.api.gvk import GroupVersionKind, GroupVersionResource
from kubewright.api.meta import MetaObject
from kubewright.api.objects import Struct, set_base

T = TypeVar("T", bound=MetaObject)

VERSIONS = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")


class InvalidReviewError(ValueError):
    """The body of a webhook request is not a valid review."""


class Denied(Exception):
    """Deny the request. `errors` become the causes in the response, one per field."""

    def __init__(
        self,
        message: str = "",
        *,
        errors: Iterable[FieldError] = (),
        code: int = 403,
        reason: str = "Forbidden",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.errors = tuple(errors)
        self.code = code
        self.reason = reason


class UserInfo(Struct):
    """The user who sent the request."""

    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _Kind(Struct):
    group: str = ""
    version: str = ""
    kind: str = ""
    resource: str = ""


class _Request(Struct):
    uid: str = ""
    kind: _Kind = msgspec.field(default_factory=_Kind)
    resource: _Kind = msgspec.field(default_factory=_Kind)
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = ""
    user_info: UserInfo = msgspec.field(default_factory=UserInfo)
    object: msgspec.Raw = msgspec.Raw(b"null")
    old_object: msgspec.Raw = msgspec.Raw(b"null")
    dry_run: bool | None = None
    options: dict[str, Any] | None = None


class _Review(Struct):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


@dataclass(slots=True)
class AdmissionRequest:
    """An admission request of the API server."""

    uid: str
    operation: str
    """CREATE, UPDATE, DELETE or CONNECT."""
    kind: GroupVersionKind
    resource: GroupVersionResource
    subresource: str
    name: str
    """Empty on CREATE with generateName."""
    namespace: str
    user: UserInfo
    dry_run: bool
    """Nothing will be stored; the webhook must not have side effects."""
    options: dict[str, Any]
    raw: bytes | None
    """The new object; `None` on DELETE."""
    old_raw: bytes | None
    """The stored object; `None` on CREATE."""
    api_version: str = VERSIONS[0]
    warnings: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        """Add a warning to the response, without rejecting the request."""
        self.warnings.append(text)

    def object(self, kind: type[T]) -> T | None:
        """Decode the new object."""
        return _decode(self.raw, kind)

    def old_object(self, kind: type[T]) -> T | None:
        """Decode the stored object."""
        return _decode(self.old_raw, kind)


@dataclass(slots=True)
class AdmissionResponse:
    """The response of an admission webhook."""

    allowed: bool = True
    message: str = ""
    code: int = 403
    reason: str = "Forbidden"
    errors: tuple[FieldError, ...] = ()
    patch: list[dict[str, Any]] | None = None
    warnings: list[str] = field(default_factory=list)
    audit_annotations: dict[str, str] = field(default_factory=dict)


def _decode(raw: bytes | None, kind: type[T]) -> T | None:
    if raw is None:
        return None
    obj = codec.decode(raw, kind)
    set_base(obj, raw)
    return obj


_decode_review = codec.decoder(_Review).decode


def read_review(body: bytes) -> AdmissionRequest:
    """Decode an `AdmissionReview`. Raises `InvalidReviewError`."""
    try:
        review = _decode_review(body)
    except msgspec.DecodeError as error:
        raise InvalidReviewError(f"the body is not an AdmissionReview: {error}") from None
    if review.kind != "AdmissionReview" or review.api_version not in VERSIONS:
        raise InvalidReviewError(
            f"expected an AdmissionReview of {' or '.join(VERSIONS)}, got {review.api_version} {review.kind}"
        )
    request = review.request
    if request is None or not request.uid:
        raise InvalidReviewError("the AdmissionReview has no request")
    kind, resource = request.kind, request.resource
    return AdmissionRequest(
        uid=request.uid,
        operation=request.operation,
        kind=GroupVersionKind(kind.group, kind.version, kind.kind),
        resource=GroupVersionResource(resource.group, resource.version, resource.resource),
        subresource=request.sub_resource,
        name=request.name,
        namespace=request.namespace,
        user=request.user_info,
        dry_run=bool(request.dry_run),
        options=request.options or {},
        raw=_present(request.object),
        old_raw=_present(request.old_object),
        api_version=review.api_version,
    )


def _present(raw: msgspec.Raw) -> bytes | None:
    data = bytes(raw)
    return None if data == b"null" else data


def encode_response(request: AdmissionRequest, response: AdmissionResponse) -> bytes:
    """Encode a response as an `AdmissionReview` in the version of the request."""
    import base64

    body: dict[str, Any] = {"uid": request.uid, "allowed": response.allowed}
    if not response.allowed:
        body["status"] = _status(request, response)
    elif response.patch:
        body["patchType"] = "JSONPatch"
        body["patch"] = base64.b64encode(codec.encode(response.patch)).decode()
    warnings = [*request.warnings, *response.warnings]
    if warnings:
        body["warnings"] = warnings
    if response.audit_annotations:
        body["auditAnnotations"] = response.audit_annotations
    return codec.encode({"apiVersion": request.api_version, "kind": "AdmissionReview", "response": body})


def _status(request: AdmissionRequest, response: AdmissionResponse) -> dict[str, Any]:
    status: dict[str, Any] = {
        "metadata": {},
        "status": "Failure",
        "message": response.message,
        "reason": response.reason,
        "code": response.code,
    }
    if response.errors:
        status["details"] = {
            "name": request.name,
            "group": request.kind.group,
            "kind": request.kind.kind,
            "causes": [error.cause() for error in response.errors],
        }
    return status
