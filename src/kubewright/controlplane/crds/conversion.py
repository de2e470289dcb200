"""Conversion of custom resources by a webhook.

The objects of a request go to the webhook together, in a `ConversionReview`. It may change anything but their
identity: name, namespace and uid have to stay, and of the metadata only labels and annotations are taken
over.
"""

from __future__ import annotations

import uuid
from typing import Any, Final

from kubewright.api.field_errors import aggregate
from kubewright.api.gvk import GroupVersion, GroupVersionKind
from kubewright.api.values import go_format
from kubewright.apiserver.encoding.negotiation import encode
from kubewright.apiserver.resources.conversion import ConversionFailed
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.webhooks.client import CallError, Target, WebhookClient
from kubewright.schema.validation.metadata import validate_common_metadata

from .conditions import Definition

REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_GROUP: Final = "apiextensions.k8s.io"
_KIND: Final = "ConversionReview"
_TIMEOUT: Final = 30.0


class WebhookConverter:
    """Converts between the versions of one definition by its webhook."""

    accepts_invalid_objects = True
    """kube-apiserver validates custom resources after mutating admission and conversion."""

    def __init__(self, client: WebhookClient, crd: Definition) -> None:
        spec = crd["spec"]
        webhook = spec["conversion"]["webhook"]
        self._client = client
        self._target = Target.of(webhook["clientConfig"])
        self._group: str = spec["group"]
        self._kind: str = spec["names"]["kind"]
        known = [name for name in webhook.get("conversionReviewVersions") or () if name in REVIEW_VERSIONS]
        self._review: str = known[0] if known else ""

    async def convert(self, objects: list[Object], from_version: str, to_version: str) -> list[Object]:
        """Return new objects in `to_version`, in order."""
        if not objects:
            return []
        if not self._review:
            raise _failed("no supported conversion review versions")
        wanted = GroupVersion(self._group, to_version)
        if all(obj.keys() <= {"apiVersion", "kind"} for obj in objects):
            # Field managers start from objects without fields; webhooks do not expect them.
            return [{**obj, "apiVersion": str(wanted)} for obj in objects]
        source = GroupVersionKind(self._group, from_version, self._kind)
        uid = str(uuid.uuid4())
        review = {
            "kind": _KIND,
            "apiVersion": f"{_GROUP}/{self._review}",
            "request": {
                "uid": uid,
                "desiredAPIVersion": str(wanted),
                "objects": [_unversioned(each) for each in objects],
            },
            "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
        }
        try:
            reply = await self._client.post(
                self._target, encode(review), timeout=_TIMEOUT, review_type="conversion"
            )
            converted = self._read(reply, uid)
        except CallError as error:
            raise _failed(f"conversion webhook for {source} failed: {error}") from None
        if len(converted) != len(objects):
            raise _failed(
                f"conversion webhook for {source} returned {len(converted)} objects, expected {len(objects)}"
            )
        several = len(objects) > 1
        for position, (before, after) in enumerate(zip(objects, converted, strict=True)):
            problem = _problem(before, after, wanted)
            if problem is not None:
                where = (_IN_LIST if several else _ALONE)[problem[0]].format(position)
                raise _failed(f"conversion webhook for {source} returned invalid {where}: {problem[1]}")
        return converted

    def _check_type(self, kind: str, api_version: str, response: Any) -> None:
        group, _, version = api_version.rpartition("/")
        if kind != _KIND or group != _GROUP or version not in REVIEW_VERSIONS:
            raise CallError(
                f'no kind "{kind}" is registered for version "{api_version}" in scheme '
                '"k8s.io/apiserver/pkg/util/webhook/client.go:71"'
            )
        if response is not None and not isinstance(response, dict):
            raise CallError(
                f"json: cannot unmarshal {go_format.json_type_name(response)} into Go struct field "
                "ConversionReview.response of type v1.ConversionResponse"
            )
        if version != self._review:
            raise CallError(f"converting ({version}.{kind}) to ({self._review}.{kind}): unknown conversion")

    def _read(self, review: Object, uid: str) -> list[Any]:
        given_kind, given_version = review.get("kind") or "", review.get("apiVersion") or ""
        response = review.get("response")
        self._check_type(given_kind or _KIND, given_version or f"{_GROUP}/{self._review}", response)
        if self._review == "v1":
            group, _, version = given_version.rpartition("/")
            got, expected = f"{group}/{version}, Kind={given_kind}", f"{_GROUP}/v1, Kind={_KIND}"
            if got != expected:
                raise CallError(f"expected webhook response of {expected}, got {got}")
        if not isinstance(response, dict):
            raise CallError("no response provided")
        if self._review == "v1" and response.get("uid") != uid:
            given = response.get("uid") or ""
            raise CallError(f'expected response.uid="{uid}", got "{given}"')
        result = response.get("result") or {}
        if result.get("status") != "Success":
            text = f"response.result.status was '{result.get('status') or ''}', not 'Success'"
            raise CallError(result.get("message") or text)
        return response.get("convertedObjects") or []


def _unversioned(obj: Object) -> Object:
    """An object as it is stored: what it is stored as has no resource version yet."""
    metadata = {
        name: value for name, value in (obj.get("metadata") or {}).items() if name != "resourceVersion"
    }
    return {**obj, "metadata": metadata}


def _failed(message: str) -> ConversionFailed:
    return ConversionFailed(message, reason="", code=500)


_ALONE: Final = {"type": "object at index {}", "identity": "object", "metadata": "metadata"}
_IN_LIST: Final = {
    "type": "converted object at index {}",
    "identity": "converted object at index {}",
    "metadata": "metadata in object at index {}",
}


def _problem(before: Object, after: Any, wanted: GroupVersion) -> tuple[str, str] | None:
    """Return field and message of an invalid converted object; restore the metadata of a valid one."""
    if not isinstance(after, dict) or not after.get("kind"):
        return "type", "Object 'Kind' is missing"
    if after.get("apiVersion") != str(wanted):
        return "type", f"invalid groupVersion (expected {wanted}, received {after.get('apiVersion') or ''})"
    if after.get("kind") != before.get("kind"):
        return "type", f"invalid kind (expected {before.get('kind')}, received {after.get('kind')})"
    metadata, original = after.get("metadata"), before.get("metadata") or {}
    shown = metadata if isinstance(metadata, dict) else {}
    for field, word in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        had, has = original.get(field) or "", shown.get(field) or ""
        if had != has:
            return "identity", f"must have the same {word}: {had} != {has}"
    if metadata is None:
        return "metadata", "missing metadata in converted object"
    if not isinstance(metadata, dict):
        return "metadata", f"invalid metadata of type {go_format.type_name(metadata)} in converted object"
    kept = dict(original)
    for field in ("labels", "annotations"):
        values = metadata.get(field)
        if values is None:
            kept.pop(field, None)
            continue
        if not isinstance(values, dict):
            kind = go_format.type_name(values)
            return "metadata", f"invalid metadata.{field} of type {kind} in converted object"
        for key, value in values.items():
            if not isinstance(value, str):
                text = f"must be a string, but is {go_format.type_name(value)} in converted object"
                return "metadata", f"metadata.{field}[{key}] {text}"
        errors = (
            validate_common_metadata({field: values}, "metadata") if values != original.get(field) else ()
        )
        if errors:
            return "metadata", aggregate(errors)
        kept[field] = values
    after["metadata"] = kept
    return None
