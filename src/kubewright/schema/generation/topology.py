"""Checks of list topology: items of sets must be comparable, keys of list maps required."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kubewright.api.markers import Schema

_SCALAR_TYPES: Final = frozenset({"string", "integer", "number", "boolean"})


def topology_complaints(schema: Schema) -> Iterator[str]:
    """Return why an API server would reject the list type of a schema, and what to write instead."""
    items: Schema = schema.get("items", {})
    kind = schema.get("x-kubernetes-list-type")
    if kind == "set":
        yield from _set_complaints(items)
    elif kind == "map":
        yield from _map_complaints(items, schema.get("x-kubernetes-list-map-keys", ()))


def _set_complaints(items: Schema) -> Iterator[str]:
    type_ = items.get("type")
    if type_ is None or type_ in _SCALAR_TYPES:
        return
    if items.get(f"x-kubernetes-{'map' if type_ == 'object' else 'list'}-type") != "atomic":
        yield "items of a set must be scalars or atomic; write ListMap(<key>) for a list of structs"


def _map_complaints(items: Schema, keys: Iterable[str]) -> Iterator[str]:
    if items.get("type") != "object":
        yield f"ListMap needs a list of structs, not of {items.get('type', 'any value')}; write ListSet"
        return
    properties: Schema = items.get("properties", {})
    known = ", ".join(sorted(properties)) or "none"
    for key in keys:
        if key not in properties:
            yield f"ListMap key {key!r} is not a field of the items; its fields are: {known}"
        elif properties[key].get("type") not in _SCALAR_TYPES:
            yield f"ListMap key {key!r} must be a scalar, not {properties[key].get('type', 'any value')}"
        elif key not in items.get("required", ()) and "default" not in properties[key]:
            yield f"ListMap key {key!r} may be absent; make the field required or give it a default"
