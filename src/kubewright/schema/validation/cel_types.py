"""CEL types of schema nodes.

Rules can access a field only if its type is declared, not if unknown fields are merely preserved. At the root
of a resource, `apiVersion`, `kind`, `metadata.name` and `metadata.generateName` are always accessible. Types
have maximum sizes for cost estimation, from the schema or from the request size limit.
"""

from __future__ import annotations

from typing import Final

from kubewright import cel
from kubewright.cel.costs import limits
from kubewright.schema.structural import NO_DEFAULT, Node, Schema

_MAX_NAME: Final = 253


def cel_type(node: Node, *, root: bool = False) -> cel.Type | None:
    """Return the CEL type of a node, or `None` if rules cannot access it; `root` marks a resource."""
    key = "cel-root-type" if root else "cel-type"
    if key not in node.extra:
        node.extra[key] = _convert(node, root or node.embedded_resource)
    found: cel.Type | None = node.extra[key]
    return found


def _convert(node: Node, root: bool) -> cel.Type | None:
    raw = node.raw
    if node.int_or_string:
        longest = raw.get("maxLength")
        return cel.int_or_string_type(max(longest, 0) * 4 if longest is not None else None)
    if node.type == "array":
        items = node.items
        item_type = cel_type(items) if items is not None else None
        if item_type is None:
            return None
        bound = raw.get("maxItems")
        size = max(bound, 0) if bound is not None else limits.max_items(item_type.min_json)
        return cel.list_type(item_type, size, kind=node.list_type, keys=node.list_map_keys)
    if node.type == "object":
        return _object(node, root)
    if node.type == "string":
        return _string(raw)
    return {"boolean": cel.BOOL, "number": cel.DOUBLE, "integer": cel.INT}.get(node.type)


def _object(node: Node, root: bool) -> cel.Type | None:
    raw = node.raw
    if isinstance(raw.get("additionalProperties"), dict) and not root:
        additional = node.additional
        value_type = cel_type(additional) if additional is not None else None
        if value_type is None:
            return None
        bound = raw.get("maxProperties")
        size = max(bound, 0) if bound is not None else limits.max_properties(value_type.min_json)
        return cel.map_type(cel.MAP_KEY, value_type, size)
    fields: dict[str, cel.Type] = {}
    smallest = limits.MIN_CONTAINER_SIZE
    for name, child in node.properties.items():
        field_type = cel_type(child)
        if field_type is None:
            continue
        fields[name] = field_type
        if name in node.required and child.default is NO_DEFAULT:
            smallest += len(name.encode()) + field_type.min_json + 4
    if root:
        fields |= {"apiVersion": _unbounded(), "kind": _unbounded(), "metadata": _metadata(node)}
    return cel.object_type("object", fields, min_json=smallest)


def _unbounded() -> cel.Type:
    return cel.string_type(limits.MAX_STRING_SIZE)


def _metadata(node: Node) -> cel.Type:
    declared = node.properties.get("metadata")
    names = declared.properties if declared is not None else {}

    def bounded(name: str, longest: int) -> cel.Type:
        stated = names[name].raw.get("maxLength") if name in names else None
        return cel.string_type(4 * (longest if stated is None else min(longest, max(stated, 0))))

    return cel.object_type(
        "object", {"name": bounded("name", _MAX_NAME), "generateName": bounded("generateName", _MAX_NAME - 1)}
    )


def _string(raw: Schema) -> cel.Type:
    longest = raw.get("maxLength")
    match raw.get("format"):
        case "byte":
            return cel.bytes_type(max(longest, 0) if longest is not None else limits.MAX_STRING_SIZE)
        case "duration":
            return cel.duration_type()
        case "date":
            return cel.timestamp_type(date=True)
        case "date-time":
            return cel.timestamp_type()
    if longest is not None:
        return cel.string_type(max(longest, 0) * 4)
    if raw.get("enum"):
        return cel.string_type(
            max((len(item.encode()) for item in raw["enum"] if isinstance(item, str)), default=0)
        )
    return _unbounded()
