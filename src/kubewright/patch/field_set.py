"""Sets of fields, in the format of FieldsV1.

A field set contains the fields of an object that a manager owns. Its JSON format is `FieldsV1`:

    {"f:spec": {"f:ports": {"k:{\"port\":80}": {".": {}, "f:name": {}}}, "f:tags": {"v:\"x\"": {}}}}

Each key is a path element (see `path_elements`). An empty object is a member of the set; a non-empty one
holds members below it, and is a member itself if it contains `"."`.

The same JSON, as nested dicts, is the representation in memory: a stored field set needs no parsing, and an
unchanged one is stored as it is. Trees are never changed in place: operations share unchanged subtrees and
return the left operand itself if nothing changes, so `result is operand` means "no change".

`parse` is for sets from clients: it converts elements to their canonical form (key fields sorted, no spaces)
and drops unknown types of elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from kubewright.api.values import go_format

from .path_elements import SELF, FieldSetError, Path, canonical_element, in_order, path_text

Tree = dict[str, Any]

LEAF: Final[Tree] = {}
MAX_DEPTH: Final = 256
"""Deeper trees are rejected; the API does not accept objects of that depth."""


def member(node: Tree) -> bool:
    """Return whether the element of `node` is itself in the set."""
    return not node or SELF in node


def has_children(node: Tree) -> bool:
    """Return whether something below `node` is in the set."""
    return len(node) > (SELF in node)


def parse(fields: Any) -> Tree:
    """Parse FieldsV1 from a client; raise `FieldSetError` if it is malformed."""
    if fields is None:
        return LEAF
    tree = _parse(fields, 0)
    if SELF in tree:
        return {key: node for key, node in tree.items() if key != SELF}
    return tree


def _parse(fields: Any, depth: int) -> Tree:
    if not isinstance(fields, dict):
        raise FieldSetError(f"expected an object in fieldsV1, got {go_format.type_name(fields)}")
    if depth > MAX_DEPTH:
        raise FieldSetError(f"fieldsV1 is nested more than {MAX_DEPTH} levels deep")
    tree: Tree = {}
    for key, below in fields.items():
        if key == SELF:
            tree[SELF] = LEAF
            continue
        element = canonical_element(key)
        if element is None:
            continue
        node = _parse(below, depth + 1)
        present = tree.get(element)
        tree[element] = node if present is None else union_nodes(present, node)
    if len(tree) == 1 and SELF in tree:
        return LEAF
    return tree


def insert(tree: Tree, path: Path) -> None:
    """Add a path to a tree in place; the tree must not be shared yet."""
    if not path:
        return
    for element in path[:-1]:
        below = tree.get(element)
        if below is None:
            below = tree[element] = {}
        elif not below:
            below = tree[element] = {SELF: LEAF}
        tree = below
    last = path[-1]
    below = tree.get(last)
    if below is None:
        tree[last] = {}
    elif below:
        below[SELF] = LEAF


def of(*paths: Path) -> Tree:
    """Return the set of these paths, without their parents."""
    tree: Tree = {}
    for path in sorted(paths, key=len, reverse=True):
        insert(tree, path)
    return tree


def has(tree: Tree, path: Path) -> bool:
    """Return whether `path` is a member."""
    if not path:
        return False
    node: Tree | None = tree
    for element in path:
        node = node.get(element) if node else None
        if node is None:
            return False
    return member(node) if node is not None else False


def union(left: Tree, right: Tree) -> Tree:
    """Return the members of either set."""
    if not right or left is right:
        return left
    if not left:
        return right
    return _union_children(left, right)


def union_all(trees: Sequence[Tree]) -> Tree:
    """Return the union of many sets, merged in pairs: each member is copied only a few times."""
    if not trees:
        return {}
    while len(trees) > 1:
        paired = [union(trees[at], trees[at + 1]) for at in range(0, len(trees) - 1, 2)]
        trees = paired if len(trees) % 2 == 0 else [*paired, trees[-1]]
    return trees[0]


def union_nodes(left: Tree, right: Tree) -> Tree:
    """Return the union of two nodes below the root, where an empty node is a member."""
    if left is right:
        return left
    if not right:
        return left if not left or SELF in left else {SELF: LEAF, **left}
    if not left:
        return right if SELF in right else {SELF: LEAF, **right}
    return _union_children(left, right)


def _union_children(left: Tree, right: Tree) -> Tree:
    result: Tree | None = None
    for key, node in right.items():
        present = left.get(key)
        merged = node if present is None else union_nodes(present, node)
        if merged is not present:
            if result is None:
                result = dict(left)
            result[key] = merged
    return left if result is None else result


def intersection(left: Tree, right: Tree) -> Tree:
    """Return the members of both sets."""
    if left is right:
        return left
    return _intersection_children(left, right)


def _intersection(left: Tree, right: Tree) -> Tree | None:
    if left is right:
        return left
    children = _intersection_children(left, right)
    both = (not left or SELF in left) and (not right or SELF in right)
    if children:
        if both:
            children[SELF] = LEAF
        return children
    return LEAF if both else None


def _intersection_children(left: Tree, right: Tree) -> Tree:
    if len(right) < len(left):
        left, right = right, left
    result: Tree = {}
    for key, node in left.items():
        other = right.get(key)
        if other is not None and key != SELF:
            common = _intersection(node, other)
            if common is not None:
                result[key] = common
    return result


def difference(left: Tree, right: Tree) -> Tree:
    """Return the members of `left` that are not members of `right`; children are not implied."""
    if not right or not left:
        return left
    return _difference_children(left, right)


def _difference(left: Tree, right: Tree) -> Tree | None:
    if not left:
        return None if not right or SELF in right else left
    if not right:
        children = {key: node for key, node in left.items() if key != SELF} if SELF in left else left
        return children or None
    return _difference_children(left, right) or None


def _difference_children(left: Tree, right: Tree) -> Tree:
    """Return the difference of two non-empty nodes; `{".": {}}` may remain, which equals a leaf."""
    result: Tree | None = None
    small = right if len(right) < len(left) else left
    for key in small:
        other = right.get(key)
        node = left.get(key)
        if node is None or other is None:
            continue
        rest = None if key == SELF else _difference(node, other)
        if rest is not node:
            if result is None:
                result = dict(left)
            if rest is None:
                del result[key]
            else:
                result[key] = rest
    return left if result is None else result


def recursive_difference(left: Tree, right: Tree) -> Tree:
    """Return `left` without the members of `right` and everything below them."""
    if not right or not left:
        return left
    result: Tree | None = None
    for key in right if len(right) < len(left) else left:
        other = right.get(key)
        node = left.get(key)
        if node is None or other is None or key == SELF:
            continue
        rest: Tree | None = None
        if other and SELF not in other:
            rest = recursive_difference(node, other) if node else node
            if node and not rest:
                rest = None
        if rest is not node:
            if result is None:
                result = dict(left)
            if rest is None:
                del result[key]
            else:
                result[key] = rest
    return left if result is None else result


def leaves(tree: Tree) -> Tree:
    """Return the members that have nothing below them."""
    result: Tree = {}
    for key, node in tree.items():
        if key == SELF:
            continue
        if not has_children(node):
            result[key] = LEAF
        else:
            below = leaves(node)
            if below:
                result[key] = below
    return result


def printed(tree: Tree) -> Tree:
    """Return the stored form: every level in canonical order, leaves as `{}`."""
    if not tree or (len(tree) == 1 and SELF in tree):
        return {}
    if len(tree) <= _CACHED_LEAVES and not any(tree.values()):
        return _printed_leaves(tuple(tree))
    return {key: printed(node) if (node := tree[key]) else node for key in in_order(tree)}


_CACHED_LEAVES: Final = 16


@lru_cache(maxsize=1024)
def _printed_leaves(elements: tuple[str, ...]) -> Tree:
    """Return the stored form of leaves, which the elements of a list often have in common."""
    return dict.fromkeys(in_order(elements), LEAF)


def iterate(tree: Tree) -> Iterator[Path]:
    """Iterate over the members in canonical order, parents before children."""
    return _iterate(tree, ())


def _iterate(tree: Tree, prefix: Path) -> Iterator[Path]:
    ordered = in_order(key for key in tree if key != SELF)
    for key in ordered:
        if member(tree[key]):
            yield (*prefix, key)
    for key in ordered:
        if has_children(tree[key]):
            yield from _iterate(tree[key], (*prefix, key))


class FieldSet:
    """A field set with the operations of this module as methods, compared by members.

    `tree` is its FieldsV1 form. Build one with `FieldSet.parse(fields_v1)` or `FieldSet.of(path, ...)`.
    """

    __slots__ = ("tree",)

    def __init__(self, tree: Tree | None = None) -> None:
        self.tree: Tree = {} if tree is None else tree

    @classmethod
    def parse(cls, fields: Any) -> FieldSet:
        """Create it from FieldsV1: a decoded object, or JSON text or bytes."""
        if isinstance(fields, (str, bytes)):
            try:
                fields = msgspec.json.decode(fields)
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                raise FieldSetError(f"fieldsV1 is not JSON: {error}") from None
        return cls(parse(fields))

    @classmethod
    def of(cls, *paths: Path) -> FieldSet:
        """Create the set of these paths."""
        return cls(of(*paths))

    def to_fields_v1(self) -> Tree:
        """Return FieldsV1 in canonical order."""
        return printed(self.tree)

    def to_json(self) -> bytes:
        """Return FieldsV1 as JSON in canonical order."""
        return msgspec.json.encode(printed(self.tree))

    def union(self, other: FieldSet) -> FieldSet:
        """Return the members of either set."""
        return FieldSet(union(self.tree, other.tree))

    def intersection(self, other: FieldSet) -> FieldSet:
        """Return the members of both sets."""
        return FieldSet(intersection(self.tree, other.tree))

    def difference(self, other: FieldSet) -> FieldSet:
        """Return the members of this set that are not in `other`."""
        return FieldSet(difference(self.tree, other.tree))

    def recursive_difference(self, other: FieldSet) -> FieldSet:
        """Return this set without the members of `other` and everything below them."""
        return FieldSet(recursive_difference(self.tree, other.tree))

    def leaves(self) -> FieldSet:
        """Return the members that have nothing below them."""
        return FieldSet(leaves(self.tree))

    def has(self, path: Path) -> bool:
        """Return whether `path` is a member."""
        return has(self.tree, path)

    def __contains__(self, path: Path) -> bool:
        return has(self.tree, path)

    def __iter__(self) -> Iterator[Path]:
        return iterate(self.tree)

    def __len__(self) -> int:
        return sum(1 for _ in iterate(self.tree))

    def __bool__(self) -> bool:
        return bool(self.tree)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSet) and (
            self.tree == other.tree or printed(self.tree) == printed(other.tree)
        )

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        return "FieldSet(" + ", ".join(map(path_text, self)) + ")"
