"""Merge an applied configuration into a live object.

`merge(live, config, schema)` returns the live object with all fields of the configuration. Nothing is
removed. Granular maps merge entry by entry, sets and keyed lists element by element, atomic values are
replaced. Unchanged parts are shared with the live object, not copied.

Order in lists: elements of the configuration keep its order, live-only elements stay where they are between
them as far as that order allows.
"""

from __future__ import annotations

from typing import Any, Final

from . import path_elements
from .merge_schema import LIST, MAP, MergeSchema
from .typed import TypedError, list_element

_ABSENT: Final = object()


def merge(live: Any, config: Any, schema: MergeSchema) -> Any:
    """Return `live` with the fields of `config`; both must match `schema`."""
    if live is config:
        return live
    kind = schema.kind_of(config)
    if kind == MAP and not schema.map_atomic:
        old = live if live.__class__ is dict else None
        new = config if config.__class__ is dict else None
        if not old:
            return config
        return _merge_maps(old, new, schema) if new else live
    if kind == LIST and not schema.list_atomic:
        old_items = live if live.__class__ is list else None
        new_items = config if config.__class__ is list else None
        if not old_items:
            return config
        return _merge_lists(old_items, new_items, schema) if new_items else live
    return config


def _merge_maps(old: dict[str, Any], new: dict[str, Any], schema: MergeSchema) -> dict[str, Any]:
    merged = dict(old)
    for name, value in new.items():
        current = old.get(name, _ABSENT)
        if current is _ABSENT:
            merged[name] = value
        elif current is not value:
            merged[name] = merge(current, value, schema.child(name) or schema)
    return merged


def _index(
    items: list[Any], schema: MergeSchema, *, allow_duplicates: bool
) -> tuple[list[str], dict[str, Any]]:
    """Return the path elements in order and the value of each; duplicates have no value."""
    order: list[str] = []
    values: dict[str, Any] = {}
    for position, item in enumerate(items):
        try:
            element = list_element(item, schema)
        except ValueError as error:
            raise TypedError([("", f"element {position}: {error}")]) from None
        if element not in values:
            values[element] = item
        elif allow_duplicates:
            values[element] = None
        else:
            raise TypedError([("", f"duplicate entries for key {path_elements.element_text(element)}")])
        order.append(element)
    return order, values


def _merge_lists(old: list[Any], new: list[Any], schema: MergeSchema) -> list[Any]:
    new_order, new_values = _index(new, schema, allow_duplicates=False)
    old_order, old_values = _index(old, schema, allow_duplicates=True)
    element_schema = schema.element

    def merged(element: str) -> Any:
        current = old_values.get(element)
        value = new_values[element]
        return value if current is None else merge(current, value, element_schema)

    shared = iter([element for element in new_order if element in old_values])
    next_shared = next(shared, None)
    taken: set[str] = set()
    result: list[Any] = []
    i = j = 0
    while i < len(old_order) or j < len(new_order):
        if i < len(old_order) and j < len(new_order):
            element = old_order[i]
            if element == new_order[j]:
                taken.add(element)
                result.append(merged(element))
                i += 1
                j += 1
                next_shared = next(shared, None)
                continue
            if element in new_values and next_shared is not None and next_shared != element:
                # The configuration has this element later.
                i += 1
                continue
        if i < len(old_order):
            element = old_order[i]
            if element not in new_values:
                result.append(old[i])
                i += 1
                continue
            if element in taken:
                i += 1
        if j < len(new_order):
            element = new_order[j]
            taken.add(element)
            result.append(merged(element))
            j += 1
            if next_shared == element:
                next_shared = next(shared, None)
    return result
