"""Merge the fields that the user sets into a generated object.

Maps are merged; a null removes a field. Lists of maps are merged by the fields that identify their items,
such as the name of a CRD and its version; rules are appended; other lists are replaced.
"""

from __future__ import annotations

from typing import Any, Final

_IDENTITIES: Final = (
    ("name", "version"),
    ("name",),
    ("path",),
    ("generateName",),
    ("serviceAccountName",),
    ("type",),
)


def override(generated: Any, given: Any, *, field: str = "") -> Any:
    """Return generated data with the given one merged into it; neither is changed."""
    if isinstance(generated, dict) and isinstance(given, dict):
        merged = dict(generated)
        for name, value in given.items():
            if value is None:
                merged.pop(name, None)
            else:
                merged[name] = override(merged[name], value, field=name) if name in merged else value
        return merged
    if isinstance(generated, list) and isinstance(given, list):
        if field == "rules":
            return [*generated, *(each for each in given if each not in generated)]
        for identity in _IDENTITIES:
            if given and all(isinstance(each, dict) and identity_of(each, identity) for each in given):
                return _merge_items(generated, given, identity)
    return given


def identity_of(item: dict[str, Any], fields: tuple[str, ...]) -> tuple[Any, ...] | None:
    """Return the values of the fields that identify an item, or `None` if one is missing."""
    values = tuple(item.get(name) for name in fields)
    return None if None in values else values


def _merge_items(generated: list[Any], given: list[Any], identity: tuple[str, ...]) -> list[Any]:
    merged = list(generated)
    places: dict[Any, list[int]] = {}
    for index, each in enumerate(generated):
        if isinstance(each, dict):
            places.setdefault(identity_of(each, identity), []).append(index)
    for each in given:
        found = places.get(identity_of(each, identity), [])
        for index in found:
            merged[index] = override(merged[index], each)
        if not found:
            merged.append(each)
    return merged
