"""Correlation of new and old values, for transition rules and ratcheting.

Fields correlate by name, map entries by key and elements of a `map` list by their keys. Elements of other
lists do not correlate. Values are compared lazily and at most once.
"""

from __future__ import annotations

from typing import Any

from kubewright.schema.structural import Node


class Correlated:
    """A new value, its old value, and the schema of both."""

    __slots__ = ("_children", "_equal", "_old_by_key", "node", "old", "value")

    def __init__(self, value: Any, old: Any, node: Node) -> None:
        self.value = value
        self.old = old
        self.node = node
        self._equal: bool | None = None
        self._children: dict[str | int, Correlated | None] = {}
        self._old_by_key: dict[Any, Any] | None = None

    def field(self, name: str) -> Correlated | None:
        """Return the pair for a field or map entry that both values have."""
        try:
            return self._children[name]
        except KeyError:
            node = self.node.properties.get(name)
            if node is None and isinstance(self.node.raw.get("additionalProperties"), dict):
                node = self.node.additional
            value, old = self.value, self.old
            both = type(value) is dict and type(old) is dict and name in value and name in old
            found = Correlated(value[name], old[name], node) if both and node is not None else None
            self._children[name] = found
            return found

    def item(self, position: int) -> Correlated | None:
        """Return the pair for a list element, if the list correlates its elements."""
        try:
            return self._children[position]
        except KeyError:
            found = None
            node = self.node.items
            if node is not None and self.node.list_type == "map" and type(self.old) is list:
                old = self.old_item(self.value[position])
                if old is not None:
                    found = Correlated(self.value[position], old, node)
            self._children[position] = found
            return found

    def old_item(self, item: Any) -> Any:
        """Return the old element of a list map with the keys of `item`, or `None`."""
        if self._old_by_key is None:
            self._old_by_key = keyed_items(self.node, self.old)
        key = item_key(self.node, item)
        return self._old_by_key.get(key) if key is not None else None

    def unchanged(self) -> bool:
        """Return whether new and old value are equal, as far as the schema correlates them."""
        if self._equal is None:
            self._equal = self._compare()
        return self._equal

    def _compare(self) -> bool:
        value, old = self.value, self.old
        if type(value) is not type(old):
            return False
        if type(value) is list:
            if len(value) != len(old):
                return False
            if self.node.list_type != "map":
                return identical(value, old)
            for position in range(len(value)):
                pair = self.item(position)
                if pair is None or not pair.unchanged():
                    return False
            return True
        if type(value) is dict:
            if len(value) != len(old):
                return False
            for name in value:
                pair = self.field(name)
                if pair is None or not pair.unchanged():
                    return False
            return True
        return bool(value == old)


def item_key(node: Node, item: Any) -> tuple[Any, ...] | None:
    """Return the key of a list map element, or `None` if a key field is missing or not a scalar."""
    if type(item) is not dict:
        return None
    key: list[Any] = []
    for name in node.list_map_keys:
        part = item.get(name)
        if type(part) not in (str, int, float, bool):
            return None
        key += (type(part), part)
    return tuple(key)


def keyed_items(node: Node, items: Any) -> dict[Any, Any]:
    """Return the elements of a list map by key; the first of equal keys wins."""
    found: dict[Any, Any] = {}
    if type(items) is list and node.list_type == "map":
        for item in items:
            key = item_key(node, item)
            if key is not None:
                found.setdefault(key, item)
    return found


def identical(left: Any, right: Any) -> bool:
    """Compare plain data, treating `1`, `1.0` and `true` as different."""
    if type(left) is not type(right) or left != right:
        return False
    if type(left) is dict:
        return all(identical(item, right[name]) for name, item in left.items())
    if type(left) is list:
        return all(map(identical, left, right))
    return True
