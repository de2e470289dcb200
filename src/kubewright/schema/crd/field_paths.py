"""JSON paths of fields in a CRD: `.spec.replicas`, `['a-b'].c`.

`fieldPath` of rules and `jsonPath` of selectable fields use them. A path is resolved against the schema and
printed as in field errors.
"""

from __future__ import annotations

import re
from typing import Final

from kubewright.schema import field_errors as fe
from kubewright.schema.structural import Node

# Linear time: only the last quote can be unterminated, so no part of a path is scanned more than twice.
_TOKEN: Final = re.compile(r"'(?:.*?[^\\])??'|[.\[\]]|[^.\[\]']?[^.\[\]]*", re.DOTALL)
_UNESCAPED: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\",
}  # fmt: skip


class FieldPathError(ValueError):
    """A path is malformed or does not refer to a field."""


def resolve_field_path(path: str, node: Node, *, subscripts: bool = True) -> tuple[str, Node | None]:
    """Return the path as field errors print it, and the schema of the field if it is declared."""
    tokens = [token for token in _TOKEN.findall(path) if token]
    found, current, position = fe.ROOT, node, 0
    place: Node | None = current
    while position < len(tokens):
        part = tokens[position]
        if part == "[":
            if not subscripts:
                raise FieldPathError("array notation is not allowed")
            name = _quoted(tokens[position + 1 : position + 2])
            found, place = _step(found, place, name)
            closing = tokens[position + 2 : position + 3]
            if closing != ["]"]:
                raise FieldPathError(
                    f"expected ] but got {closing[0]}" if closing else "unexpected end of JSON path"
                )
            position += 3
        elif part == ".":
            if position + 1 >= len(tokens):
                raise FieldPathError("unexpected end of JSON path")
            found, place = _step(found, place, tokens[position + 1])
            position += 2
        else:
            raise FieldPathError(f"expected [ or . but got: {part}")
    return found, place


def _quoted(tokens: list[str]) -> str:
    if not tokens:
        raise FieldPathError("unexpected end of JSON path")
    text = tokens[0]
    if len(text) < 2 or text[0] != "'" or text[-1] != "'":
        raise FieldPathError(f"expected single quoted string but got {text}")

    def plain(match: re.Match[str]) -> str:
        if match[1] not in _UNESCAPED:
            raise FieldPathError(f"invalid string literal: invalid escape char {match[0]}")
        return _UNESCAPED[match[1]]

    return re.sub(r"\\(.)", plain, text[1:-1], flags=re.DOTALL)


def _step(found: str, node: Node | None, name: str) -> tuple[str, Node | None]:
    if node is not None and node.properties:
        if name not in node.properties:
            raise FieldPathError("does not refer to a valid field")
        return fe.child(found, name), node.properties[name]
    if node is not None and node.raw.get("additionalProperties") is not None:
        return fe.key(found, name), node.additional
    raise FieldPathError("does not refer to a valid field")
