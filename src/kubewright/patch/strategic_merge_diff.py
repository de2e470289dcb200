"""Compute strategic merge patches, as `kubectl apply` and `kubectl edit` do.

`two_way(a, b, node)` returns the patch that changes `a` into `b`. `three_way(original, modified, current,
node)` returns the patch for the live object `current` that applies `modified` and deletes what only
`original`, the last applied configuration, had; with `overwrite=False`, conflicting changes are an error.

Lists with the merge strategy get `$setElementOrder`, deleted elements `$patch: delete` (scalars
`$deleteFromPrimitiveList`), and objects with the retainKeys strategy `$retainKeys`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kubewright.api.values import go_format
from kubewright.schema.structural import Node

from .comparison import same_value
from .errors import PatchConflict, PatchFailed
from .strategic_merge_patch import (
    DELETE_FROM_LIST,
    DIRECTIVE,
    RETAIN_KEYS,
    SET_ORDER,
    ElementKind,
    Object,
    element_kind,
    field_strategy,
    in_given_order,
    merge_maps,
    merge_value,
    retains_keys,
    unique_scalars,
)


class _Options(NamedTuple):
    set_order: bool = True
    changes: bool = True
    deletions: bool = True
    retain_keys: bool = False


def two_way(original: Object, modified: Object, node: Node | None) -> Object:
    """Return the patch that changes `original` into `modified`."""
    return _diff_maps(original, modified, node, _Options())


def three_way(
    original: Object, modified: Object, current: Object, node: Node | None, *, overwrite: bool = True
) -> Object:
    """Return the patch for `current` that applies `modified` and deletes what only `original` had.

    Raises `PatchConflict` with `overwrite=False` where `current` was changed since `original` in what the
    patch would change.
    """
    changes = _diff_maps(current, modified, node, _Options(deletions=False))
    deletions = _diff_maps(original, modified, node, _Options(changes=False))
    patch = merge_maps(deletions, changes, node, combine=True)
    if not overwrite:
        changed = _diff_maps(original, current, node, _Options(set_order=False))
        if _maps_conflict(patch, changed, node):
            raise PatchConflict(patch, changed)
    return patch


def _diff_maps(original: Object, modified: Object, node: Node | None, options: _Options) -> Object:
    patch: Object = {}
    for key, value in modified.items():
        if key not in original:
            if options.changes:
                patch[key] = value
            continue
        current = original[key]
        if same_value(current, value):
            continue
        if key == DIRECTIVE:
            if not isinstance(current, str) or not isinstance(value, str):
                raise PatchFailed(f"invalid value for special key: {DIRECTIVE}")
            if current != value:
                patch[key] = value
        elif current.__class__ is not value.__class__:
            if options.changes:
                patch[key] = value
        elif isinstance(value, dict):
            _diff_map_field(patch, key, current, value, node, options)
        elif isinstance(value, list):
            _diff_list_field(patch, key, current, value, node, options)
        elif options.changes and not same_value(current, value):
            patch[key] = value
    if options.deletions:
        for key in original:
            if key not in modified:
                patch[key] = None
    if options.retain_keys:
        kept = [key for key, value in modified.items() if value is not None]
        dropped = any(value is not None and key not in modified for key, value in original.items())
        if kept and (patch or dropped):
            patch[RETAIN_KEYS] = sorted(kept)
    return patch


def _diff_map_field(
    patch: Object, key: str, current: Object, value: Object, node: Node | None, options: _Options
) -> None:
    child, strategy, _ = field_strategy(node, key)
    if strategy == "replace":
        if options.changes:
            patch[key] = value
        return
    below = _diff_maps(current, value, child, options._replace(retain_keys=retains_keys(node, key)))
    if below:
        patch[key] = below


def _diff_list_field(
    patch: Object, key: str, current: list[Any], value: list[Any], node: Node | None, options: _Options
) -> None:
    child, strategy, merge_key = field_strategy(node, key)
    if strategy != "merge":
        if options.changes and not same_value(current, value):
            patch[key] = value
        return
    options = options._replace(retain_keys=retains_keys(node, key))
    items, deletions, order = _diff_lists(current, value, child, merge_key, options)
    if items:
        patch[key] = items
    if deletions:
        patch[f"{DELETE_FROM_LIST}/{key}"] = deletions
    if order:
        patch[f"{SET_ORDER}/{key}"] = order


def _diff_lists(
    original: list[Any], modified: list[Any], node: Node | None, merge_key: str, options: _Options
) -> tuple[list[Any], list[Any], list[Any]]:
    """Elements to merge, scalars to delete, and the order of elements."""
    if not original:
        return (modified if options.changes else []), [], []
    kind: ElementKind = element_kind(original, modified)
    if kind == "scalar":
        items, deletions = _diff_scalars(original, modified, options)
        items = in_given_order(items, modified, "", kind)
        ordered = (options.deletions and deletions) or (
            options.changes and not same_value(original, modified)
        )
        return items, deletions, list(modified) if options.set_order and ordered else []
    items, deleted = _diff_elements(original, modified, node, merge_key, options)
    items = [*in_given_order(items, modified, merge_key, kind), *deleted]
    moved = [merge_value(item, merge_key) for item in original] != [
        merge_value(item, merge_key) for item in modified
    ]
    ordered = (options.changes and (items or moved)) or (options.deletions and items)
    if options.set_order and ordered:
        return items, [], [{merge_key: item[merge_key]} for item in modified]
    return items, [], []


def _diff_scalars(original: list[Any], modified: list[Any], options: _Options) -> tuple[list[Any], list[Any]]:
    left = sorted(original, key=go_format.format_value)
    right = sorted(modified, key=go_format.format_value)
    added: list[Any] = []
    deleted: list[Any] = []
    i = j = 0
    while i < len(left) or j < len(right):
        here = go_format.format_value(left[i]) if i < len(left) else None
        there = go_format.format_value(right[j]) if j < len(right) else None
        if here == there:
            i += 1
            j += 1
        elif there is None or (here is not None and here < there):
            deleted.append(left[i])
            i += 1
        else:
            added.append(right[j])
            j += 1
    return (added if options.changes else []), (unique_scalars(deleted) if options.deletions else [])


def _diff_elements(
    original: list[Any], modified: list[Any], node: Node | None, merge_key: str, options: _Options
) -> tuple[list[Any], list[Any]]:
    def sort_key(item: Object) -> str:
        merge_value(item, merge_key)
        return go_format.format_value(item[merge_key])

    left = sorted(original, key=sort_key)
    right = sorted(modified, key=sort_key)
    items: list[Any] = []
    deleted: list[Any] = []
    i = j = 0
    while i < len(left) or j < len(right):
        here = sort_key(left[i]) if i < len(left) else None
        there = sort_key(right[j]) if j < len(right) else None
        if here is not None and here == there:
            below = _diff_maps(left[i], right[j], node, options)
            if below:
                items.append({**below, merge_key: right[j][merge_key]})
            i += 1
            j += 1
        elif here is None or (there is not None and here > there):
            if options.changes:
                items.append(right[j])
            j += 1
        else:
            if options.deletions:
                deleted.append({DIRECTIVE: "delete", merge_key: left[i][merge_key]})
            i += 1
    return items, deleted


def _maps_conflict(left: Object, right: Object, node: Node | None) -> bool:
    """Return whether two patches set a field to different values."""
    for key, value in left.items():
        if key in (DIRECTIVE, RETAIN_KEYS) or key not in right:
            continue
        child, strategy, merge_key = (
            field_strategy(node, key) if isinstance(value, (dict, list)) else (None, "", "")
        )
        if _values_conflict(value, right[key], child, strategy, merge_key):
            return True
    return False


def _values_conflict(left: Any, right: Any, node: Node | None, strategy: str, merge_key: str) -> bool:
    if isinstance(left, dict):
        if not isinstance(right, dict) or left.get(DIRECTIVE) != right.get(DIRECTIVE):
            return True
        return strategy != "replace" and _maps_conflict(left, right, node)
    if isinstance(left, list):
        return not isinstance(right, list) or _lists_conflict(left, right, node, strategy, merge_key)
    return not same_value(left, right)


def _lists_conflict(
    left: list[Any], right: list[Any], node: Node | None, strategy: str, merge_key: str
) -> bool:
    kind = element_kind(left, right)
    if strategy == "merge":
        if kind == "scalar":
            return False
        others = {go_format.format_value(item.get(merge_key)): item for item in right}
        return any(
            _values_conflict(item, others[key], node, "", "")
            for item in left
            if (key := go_format.format_value(item.get(merge_key))) in others
        )
    if len(left) != len(right):
        return True
    if kind == "scalar":
        left = sorted(unique_scalars(left), key=go_format.format_value)
        right = sorted(unique_scalars(right), key=go_format.format_value)
        return not same_value(left, right)
    return any(_values_conflict(a, b, node, "", "") for a, b in zip(left, right, strict=True))
