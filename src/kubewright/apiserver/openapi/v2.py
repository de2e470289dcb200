"""Schemas as version 2 of OpenAPI can say them, and as kubectl reads them there.

Version 2 knows no alternatives and no `null`; defaults are left to version 3, and a reference may stand
beside a description. Clients of version 2 take a value without a type for anything, and stumble over arrays
without items and over properties where others are allowed, so types are left out there.

There is one document for all servers behind this one: theirs are merged into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

Schema = dict[str, Any]

_DROPPED = ("oneOf", "anyOf", "not", "default")


def simplify(schema: Schema) -> None:
    """Take out of a schema, in place, what version 2 does not have."""
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
    """Add the paths of another server's document, and the definitions and parameters that they use.

    Where both have another one of one name, that of the other document gets a number.
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
    """Whether an entry may have a name that this one has, if any."""
    return there is None or (msgspec.json.decode(there) if isinstance(there, msgspec.Raw) else there) == entry


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    if isinstance(schema, dict):
        made = {key: _renamed(value, names) for key, value in schema.items()}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            made["$ref"] = names.get(reference, reference)
        return made
    return [_renamed(value, names) for value in schema] if isinstance(schema, list) else schema
