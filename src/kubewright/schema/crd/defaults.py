"""Validation of the default values in a schema.

A default must be valid under its own schema and contain no unknown fields. A default inside the metadata of
a resource must result in valid metadata.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

from kubewright.api.field_errors import FieldError, aggregate
from kubewright.api.presence import copy_value
from kubewright.schema import field_errors as fe
from kubewright.schema.pruning import prune
from kubewright.schema.structural import NO_DEFAULT, Node, Schema
from kubewright.schema.validation.compiled import Compiled
from kubewright.schema.validation.embedded import coerce_embedded, resource_errors, validate_embedded
from kubewright.schema.validation.metadata import MetadataError
from kubewright.schema.validation.rules import RuleRun, has_rules
from kubewright.schema.validation.values import validate_value

from .internal_form import every_schema

_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
UNKNOWN_FIELDS: Final = "must not have unknown fields"
"""Detail of the error of a default with fields that its schema does not have."""
_META_FIELDS: Final = frozenset(("metadata", "kind", "apiVersion"))
Steps = tuple[str | None, ...]
"""Path inside a resource: field names, `None` for a list element."""


def default_errors(
    node: Node,
    path: str,
    *,
    pruned: bool = True,
    root: bool = True,
    steps: Steps | None = None,
) -> list[FieldError]:
    """Return the errors of all defaults; `steps` is the path of a node inside a resource's metadata."""
    errors: list[FieldError] = []
    resource = root or node.embedded_resource
    if resource:
        steps = None
    if node.default is not NO_DEFAULT and node.default is not None:
        if steps is not None:
            errors += _metadata_default_errors(node, f"{path}.default", steps, root)
        else:
            errors += _default_errors(node, f"{path}.default", pruned, root)
    if node.items is not None:
        below = (*steps, None) if steps is not None else None
        errors += default_errors(node.items, f"{path}.items", pruned=pruned, root=False, steps=below)
    for name in sorted(node.properties):
        inside: Steps | None = (*steps, name) if steps is not None else None
        if resource and name in _META_FIELDS:
            inside = (name,)
        where = f"{path}.properties[{name}]"
        errors += default_errors(node.properties[name], where, pruned=pruned, root=False, steps=inside)
    return errors


def prune_embedded_defaults(schema: Schema) -> None:
    """Remove unknown metadata from embedded resources in defaults, in place; validation reports the rest."""
    schemas = list(every_schema(schema))
    if not any("x-kubernetes-embedded-resource" in inner for inner in schemas):
        return
    for inner in schemas:
        if isinstance(inner.get("default"), dict | list):
            with contextlib.suppress(MetadataError):
                coerce_embedded(inner["default"], Node(inner))


def _default_errors(node: Node, path: str, pruned: bool, root: bool) -> list[FieldError]:
    value = copy_value(node.default)
    errors: list[FieldError] = []
    if pruned:
        prune(value, node, root=root)
        if value != node.default:
            errors.append(fe.invalid(path, node.default, UNKNOWN_FIELDS))
            value = copy_value(node.default)
    try:
        coerce_embedded(value, node, path)
    except MetadataError as error:
        where, _, message = str(error).partition(": ")
        return [*errors, FieldError("FieldValueInvalid", where, message)]
    found = validate_embedded(value, node, path)
    if root and not node.embedded_resource and isinstance(value, dict):
        found = resource_errors(value, path) + found
    return errors + (found or _value_errors(node, value, path, root))


def _metadata_default_errors(node: Node, path: str, steps: Steps, root: bool) -> list[FieldError]:
    """Validate a default inside metadata as part of an otherwise empty resource."""
    surrounding = copy_value(node.default)
    for step in reversed(steps):
        surrounding = [surrounding] if step is None else {step: surrounding}
    resource = {"apiVersion": "validation/v1", "kind": "Validation", **surrounding}
    problems = resource_errors(resource, fe.ROOT)
    if problems:
        text = f"must result in valid metadata: {aggregate(problems)}"
        return [fe.invalid(path, node.default, text)]
    return _value_errors(node, copy_value(node.default), path, root)


def _value_errors(node: Node, value: Any, path: str, root: bool) -> list[FieldError]:
    found = validate_value(Compiled.of(_of_any_type(node)), value, path)
    if not found and has_rules(node):
        found = RuleRun(ratchet=False).validate(node, value, value, path, root=root).errors
        found = found or RuleRun(ratchet=False).validate(node, value, None, path, root=root).errors
    return found


def _of_any_type(node: Node) -> Node:
    """Return the schema without types where it is int-or-string: kube-apiserver ignores the type there."""
    if not any(_INT_OR_STRING in inner for inner in every_schema(node.raw)):
        return node
    loosened = copy_value(node.raw)
    for inner in every_schema(loosened):
        inner.pop(_INT_OR_STRING, None)
    return Node(loosened)


def has_defaults(schema: Schema) -> bool:
    """Return whether a schema contains a default."""
    return any("default" in inner for inner in every_schema(schema))
