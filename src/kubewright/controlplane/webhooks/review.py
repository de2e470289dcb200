"""AdmissionReview requests and responses.

`v1` responses are validated strictly: kind, uid of the request, patchType with a patch. `v1beta1` responses
are not.
"""

from __future__ import annotations

import uuid
from base64 import b64decode
from binascii import Error as Base64Error
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kubewright.api.errors import APIError
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.values.go_format import quote
from kubewright.apiserver.admission import AdmissionAttributes
from kubewright.apiserver.resources.objects import Object, metadata_without_time
from kubewright.controlplane.admission.policies.equivalents import Match
from kubewright.controlplane.admission.policies.request_value import request_value

from .client import CallError
from .hook import Hook

_GROUP: Final = "admission.k8s.io"


@dataclass(slots=True)
class WebhookResponse:
    """Response of a webhook."""

    allowed: bool
    status: Object | None
    patch: list[Any] | None
    warnings: list[str]
    annotations: dict[str, str]


def admission_review(
    hook: Hook, request: AdmissionAttributes, form: Match, obj: Object | None, old: Object | None
) -> Object:
    """Return the review for a webhook; raise `CallError` if it supports no known version."""
    for version in hook.review_versions:
        if version in ("v1", "v1beta1"):
            break
    else:
        raise CallError("webhook does not accept known AdmissionReview versions (v1, v1beta1)")
    inside = {"uid": str(uuid.uuid4()), **request_value(request, form)}
    options = inside.pop("options")
    dry_run = inside.pop("dryRun")
    if (
        request.operation == "CREATE"
        and obj is not None
        and not (request.definition and request.definition.custom)
    ):
        metadata = obj.get("metadata")
        if metadata is not None and "creationTimestamp" not in metadata:
            obj = {**obj, "metadata": metadata_without_time(**metadata)}
    inside.update(object=obj, oldObject=old, dryRun=dry_run, options=options)
    return {"kind": "AdmissionReview", "apiVersion": f"{_GROUP}/{version}", "request": inside}


def parse_response(review: Object, body: Object, *, mutating: bool) -> WebhookResponse:
    """Parse the response of a webhook; raise `CallError` if it is invalid."""
    _check_kind(body, review["apiVersion"])
    response = body.get("response")
    if response is None:
        raise CallError("webhook response was absent")
    _check_types(response)
    patch, patch_type = response.get("patch"), response.get("patchType")
    if review["apiVersion"] == f"{_GROUP}/v1":
        uid, given = review["request"]["uid"], response.get("uid") or ""
        if uid != given:
            raise CallError(f"expected response.uid={quote(uid)}, got {quote(str(given))}")
        got = GroupVersionKind.from_api_version(body.get("apiVersion") or "", body.get("kind") or "")
        wanted = GroupVersionKind(_GROUP, "v1", "AdmissionReview")
        if got != wanted:
            raise CallError(f"expected webhook response of {wanted}, got {_shown(got)}")
        _check_patch(patch, patch_type, mutating)
    return WebhookResponse(
        allowed=response.get("allowed") is True,
        status=response.get("status"),
        patch=_operations(patch) if patch and mutating else None,
        warnings=response.get("warnings") or [],
        annotations=response.get("auditAnnotations") or {},
    )


def _shown(kind: GroupVersionKind) -> str:
    return str(kind) if kind.group or kind.version else f"/, Kind={kind.kind}"


def _check_patch(patch: Any, patch_type: Any, mutating: bool) -> None:
    if not mutating:
        for name, value in (("patch", patch), ("patchType", patch_type)):
            if value or (name == "patchType" and value is not None):
                raise CallError(f"validating webhook may not return response.{name}")
        return
    if patch and patch_type is None:
        raise CallError("webhook returned response.patch but not response.patchType")
    if not patch and patch_type is not None:
        raise CallError("webhook returned response.patchType but not response.patch")
    if patch_type == "":
        raise CallError('webhook returned invalid response.patchType of ""')


class BadPatch(CallError):
    """A patch cannot be decoded."""


class Undecodable(CallError):
    """A response is not an AdmissionReview."""


_FIELDS: Final[dict[str, tuple[type, str]]] = {
    "uid": (str, "types.UID"),
    "allowed": (bool, "bool"),
    "status": (dict, "v1.Status"),
    "patch": (str, "[]uint8"),
    "patchType": (str, "v1.PatchType"),
    "auditAnnotations": (dict, "map[string]string"),
    "warnings": (list, "[]string"),
}
_JSON_KINDS: Final = {
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
    list: "array",
    dict: "object",
}


def _check_kind(body: Object, expected: str) -> None:
    kind, api_version = body.get("kind") or "AdmissionReview", body.get("apiVersion") or expected
    if kind != "AdmissionReview" or api_version not in (f"{_GROUP}/v1", f"{_GROUP}/v1beta1"):
        raise Undecodable(
            f'no kind "{kind}" is registered for version "{api_version}" in scheme '
            '"k8s.io/apiserver/pkg/util/webhook/client.go:71"'
        )
    if api_version != expected:
        given, wanted = api_version.rpartition("/")[2], expected.rpartition("/")[2]
        raise Undecodable(
            f"converting ({given}.AdmissionReview) to ({wanted}.AdmissionReview): unknown conversion"
        )


def _check_types(response: Any) -> None:
    if type(response) is not dict:
        kind = _JSON_KINDS[type(response)]
        raise Undecodable(
            f"json: cannot unmarshal {kind} into Go struct field AdmissionReview.response of type "
            "v1.AdmissionResponse"
        )
    for name, (wanted, shown) in _FIELDS.items():
        value: Any = response.get(name)
        if value is None:
            continue
        if type(value) is not wanted:
            raise _unfit(value, name, shown)
        held: Any = response[name]
        for part in held.values() if name == "auditAnnotations" else held if name == "warnings" else ():
            if type(part) is not str:
                raise _unfit(part, name, "string")


def _unfit(value: Any, name: str, wanted: str) -> Undecodable:
    found = _JSON_KINDS.get(type(value), "null")
    return Undecodable(
        f"json: cannot unmarshal {found} into Go struct field AdmissionResponse.response.{name} "
        f"of type {wanted}"
    )


def _operations(patch: Any) -> list[Any]:
    try:
        operations = msgspec.json.decode(b64decode(patch, validate=True))
    except (msgspec.DecodeError, Base64Error, ValueError, TypeError) as error:
        raise BadPatch(str(error)) from None
    if operations is None:
        return []
    if not isinstance(operations, list):
        kind = "object" if isinstance(operations, dict) else "string"
        raise BadPatch(f"json: cannot unmarshal {kind} into Go value of type jsonpatch.Patch")
    return operations


def rejection(name: str, status: Object | None) -> APIError:
    """Return the error for a request that a webhook rejected."""
    start = f'admission webhook "{name}" denied the request'
    given = dict(status or {})
    reason, message = given.get("reason") or "", given.get("message") or ""
    code = given.get("code") or 0
    if not isinstance(code, int) or code < 400:
        code = 400
    why = message or reason
    text = f"{start}: {why}" if why else f"{start} without explanation"
    return APIError(text, reason=reason, code=code, details=given.get("details"))
