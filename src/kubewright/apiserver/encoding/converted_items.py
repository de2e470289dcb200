"""Objects in a version that is not stored, as they were encoded for the last list.

A conversion costs about thirty times as much as the insertion of stored bytes into a list. Its result depends
on the stored object only, so a list converts what has changed since the last one.
"""

from __future__ import annotations

from kubewright.storage.contract import KeyValue

MAX_BYTES = 8 * 1024 * 1024
"""Bytes of encoded objects per version of a kind; above it, all are dropped."""


class ConvertedItems:
    """Encoded objects by key, each with its revision."""

    __slots__ = ("_items", "_size")

    def __init__(self) -> None:
        self._items: dict[str, tuple[int, bytes]] = {}
        self._size = 0

    def get(self, item: KeyValue) -> bytes | None:
        """Return the encoded object, if it was added at the same revision."""
        found = self._items.get(item.key)
        return found[1] if found is not None and found[0] == item.mod_revision else None

    def add(self, item: KeyValue, encoded: bytes) -> None:
        """Add an encoded object, in place of that of another revision."""
        old = self._items.get(item.key)
        self._size += len(encoded) - (len(old[1]) if old is not None else 0)
        if self._size > MAX_BYTES:
            self._items.clear()
            self._size = len(encoded)
        self._items[item.key] = (item.mod_revision, encoded)
