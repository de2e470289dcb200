"""Patches, and the changes of an object since it was read.

A typed object has only the fields of its class, but it keeps the bytes it was decoded from (`base_of`).
`base_and_changed(obj)` applies the changes of this program to those bytes: unknown fields stay, at every
level, also in elements of lists. `changes_since_read(obj)` is the merge patch between the two.

Elements of lists are paired before and after: equal ones first, then those with the same identifying field
(`name`, `key`, `type`, ...), and those without such a field by position if the length of the list is the
same.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubewright.api.encoding import codec
from kubewright.api.meta import MetaObject
from kubewright.api.objects import base_of
from kubewright.api.unstructured import Unstructured
from kubewright.deprecation import warn_deprecated
from kubewright.patch import merge_patch as rfc7386

_IDENTITY: Final = (
    "uid",
    "name",
    "key",
    "type",
    "id",
    "ip",
    "mountPath",
    "devicePath",
    "containerPort",
    "port",
    "topologyKey",
)
_MISSING: Final = object()


class UnsentChangesError(ValueError):
    """A write of one part of an object would lose changes of its other fields."""


class Patch(msgspec.Struct, frozen=True):
    """A patch body and its content type; created by the functions of this module."""

    content_type: str
    body: bytes


def json_patch(operations: list[dict[str, Any]]) -> Patch:
    """Return an RFC 6902 JSON patch: a list of operations."""
    return Patch("application/json-patch+json", codec.encode(operations))


def merge_patch(change: dict[str, Any]) -> Patch:
    """Return an RFC 7386 merge patch: `None` deletes a field, a list replaces the list."""
    return Patch("application/merge-patch+json", codec.encode(change))


def strategic_merge_patch(change: dict[str, Any]) -> Patch:
    """Return a strategic merge patch, which merges lists by key; for built-in kinds only."""
    return Patch("application/strategic-merge-patch+json", codec.encode(change))


def merge_from(
    before: MetaObject | Unstructured, after: MetaObject | Unstructured, *, optimistic_lock: bool = False
) -> Patch:
    """Return the merge patch from `before` to `after`.

    With `optimistic_lock` it fails after other changes.
    """
    change = rfc7386.diff(to_dict(before), to_dict(after))
    if optimistic_lock:
        _lock(change, before.metadata.resource_version)
    return merge_patch(change)


def to_dict(obj: MetaObject | Unstructured | dict[str, Any]) -> dict[str, Any]:
    """Return an object as JSON data; a dict is returned unchanged."""
    if isinstance(obj, dict):
        return obj
    if isinstance(obj, Unstructured):
        return obj.raw
    data: dict[str, Any] = codec.to_plain(obj)
    return data


def base_and_changed(obj: MetaObject | Unstructured) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return the object as read and with the changes since; `None` if it was not read from a server."""
    raw = base_of(obj)
    if raw is None:
        return None
    base: dict[str, Any] = codec.loads(raw)
    if isinstance(obj, Unstructured):
        return base, obj.raw
    before = to_dict(codec.decoder(type(obj)).decode(raw))
    return base, _apply_changes(base, before, to_dict(obj))


def changes_since_read(
    obj: MetaObject | Unstructured, *, optimistic_lock: bool, part: str = ""
) -> Patch | None:
    """Return the changes since the object was read as a merge patch, of the field `part` only if given.

    `None` if the object was not read from a server, or a field was set to an explicit null. Raises
    `UnsentChangesError` if other fields than `part` have changed.
    """
    pair = base_and_changed(obj)
    if pair is None:
        return None
    base, ours = pair
    if part:
        _check_rest(base, ours, part)
        base, ours = _only(base, part), _only(ours, part)
    change = rfc7386.diff(base, ours)
    if _nulls(ours) - _nulls(base):
        return None
    for name in ("apiVersion", "kind"):
        change.pop(name, None)
    if optimistic_lock:
        _lock(change, obj.metadata.resource_version)
    return merge_patch(change)


def has_changes(obj: MetaObject | Unstructured, *, part: str, alone: bool = False) -> bool:
    """Whether the field `part` differs from what was read; true if the object was not read from a server.

    With `alone`, `UnsentChangesError` if other fields have changed.
    """
    pair = base_and_changed(obj)
    if pair is not None and alone:
        _check_rest(*pair, part)
    return pair is None or _only(pair[0], part) != _only(pair[1], part)


