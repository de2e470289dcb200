"""JSON merge patch (RFC 7386): a partial object that is merged into a document.

    {"spec": {"replicas": 3, "paused": null}}

Objects merge, `null` deletes, anything else replaces; lists are replaced as a whole. A merge patch cannot set
a field to null, so `diff` drops them.

`three_way` is what `kubectl apply` sends for custom resources: changes from the live object, deletions from
what was applied last time.
"""

from __future__ import annotations

from typing import Any

from kubewright.api.values import go_format

from .comparison import same_value
from .errors import MalformedPatch, PatchConflict, bounded_depth

Object = dict[str, Any]


@bounded_depth
def apply(document: Any, patch: Any) -> Object:
    """Return the document with the patch merged in; unchanged parts are shared."""
    if not isinstance(patch, dict):
        raise MalformedPatch(
            "Invalid JSON Patch"
            if patch is None
            else "error decoding patch: json: cannot unmarshal "
            f"{go_format.json_type_name(patch)} into Go value of type map[string]interface {{}}"
        )
    return _merge(document, patch)


def _merge(document: Any, patch: Object) -> Object:
    if not isinstance(document, dict):
        cleaned: Object = _without_nulls(patch)
        return cleaned
    result = dict(document)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = _merge(result.get(name), value)
        else:
            # Kubernetes keeps nulls in a list only if it replaces an object.
            result[name] = value if isinstance(result.get(name), dict) else _without_nulls(value)
    return result


def _without_nulls(value: Any) -> Any:
    """Return a value that is new in the document, without the nulls of its objects."""
    if isinstance(value, dict):
        if not any(item is None or isinstance(item, (dict, list)) for item in value.values()):
            return value
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def diff(before: Object, after: Object) -> Object:
    """Return the patch that changes `before` into `after`; nulls in `after` cannot be expressed."""
    patch: Object = {}
    for name, value in after.items():
        if name not in before:
            patch[name] = value
            continue
        current = before[name]
        if same_value(current, value):
            continue
        if isinstance(current, dict) and isinstance(value, dict):
            below = diff(current, value)
            if below:
                patch[name] = below
        else:
            patch[name] = value
    for name in before:
        if name not in after:
            patch[name] = None
    return patch


def three_way(original: Object, modified: Object, current: Object) -> Object:
    """Return the patch for `current` that applies `modified` and deletes what only `original` had.

    `original` is the configuration applied last time, `modified` the one to apply now. Raises `PatchConflict`
    if a field would be both changed and deleted.
    """
    changes = _filtered(diff(current, modified), nulls=False)
    deletions = _filtered(diff(original, modified), nulls=True)
    if _conflicting(changes, deletions):
        raise PatchConflict(changes, deletions)
    return _combined(deletions, changes)


def _filtered(patch: Object, *, nulls: bool) -> Object:
    """Return the deletions of a patch, or the rest. An empty object is a value, not an empty patch."""
    kept: Object = {}
    for name, value in patch.items():
        if value is None:
            if nulls:
                kept[name] = None
        elif isinstance(value, dict) and value:
            below = _filtered(value, nulls=nulls)
            if below:
                kept[name] = below
        elif not nulls:
            kept[name] = value
    return kept


def _conflicting(left: Any, right: Any) -> bool:
    if isinstance(left, dict):
        return not isinstance(right, dict) or any(
            name in right and _conflicting(value, right[name]) for name, value in left.items()
        )
    return not same_value(left, right)


def _combined(deletions: Object, changes: Object) -> Object:
    result = dict(deletions)
    for name, value in changes.items():
        below = result.get(name)
        result[name] = (
            _combined(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
        )
    return result
