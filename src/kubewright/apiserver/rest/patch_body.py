"""Patches and field ownership at one endpoint: the seam between requests and `kubewright.patch`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import yaml

from kubewright.api import go_format
from kubewright.api.errors import APIError, BadRequest, Invalid, UnsupportedMediaType
from kubewright.api.gvk import GroupVersion
from kubewright.apiserver.encoding.json_errors import json_complaint
from kubewright.apiserver.encoding.yaml import load_yaml
from kubewright.patch import FieldManager, FieldSet, VersionNotServed, json_patch, merge_patch, zero_value
from kubewright.patch.field_set import fields_path
from kubewright.schema import field_errors as fe
from kubewright.schema.structural import Node

if TYPE_CHECKING:
    from kubewright.apiserver.objects import Object
    from kubewright.apiserver.resource import Resource, Version

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_decode = msgspec.json.Decoder().decode
_ResultT = TypeVar("_ResultT")


ConversionKey = tuple[bytes, str, str]
"""An object, its version, and the one it is wanted in."""
_answers: ContextVar[dict[ConversionKey, bytes]] = ContextVar("conversions")


class ConversionRequired(Exception):
    """Ownership needs an object in another version, which has to be waited for."""

    def __init__(self, question: ConversionKey) -> None:
        super().__init__(question[2])
        self.question = question


async def with_conversions(
    act: Callable[[], _ResultT], convert: Callable[[Object, str, str], Awaitable[Object]]
) -> _ResultT:
    """The result of work on field ownership, which starts over whenever it has to wait for a conversion."""
    found: dict[ConversionKey, bytes] = {}
    token = _answers.set(found)
    try:
        while True:
            try:
                return act()
            except ConversionRequired as missing:
                value, have, wanted = missing.question
                try:
                    answer = msgspec.json.encode(await convert(_decode(value), have, wanted))
                except APIError:
                    answer = b""
                found[missing.question] = answer
    finally:
        _answers.reset(token)


def field_manager(resource: Resource, version: Version, subresource: str) -> FieldManager:
    """Who owns which field, as seen from one endpoint."""
    ignored_names = resource.strategy.reset_fields(subresource)
    if not subresource and "status" not in version.subresources:
        ignored_names = tuple(name for name in ignored_names if name not in resource.strategy.status_fields)
    ignored = {}
    if ignored_names:
        fields = FieldSet.of(*(fields_path(*name.split(".")) for name in ignored_names))
        ignored = {str(GroupVersion(resource.group, each.name)): fields for each in resource.versions}

    def node_for(api_version: str) -> Node | None:
        found = resource.version(api_version.rpartition("/")[2])
        if found is None or api_version != str(GroupVersion(resource.group, found.name)):
            raise VersionNotServed(api_version)
        return found.schema

    def convert(obj: Object, api_version: str) -> Object:
        wanted = api_version.rpartition("/")[2]
        have = obj["apiVersion"].rpartition("/")[2]
        if resource.version(wanted) is None or resource.converter is None:
            raise VersionNotServed(api_version)
        if waits:
            question = (msgspec.json.encode(obj), have, wanted)
            answer = _answers.get().get(question)
            if answer is None:
                raise ConversionRequired(question)
            if not answer:
                raise VersionNotServed(api_version)
            return _decode(answer)  # type: ignore[no-any-return]
        try:
            made: Any = resource.converter.convert([dict(obj)], have, wanted)
        except Exception as error:
            # Ownership is compared on parts of objects, too, which a converter need not be able to read.
            raise VersionNotServed(api_version) from error
        return made[0]  # type: ignore[no-any-return]

    waits = inspect.iscoroutinefunction(getattr(resource.converter, "convert", None))
    node = version.schema
    empty = None
    if not resource.custom and node is not None:
        empty = {"metadata": {}, **version.shown} if version.shown else zero_value(node)
    return FieldManager(
        str(GroupVersion(resource.group, version.name)),
        resource.kind,
        node,
        subresource=subresource,
        ignored=ignored,
        node_for=node_for,
        convert=convert,
        empty=empty,
    )


def unsupported_patch(allowed: tuple[str, ...]) -> UnsupportedMediaType:
    """415 for a kind of patch that the resource does not take."""
    return UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: "
        f"{', '.join(allowed)}"
    )


def patch_invalid(shown: str, why: str) -> APIError:
    """422 for a patch that makes something else of an object."""
    error = fe.invalid("patch", shown, why)
    return Invalid(f' "" is invalid: {error}', details={"causes": [error.cause()]})


def _not_a_map(value: Any) -> str:
    kind = go_format.json_type_name(value)
    return f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"


def _strange_operations(data: bytes, operations: Any) -> list[str]:
    """What strict reading has against the operations of a JSON patch: fields given twice, or unknown."""
    from kubewright.apiserver.encoding.request_body import duplicate_fields

    found = [f'json patch duplicate field "{path}"' for path in duplicate_fields(data, operations)]
    for position, operation in enumerate(operations if isinstance(operations, list) else ()):
        if isinstance(operation, dict):
            strange = operation.keys() - {"op", "path", "from", "value"}
            found += [f'json patch unknown field "[{position}].{name}"' for name in sorted(strange)]
    return found


class PatchBody:
    """A patch that has been read: `apply(live)` gives the patched object, without touching `live`."""

    def __init__(self, kind: str, data: bytes, node: Node | None) -> None:
        self.kind = kind
        self.data = data
        self.node = node
        self.repeated: list[str] = []
        self.body: Any = self._read()

    def _read(self) -> Any:
        from kubewright.apiserver.encoding.request_body import duplicate_fields

        if self.kind == APPLY_PATCH:
            try:
                body, self.repeated = load_yaml(self.data)
            except yaml.YAMLError as error:
                raise BadRequest(f"error decoding YAML: error converting YAML to JSON: {error}") from None
            body = {} if body is None else body
            if not isinstance(body, dict):
                raise BadRequest(
                    f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {_not_a_map(body)}"
                )
            return body
        prefix = "" if self.kind == STRATEGIC_PATCH else "error decoding patch: "
        try:
            body = _decode(self.data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadRequest(prefix + json_complaint(self.data, error)) from None
        if self.kind == JSON_PATCH:
            self.repeated = _strange_operations(self.data, body)
        else:
            if body is None and self.kind == STRATEGIC_PATCH:
                return {}
            if not isinstance(body, dict):
                raise BadRequest("Invalid JSON Patch" if body is None else prefix + _not_a_map(body))
            self.repeated = [f'duplicate field "{path}"' for path in duplicate_fields(self.data, body)]
        return body

    def apply(self, live: Object) -> Object:
        """The patched object (not for apply patches)."""
        if self.kind == JSON_PATCH:
            patched = json_patch.apply(live, self.body)
        elif self.kind == MERGE_PATCH:
            patched = merge_patch.apply(live, self.body)
        else:
            from kubewright.patch import strategic_merge_patch

            patched = strategic_merge_patch.apply(live, self.body, self.node)
        if type(patched) is not dict:
            raise BadRequest("the patch does not result in an object")
        return patched

    def as_written(self, patched: Object) -> Object:
        """A patched object with its fields in the order in which it is written: sorted in what the patch
        went through, as it was in the rest."""
        if self.kind == MERGE_PATCH:
            patched = _sorted_along(patched, self.body)
        for operation in self.body or () if self.kind == JSON_PATCH else ():
            for name in ("path", "from"):
                path = operation.get(name) if isinstance(operation, dict) else None
                if isinstance(path, str):
                    trace: Any = None
                    for part in reversed(path.split("/")[1:]):
                        trace = {part.replace("~1", "/").replace("~0", "~"): trace}
                    patched = _sorted_along(patched, trace)
        return patched


def _sorted_along(value: Any, trace: Any) -> Any:
    if not isinstance(trace, dict):
        return value
    if isinstance(value, list):
        return [_sorted_along(item, trace.get(str(index))) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    return {name: _sorted_along(value[name], trace.get(name)) for name in sorted(value)}
