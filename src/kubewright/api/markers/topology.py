"""Markers that say how server-side apply merges lists, maps and structs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from .base import Marker, MarkerError, Schema


@dataclass(frozen=True)
class ListType(Marker):
    """How apply merges a list: as one value, by item, or by the item's keys."""

    kind: Literal["atomic", "set", "map"]
    keys: tuple[str, ...] = ()
    targets: ClassVar = ("array",)
    first: ClassVar = True

    def _write(self, schema: Schema) -> None:
        schema["x-kubernetes-list-type"] = self.kind
        if self.keys:
            schema["x-kubernetes-list-map-keys"] = list(self.keys)


def ListMap(*keys: str) -> ListType:  # noqa: N802  (reads as a type among its siblings)
    """A list whose items are identified by these fields (JSON names)."""
    if not keys:
        raise MarkerError('ListMap requires the names of the key fields: ListMap("name")')
    return ListType("map", keys)


ListSet: Final = ListType("set")
"""A list of distinct scalars that apply merges item by item."""
Atomic: Final = ListType("atomic")
"""A list that is replaced as a whole."""


@dataclass(frozen=True)
class MapType(Marker):
    """How apply merges a map or struct: `granular` by entry (the default) or `atomic` as one value."""

    kind: Literal["atomic", "granular"]
    targets: ClassVar = ("object",)
    on_class: ClassVar = True

    def _write(self, schema: Schema) -> None:
        schema["x-kubernetes-map-type"] = self.kind


class StructType(MapType):
    """`MapType` for a struct."""
