"""Schemas as version 2 of OpenAPI can say them, and as kubectl reads them there.

Version 2 knows no alternatives and no `null`; defaults are left to version 3, and a reference may stand
beside a description. Clients of version 2 take a value without a type for anything, and stumble over arrays
without items and over properties where others are allowed, so types are left out there.
"""

from __future__ import annotations

from typing import Any

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
