"""Paths that a CRD writes about its own objects: `.spec.replicas`, `['a-b'].c`.

Rules and selectable fields name fields this way. A path is checked against the schema and printed in the
form that field errors use.
"""

from __future__ import annotations

import re
from typing import Final

from kubewright.schema import field_errors as fe
from kubewright.schema.structural import Node

# Linear: only the last quote can lack its end, so no part of a path is looked through more than twice.
_TOKEN: Final = re.compile(r"'(?:.*?[^\\])??'|[.\[\]]|[^.\[\]']?[^.\[\]]*", re.DOTALL)
_UNESCAPED: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\",
}  # fmt: skip


class FieldPathError(ValueError):
    """A path that is malformed or leads nowhere."""


def resolve_field_path(path: str, node: Node, *, subscripts: bool = True) -> tuple[str, Node | None]:
    """The field that a path means, as field errors print it, and its schema; `None` is any kind of field."""
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
