"""Bodies of PATCH requests: JSON patch, merge patch, strategic merge patch and apply configurations."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from kubewright.api.errors import APIError, BadRequest, Invalid, UnsupportedMediaType
from kubewright.api.values.go_format import json_type_name
from kubewright.apiserver.encoding.json_errors import json_error
from kubewright.apiserver.encoding.request_body import duplicate_fields, in_body_order
from kubewright.apiserver.encoding.yaml import load_yaml
from kubewright.apiserver.resources.resource import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from kubewright.patch import PATCH_TYPES
from kubewright.schema import field_errors as fe
from kubewright.schema.structural import Node

if TYPE_CHECKING:
    from kubewright.apiserver.resources.objects import Object

_decode = msgspec.json.Decoder().decode


def unsupported_patch(allowed: tuple[str, ...]) -> UnsupportedMediaType:
    """Return the 415 for a patch type that the resource does not accept."""
    return UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: "
        f"{', '.join(allowed)}"
    )


def patch_invalid(shown: str, why: str) -> APIError:
    """Return the 422 for a patch whose result cannot be decoded."""
    error = fe.invalid("patch", shown, why)
    return Invalid(f' "" is invalid: {error}', details={"causes": [error.cause()]})


def _not_a_map(value: Any) -> str:
    kind = json_type_name(value)
    return f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"


def _operation_errors(data: bytes, operations: Any) -> list[str]:
    """Return the strict decoding errors of a JSON patch: duplicate and unknown fields of its operations."""
    found = [f'json patch duplicate field "{path}"' for path in duplicate_fields(data, operations)]
    for position, operation in enumerate(operations if isinstance(operations, list) else ()):
        if isinstance(operation, dict):
            unknown = operation.keys() - {"op", "path", "from", "value"}
            found += [f'json patch unknown field "[{position}].{name}"' for name in sorted(unknown)]
    return in_body_order(data, found) if len(found) > 1 else found


class PatchBody:
    """A decoded patch. `kind` is its media type, `body` the decoded document."""

    def __init__(self, kind: str, data: bytes, node: Node | None) -> None:
        self.kind = kind
        self.data = data
        self.node = node
        self.duplicates: list[str] = []
        """Strict decoding errors: duplicate keys, and unknown fields of JSON patch operations."""
        self.body: Any = self._decode()

    def _decode(self) -> Any:
        if self.kind == APPLY_PATCH:
            try:
                body, self.duplicates = load_yaml(self.data)
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
        except UnicodeDecodeError:
            # Go's decoder replaces invalid UTF-8.
            self.data = self.data.decode("utf-8", "replace").encode()
            return self._decode()
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadRequest(prefix + json_error(self.data, error)) from None
        if self.kind == JSON_PATCH:
            self.duplicates = _operation_errors(self.data, body)
        else:
            if body is None and self.kind == STRATEGIC_PATCH:
                return {}
            if not isinstance(body, dict):
                raise BadRequest("Invalid JSON Patch" if body is None else prefix + _not_a_map(body))
            self.duplicates = [f'duplicate field "{path}"' for path in duplicate_fields(self.data, body)]
        return body

    def apply(self, live: Object) -> Object:
        """Return the patched object; `live` is not changed. Apply configurations go through a field
        manager instead."""
        if self.kind != STRATEGIC_PATCH:
            patched = import_module(f"kubewright.patch.{PATCH_TYPES[self.kind]}").apply(live, self.body)
        else:
            from kubewright.patch import strategic_merge_patch

            patched = strategic_merge_patch.apply(live, self.body, self.node)
            metadata = self.body.get("metadata")
            if _has_plain_metadata(self.node) and type(metadata) is dict and not _has_directive(self.body):
                patched["metadata"] = strategic_merge_patch.apply(
                    live["metadata"], metadata, strategic_merge_patch.OBJECT_META
                )
        if type(patched) is not dict:
            raise BadRequest("the patch does not result in an object")
        return patched

    def in_message_order(self, patched: Object) -> Object:
        """Return a patched object with its fields in the order of kube-apiserver's messages: sorted along the
        paths that the patch changed, unchanged elsewhere."""
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


def _has_plain_metadata(node: Node | None) -> bool:
    """Whether a schema does not describe metadata, as those of custom resources."""
    child = node.child("metadata") if node is not None else None
    return child is None or not child.properties


def _has_directive(patch: Object) -> bool:
    return any(name.startswith("$") for name in patch)


def _sorted_along(value: Any, trace: Any) -> Any:
    if not isinstance(trace, dict):
        return value
    if isinstance(value, list):
        return [_sorted_along(item, trace.get(str(index))) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    return {name: _sorted_along(value[name], trace.get(name)) for name in sorted(value)}
