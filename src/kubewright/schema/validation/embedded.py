"""Embedded resources: `x-kubernetes-embedded-resource`.

An embedded resource has its own `apiVersion`, `kind` and `metadata`, whether or not its schema declares them.
Coercion treats its metadata like that of any object; validation requires `apiVersion` and `kind`.
"""

from __future__ import annotations

from typing import Any

from kubewright.api.field_errors import FieldError
from kubewright.api.gvk import GroupVersion
from kubewright.api.values.names import check_dns_1035_label, check_path_segment
from kubewright.schema import field_errors as fe
from kubewright.schema.structural import Node

from .metadata import MetadataError, coerce_metadata, validate_metadata


def _is_embedded(node: Node) -> bool:
    return node.embedded_resource


def has_embedded(node: Node) -> bool:
    """Return whether this schema contains an embedded resource."""
    return node.reaches("reaches-embedded", _is_embedded)


def coerce_embedded(
    value: Any, node: Node, path: str = fe.ROOT, *, drop_malformed: bool = False
) -> list[str]:
    """Coerce the metadata of embedded resources in place; return the paths of unknown fields, sorted.

    Raise `MetadataError` for metadata that cannot be decoded, unless `repair` is set.
    """
    unknown: list[str] = []
    _coerce(value, node, path, drop_malformed, unknown)
    unknown.sort()
    return unknown


def _coerce(value: Any, node: Node, path: str, drop: bool, unknown: list[str]) -> None:
    if type(value) is dict:
        if node.embedded_resource:
            _coerce_resource(value, path, drop, unknown)
        additional = node.additional
        for name in sorted(value):
            item = value[name]
            if type(item) is dict or type(item) is list:
                declared = node.properties.get(name)
                if declared is not None:
                    _coerce(item, declared, fe.child(path, name), drop, unknown)
                elif additional is not None:
                    _coerce(item, additional, fe.key(path, name), drop, unknown)
    elif type(value) is list and node.items is not None:
        for position, item in enumerate(value):
            _coerce(item, node.items, fe.index(path, position), drop, unknown)


def _coerce_resource(value: dict[str, Any], path: str, drop: bool, unknown: list[str]) -> None:
    for name in ("apiVersion", "kind"):
        if name in value and type(value[name]) is not str:
            if not drop:
                raise MetadataError(str(fe.invalid(fe.child(path, name), value[name], "must be a string")))
            del value[name]
    if "metadata" in value:
        where = fe.child(path, "metadata")
        try:
            metadata, dropped = coerce_metadata(value["metadata"], drop_malformed=drop)
        except MetadataError as error:
            raise MetadataError(str(fe.invalid(where, value["metadata"], str(error)))) from None
        unknown += [f"{where}.{name}" for name in dropped]
        if metadata is not None:
            value["metadata"] = metadata


def validate_embedded(value: Any, node: Node, path: str = fe.ROOT) -> list[FieldError]:
    """Return the errors of the embedded resources in a value."""
    errors: list[FieldError] = []
    if has_embedded(node) or node.embedded_resource:
        _validate(value, node, path, errors)
    return errors


def _validate(value: Any, node: Node, path: str, errors: list[FieldError]) -> None:
    if type(value) is dict:
        if node.embedded_resource:
            errors += resource_errors(value, path)
        additional = node.additional
        for name in sorted(value):
            item = value[name]
            if type(item) is dict or type(item) is list:
                declared = node.properties.get(name)
                if declared is not None:
                    _validate(item, declared, fe.child(path, name), errors)
                elif additional is not None:
                    _validate(item, additional, fe.key(path, name), errors)
    elif type(value) is list and node.items is not None:
        for position, item in enumerate(value):
            _validate(item, node.items, fe.index(path, position), errors)


def resource_errors(value: dict[str, Any], path: str) -> list[FieldError]:
    """Return the errors of `apiVersion`, `kind` and `metadata` of one embedded resource."""
    errors = [fe.required(fe.child(path, name)) for name in ("apiVersion", "kind") if name not in value]
    if "apiVersion" in value:
        errors += _type_meta_errors(fe.child(path, "apiVersion"), value["apiVersion"], _api_version_problem)
    if "kind" in value:
        errors += _type_meta_errors(fe.child(path, "kind"), value["kind"], _kind_problem)
    if "metadata" in value:
        where = fe.child(path, "metadata")
        try:
            metadata, _ = coerce_metadata(value["metadata"])
        except MetadataError as error:
            return [*errors, fe.invalid(where, value["metadata"], str(error))]
        named = {"name": "fakename", **(metadata or {})}
        errors += validate_metadata(
            named, where, namespaced=bool(named.get("namespace")), name_rule=check_path_segment
        )
    return errors


def _type_meta_errors(path: str, value: Any, problem: Any) -> list[FieldError]:
    if type(value) is not str:
        return [fe.invalid(path, value, "must be a string")]
    text = "must not be empty" if not value else problem(value)
    return [fe.invalid(path, value, text)] if text else []


def _api_version_problem(text: str) -> str:
    try:
        GroupVersion.parse(text)
    except ValueError as error:
        return str(error)
    return ""


def _kind_problem(text: str) -> str:
    problems = check_dns_1035_label(text.lower())
    return "may have mixed case, but should otherwise match: " + ",".join(problems) if problems else ""
