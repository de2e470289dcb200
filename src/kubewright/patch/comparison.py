"""Differences between two objects, as field sets.

`compare(old, new, schema)` classifies every differing field as added, modified or removed. Subtrees that are
the same Python object are skipped, so the cost depends on what differs. A container that is added or removed
is included with everything in it; a container that changes is not included itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from . import field_set
from .field_set import LEAF, Tree
from .merge_schema import LIST, MAP, Kind, MergeSchema
from .path_elements import SELF
from .typed import TypedError, list_element


class Comparison(NamedTuple):
    """Added, modified and removed fields; each field is in at most one of the sets."""

    added: Tree
    modified: Tree
    removed: Tree

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not (self.added or self.modified or self.removed)

    def without(self, ignored: Tree | None) -> Comparison:
        """Return the differences without the ignored fields and everything below them."""
        if not ignored:
            return self
        return Comparison(*(field_set.recursive_difference(tree, ignored) for tree in self))

    def changed(self) -> Tree:
        """Return all differing fields."""
        return field_set.union(field_set.union(self.added, self.modified), self.removed)


_Nodes = tuple[Tree | None, Tree | None, Tree | None]
_UNCHANGED: _Nodes = (None, None, None)
_MODIFIED: _Nodes = (None, LEAF, None)
_ATOMS = (str, int, float, bool)
_NOTHING = object()
_encode = msgspec.json.Encoder().encode


def same_value(left: Any, right: Any) -> bool:
    """Return whether two decoded JSON values are equal: 1 equals 1.0, but not true."""
    if left is right:
        return True
    if left != right:
        return False
    cls = left.__class__
    if cls is str or left is None:
        return True
    if (cls is dict or cls is list) and _encode(left) == _encode(right):
        # Comparing encodings is much faster than searching for a true that equals 1.
        return True
    if cls is dict:
        return all(same_value(item, right[name]) for name, item in left.items())
    if cls is list:
        return all(map(same_value, left, right))
    return (cls is bool) is (right.__class__ is bool)


def compare(old: dict[str, Any], new: dict[str, Any], schema: MergeSchema) -> Comparison:
    """Return the fields that differ between `old` and `new`. Both must match `schema`."""
    added, modified, removed = _compare(old, new, schema, schema.kind_of(old))
    return Comparison(added or {}, modified or {}, removed or {})


def _compare(left: Any, right: Any, schema: MergeSchema, kind: Kind) -> _Nodes:
    if kind == MAP:
        old = left if left.__class__ is dict else None
        new = right if right.__class__ is dict else None
        if schema.map_atomic or not (old or new):
            return _UNCHANGED if same_value(left, right) else _MODIFIED
        return _compare_maps(old or {}, new or {}, schema)
    if kind == LIST:
        old_items = left if left.__class__ is list else None
        new_items = right if right.__class__ is list else None
        if schema.list_atomic or not (old_items or new_items):
            return _UNCHANGED if same_value(left, right) else _MODIFIED
        return _compare_lists(old_items or [], new_items or [], schema)
    return _UNCHANGED if same_value(left, right) else _MODIFIED


def _compare_values(left: Any, right: Any, schema: MergeSchema) -> _Nodes:
    if left.__class__ is right.__class__ and left == right and _encode(left) == _encode(right):
        return _UNCHANGED
    kind = schema.kind_of(left)
    other_kind = schema.kind_of(right)
    result = _compare(left, right, schema, other_kind)
    if kind != other_kind:
        result = _both(_compare(left, right, schema, kind), result)
    return result


def _both(first: _Nodes, second: _Nodes) -> _Nodes:
    added, modified, removed = (
        b if a is None else a if b is None else field_set.union_nodes(a, b)
        for a, b in zip(first, second, strict=True)
    )
    return added, modified, removed


def _compare_maps(old: dict[str, Any], new: dict[str, Any], schema: MergeSchema) -> _Nodes:
    added: Tree = {}
    modified: Tree = {}
    removed: Tree = {}
    for name, left in old.items():
        right = new.get(name, _NOTHING)
        if right is left:
            continue
        if right is _NOTHING:
            removed["f:" + name] = _everything(left, schema.child(name) or schema)
            continue
        cls = left.__class__
        if cls is right.__class__ and cls in _ATOMS:
            if left != right:
                modified["f:" + name] = LEAF
            continue
        a, m, r = _compare_values(left, right, schema.child(name) or schema)
        if a is not None:
            added["f:" + name] = a
        if m is not None:
            modified["f:" + name] = m
        if r is not None:
            removed["f:" + name] = r
    if len(new) != len(old) or new.keys() != old.keys():
        for name, right in new.items():
            if name not in old:
                added["f:" + name] = _everything(right, schema.child(name) or schema)
    return added or None, modified or None, removed or None


def _by_element(items: list[Any], schema: MergeSchema) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for index, item in enumerate(items):
        try:
            element = list_element(item, schema)
        except ValueError as error:
            raise TypedError([("", f"element {index}: {error}")]) from None
        same = found.get(element)
        if same is None:
            found[element] = [item]
        else:
            same.append(item)
    return found


def _compare_lists(old: list[Any], new: list[Any], schema: MergeSchema) -> _Nodes:
    added: Tree = {}
    modified: Tree = {}
    removed: Tree = {}
    lefts = _by_element(old, schema)
    rights = _by_element(new, schema)
    element_schema = schema.element
    for element, left in lefts.items():
        right = rights.get(element)
        if len(left) > 1:
            # Duplicates are owned as a whole: modified or removed together.
            if right is None:
                removed[element] = LEAF
            elif len(right) > 1:
                if not same_value(left, right):
                    modified[element] = LEAF
            else:
                added[element] = _everything(right[0], element_schema)
                removed[element] = LEAF
        elif right is None:
            removed[element] = _everything(left[0], element_schema)
        elif len(right) > 1:
            removed[element] = _everything(left[0], element_schema)
            added[element] = LEAF
        elif left[0] is not right[0]:
            a, m, r = _compare_values(left[0], right[0], element_schema)
            if a is not None:
                added[element] = a
            if m is not None:
                modified[element] = m
            if r is not None:
                removed[element] = r
    for element, right in rights.items():
        if element not in lefts:
            added[element] = LEAF if len(right) > 1 else _everything(right[0], element_schema)
    return added or None, modified or None, removed or None


def _everything(value: Any, schema: MergeSchema) -> Tree:
    """Return the node for an added or removed value: itself and everything in it."""
    cls = value.__class__
    if cls is dict:
        if not value or schema.map_atomic or not schema.map:
            return LEAF
        tree: Tree = {SELF: LEAF}
        for name, item in value.items():
            tree["f:" + name] = (
                LEAF if item.__class__ in _ATOMS else _everything(item, schema.child(name) or schema)
            )
        return tree
    if cls is list:
        if not value or schema.list_atomic or not schema.list:
            return LEAF
        tree = {SELF: LEAF}
        for element, items in _by_element(value, schema).items():
            tree[element] = LEAF if len(items) > 1 else _everything(items[0], schema.element)
        return tree
    return LEAF
