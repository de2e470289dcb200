"""Shortening descriptions, which keeps CRDs that embed pod specs below the size limit of an object."""

from __future__ import annotations

from kubewright.schema.structural import Schema


def limit_descriptions(schema: Schema, length: int) -> None:
    """Shorten every description in a schema, in place, to at most `length` characters; 0 removes them."""
    description = schema.get("description")
    if description is not None:
        short = shorten(description, length)
        if short:
            schema["description"] = short
        else:
            del schema["description"]
    for child in schema.get("properties", {}).values():
        limit_descriptions(child, length)
    for keyword in ("items", "additionalProperties"):
        child = schema.get(keyword)
        if isinstance(child, dict):
            limit_descriptions(child, length)


def shorten(text: str, length: int) -> str:
    """Return the longest prefix of at most `length` characters that ends at a sentence or word."""
    if len(text) <= length:
        return text
    if length <= 0:
        return ""
    head = text[: length + 1]
    for end in range(length, 0, -1):
        if text[end - 1] in ".!?" and (head[end : end + 1] or " ").isspace():
            return text[:end]
    space = max(head.rfind(" "), head.rfind("\n"))
    return text[:space].rstrip() if space > 0 else text[:length]
