"""Schemas for OpenAPI v2, and merging of v2 documents.

OpenAPI v2 has no alternatives and no `null`; defaults are only in v3, and a reference can have a description.
kubectl treats a value without a type as any value and fails on arrays without items and on properties beside
additionalProperties, so types are omitted there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

Schema = dict[str, Any]

_DROPPED = ("oneOf", "anyOf", "not", "default")


def simplify(schema: Schema) -> None:
    """Remove what version 2 does not support from a schema, in place."""
    alternatives = [each.get("type") for each in schema.get("oneOf") or ()]
    if "string" in alternatives and "type" not in schema:
        schema["type"] = "string"
    for name in _DROPPED:
        schema.pop(name, None)
    whole = schema.pop("allOf", None)
    if whole and len(whole) == 1 and whole[0].keys() == {"$ref"}:
        schema["$ref"] = whole[0]["$ref"]
    properties: Schema = schema.get("properties") or {}
    required = [name for name in schema.get("required") or () if not _nullable(properties.get(name))]
    if required:
        schema["required"] = required
    else:
        schema.pop("required", None)
    if schema.pop("nullable", False):
        _untype(schema, "type", "items", "properties")
    if schema.get("x-kubernetes-preserve-unknown-fields") is True:
        _untype(schema, "items", "properties")
        if schema.get("type") == "object":
            del schema["type"]
    if schema.get("type") == "array" and "items" not in schema:
        del schema["type"]
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            simplify(inner)
    for inner in (schema.get("properties") or {}).values():
        simplify(inner)


def _nullable(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("nullable") is True


def _untype(schema: Schema, *names: str) -> None:
    for name in names:
        schema.pop(name, None)


def merge_documents(document: Schema, other: Schema) -> None:
    """Merge the paths of another document, and the definitions and parameters that they use.

    An entry that differs from one of the same name is renamed.
    """
    renamed: dict[str, str] = {}
    for section in ("definitions", "parameters"):
        for name, entry in (other.get(section) or {}).items():
            free, number = name, 2
            while not _is_free(document[section].get(free), entry):
                free, number = f"{name}_v{number}", number + 1
            renamed[f"#/{section}/{name}"] = f"#/{section}/{free}"
    for section in ("definitions", "parameters"):
        for name, entry in (other.get(section) or {}).items():
            free = renamed[f"#/{section}/{name}"].rpartition("/")[2]
            document[section].setdefault(free, _renamed(entry, renamed))
    for path, operations in (other.get("paths") or {}).items():
        if path.startswith("/apis/") and path.count("/") > 3:
            document["paths"].setdefault(path, _renamed(operations, renamed))


def _is_free(there: Any, entry: Any) -> bool:
    """Whether an entry can use a name: it is not used, or by an equal entry."""
    return there is None or (msgspec.json.decode(there) if isinstance(there, msgspec.Raw) else there) == entry


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    if isinstance(schema, dict):
        made = {key: _renamed(value, names) for key, value in schema.items()}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            made["$ref"] = names.get(reference, reference)
        return made
    return [_renamed(value, names) for value in schema] if isinstance(schema, list) else schema
