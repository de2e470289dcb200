"""Embedded resources: `x-kubernetes-embedded-resource`.

An embedded resource has its own `apiVersion`, `kind` and `metadata`, whether or not its schema declares them.
Coercion treats its metadata like that of any object; validation requires `apiVersion` and `kind`.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    for resource, where in _resources(value, node, path):
        _coerce_resource(resource, where, drop_malformed, unknown)
    unknown.sort()
    return unknown


def _resources(value: Any, node: Node, path: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Return the embedded resources in a value with their paths, each before those that it contains."""
    if type(value) is dict:
        if node.embedded_resource:
            yield value, path
        additional = node.additional
        for name in sorted(value):
            item = value[name]
            if type(item) is dict or type(item) is list:
                declared = node.properties.get(name)
                if declared is not None:
                    yield from _resources(item, declared, fe.child(path, name))
                elif additional is not None:
                    yield from _resources(item, additional, fe.key(path, name))
    elif type(value) is list and node.items is not None:
        for position, item in enumerate(value):
            yield from _resources(item, node.items, fe.index(path, position))


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
    if not has_embedded(node) and not node.embedded_resource:
        return []
    return [
        error
        for resource, where in _resources(value, node, path)
        for error in resource_errors(resource, where)
    ]


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