def _check_rest(base: dict[str, Any], ours: dict[str, Any], part: str) -> None:
    """Raise `UnsentChangesError` if other fields than `part` differ."""
    before, after = ({name: data[name] for name in data if name != part} for data in (base, ours))
    if before != after:
        fields = ", ".join(sorted(_changed_paths(rfc7386.diff(before, after)))[:5])
        metadata = base.get("metadata") or {}
        key = "/".join(metadata[name] for name in ("namespace", "name") if metadata.get(name))
        raise UnsentChangesError(
            f"{base.get('kind', 'object')} {key}: only {part} would be sent, and the changes of "
            f"{fields} would be lost; send them first with update(obj), or do not change them"
        )


def _changed_paths(change: dict[str, Any], prefix: str = "") -> list[str]:
    found: list[str] = []
    for name, value in change.items():
        nested = isinstance(value, dict) and value
        found += _changed_paths(value, f"{prefix}{name}.") if nested else [prefix + name]
    return found


def _only(data: dict[str, Any], part: str) -> dict[str, Any]:
    return {part: data[part]} if part in data else {}


def _lock(change: dict[str, Any], resource_version: str | None) -> None:
    if not resource_version:
        raise ValueError("optimistic_lock requires an object with a resourceVersion")
    metadata = change.get("metadata")
    if not isinstance(metadata, dict):
        metadata = change["metadata"] = {}
    metadata["resourceVersion"] = resource_version


def _nulls(value: Any, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Return the paths of nulls in objects, which a merge patch cannot express; lists are sent completely."""
    if not isinstance(value, dict):
        return set()
    found: set[tuple[str, ...]] = set()
    for name, item in value.items():
        if item is None:
            found.add((*path, name))
        elif isinstance(item, dict):
            found |= _nulls(item, (*path, name))
    return found


def _apply_changes(base: Any, before: Any, after: Any) -> Any:
    """Return `base` with the changes from `before` (base as decoded by its class) to `after`."""
    if before == after and type(before) is type(after):
        return base
    if isinstance(base, dict) and isinstance(before, dict) and isinstance(after, dict):
        result = {name: value for name, value in base.items() if name in after or name not in before}
        for name, value in after.items():
            if name not in base:
                # A default of the class is not a change.
                if before.get(name, _MISSING) != value:
                    result[name] = value
            elif name in before:
                result[name] = _apply_changes(base[name], before[name], value)
            else:
                result[name] = value
        return result
    if isinstance(base, list) and isinstance(before, list) and isinstance(after, list):
        return _apply_changes_list(base, before, after) if len(base) == len(before) else after
    return after


def _apply_changes_list(base: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    free = dict.fromkeys(range(len(before)))
    partners: dict[int, int] = {}

    def pair(position: int, partner: int) -> None:
        partners[position] = partner
        del free[partner]

    for position, value in enumerate(after):
        if position in free and before[position] == value:
            pair(position, position)
    for position, value in enumerate(after):
        if position not in partners:
            partner = next((each for each in free if before[each] == value), None)
            if partner is not None:
                pair(position, partner)
    for position, value in enumerate(after):
        if position in partners or not isinstance(value, dict):
            continue
        key = next((name for name in _IDENTITY if name in value), None)
        if key is not None:
            candidates = [
                each
                for each in free
                if isinstance(before[each], dict) and before[each].get(key) == value[key]
            ]
            if len(candidates) == 1 or (candidates and position in candidates):
                pair(position, position if position in candidates else candidates[0])
        elif len(before) == len(after) and position in free and not _has_identity(before[position]):
            pair(position, position)
    return [
        _apply_changes(base[partners[position]], before[partners[position]], value)
        if position in partners
        else value
        for position, value in enumerate(after)
    ]


def _has_identity(value: Any) -> bool:
    return isinstance(value, dict) and any(name in value for name in _IDENTITY)


def former_patch_order(arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
    """Accept `patch(kind, patch, name=...)`, the former order of arguments, with a warning."""
    if len(arguments) == 3 and "name" in options:
        warn_deprecated("patch(kind, patch, name=...)", "patch(kind, name, patch)", stacklevel=5)
        return (*arguments[:2], options.pop("name"), arguments[2])
    return arguments
