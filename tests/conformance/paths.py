"""Path expressions into JSON documents: `a.b[0].c[key=value].d[*].e['x/y']`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

_TOKEN = re.compile(r"\['(?P<literal>[^']*)'\]|\[(?P<subscript>[^\]]*)\]|(?P<key>[^.\[\]]+)")


class Location(NamedTuple):
    """A value in a document: its container, its key or index there, and the value itself."""

    container: Any
    key: Any
    value: Any


class _Segment(NamedTuple):
    kind: str
    """`key`, `index`, `all` or `match`."""
    argument: Any


@lru_cache(maxsize=4096)
def _parse(path: str) -> tuple[_Segment, ...]:
    segments = []
    for token in _TOKEN.finditer(path):
        subscript = token["subscript"]
        if token["literal"] is not None:
            segments.append(_Segment("key", token["literal"]))
        elif subscript is None:
            segments.append(_Segment("key", token["key"]))
        elif subscript == "*":
            segments.append(_Segment("all", None))
        elif re.fullmatch(r"-?\d+", subscript):
            segments.append(_Segment("index", int(subscript)))
        else:
            name, _, wanted = subscript.partition("=")
            segments.append(_Segment("match", (name, wanted)))
    return tuple(segments)


def _children(node: Any, segment: _Segment) -> list[Location]:
    kind, argument = segment
    if isinstance(node, dict):
        if kind == "key" and argument in node:
            return [Location(node, argument, node[argument])]
        if kind == "all":
            return [Location(node, key, value) for key, value in node.items()]
    elif isinstance(node, list):
        if kind == "all":
            return [Location(node, index, value) for index, value in enumerate(node)]
        if kind == "index" and -len(node) <= argument < len(node):
            return [Location(node, argument, node[argument])]
        if kind == "match":
            for index, value in enumerate(node):
                if isinstance(value, dict) and str(lookup(value, argument[0])) == argument[1]:
                    return [Location(node, index, value)]
    return []


def locate(document: Any, path: str) -> list[Location]:
    """Return every location in the document that the path matches."""
    found = [Location(None, None, document)]
    for segment in _parse(path):
        found = [child for location in found for child in _children(location.value, segment)]
    return found


def lookup(document: Any, path: str) -> Any:
    """Return the value at the path or `None`; with `[*]` in the path, the list of all values."""
    if path in ("", "."):
        return document
    values = [location.value for location in locate(document, path)]
    if "[*]" in path:
        return values
    return values[0] if values else None


def assign(document: dict[str, Any], path: str, value: Any) -> None:
    """Set a value at a path of plain keys, creating objects on the way."""
    *parents, last = path.split(".")
    node = document
    for parent in parents:
        node = node.setdefault(parent, {})
    node[last] = value
