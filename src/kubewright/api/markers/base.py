"""`Marker`, the base class of all markers, and `mark`, which attaches markers to a class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar

Schema = dict[str, Any]
StructT = TypeVar("StructT", bound=type)


class MarkerError(ValueError):
    """A marker does not support the type that it is applied to; the message names an alternative."""


@dataclass(frozen=True)
class Marker:
    """Base of all markers. Markers with `first` change the type and are applied before the others."""

    targets: ClassVar[tuple[str, ...]] = ()
    """JSON types that the marker supports; empty means all."""
    first: ClassVar[bool] = False
    on_class: ClassVar[bool] = False
    """Whether `mark` accepts it."""
    presence_flags: ClassVar[tuple[str, ...]] = ()
    """`required`: the field is always encoded; `nullable`: `None` is a value, see `presence`."""

    def apply(self, schema: Schema) -> None:
        """Write the marker into `schema`, in place; raise `MarkerError` if the schema does not support it."""
        self._check(schema)
        self._write(schema)

    def _write(self, schema: Schema) -> None:
        """Write the marker into a schema that supports it."""

    def _check(self, schema: Schema) -> None:
        """Raise `MarkerError` if `schema` does not support the marker."""
        found = schema.get("type")
        if not self.targets or found in self.targets:
            return
        if self.targets == ("string",) and schema.get("x-kubernetes-int-or-string"):
            return
        if found is None:
            found = "int-or-string" if schema.get("x-kubernetes-int-or-string") else "any value"
        raise MarkerError(f"{type(self).__name__} is applied to {_a(found)}; {_instead(self, found)}")


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


_SIZES: Final = {
    "string": ("MinLen", "MaxLen"),
    "array": ("MinItems", "MaxItems"),
    "object": ("MinProperties", "MaxProperties"),
    "integer": ("Ge", "Le"),
    "number": ("Ge", "Le"),
}
_LOWER: Final = ("Ge", "Gt", "MinLen", "MinItems", "MinProperties")
_UPPER: Final = ("Le", "Lt", "MaxLen", "MaxItems", "MaxProperties")


def _instead(marker: Marker, found: str) -> str:
    name = type(marker).__name__
    if found in _SIZES and name in _LOWER + _UPPER:
        return f"write {_SIZES[found][name in _UPPER]} to bound {_a(found)}"
    if found == "array" and "array" not in marker.targets:
        return f"to describe the items, write list[Annotated[<item type>, {name}(...)]]"
    return (
        f"it supports {' or '.join(marker.targets)} only; change the type of the field or remove the marker"
    )


@dataclass(frozen=True)
class Flag(Marker):
    """A marker without arguments; use its constant."""

    keyword: ClassVar[str]
    value: ClassVar[Any] = True

    def _write(self, schema: Schema) -> None:
        schema[self.keyword] = self.value


_MARKED: Final = "__kubewright_markers__"


def mark(*markers: Marker) -> Callable[[StructT], StructT]:
    """Attach markers to a class; raise `TypeError` for markers of fields."""
    for marker in markers:
        if not isinstance(marker, Marker):
            raise TypeError(f"mark() accepts markers such as Cel(...), not {marker!r}")
        if not marker.on_class:
            raise TypeError(f"{type(marker).__name__} is a marker of fields; write it in Annotated[...]")

    def attach(cls: StructT) -> StructT:
        setattr(cls, _MARKED, (*vars(cls).get(_MARKED, ()), *markers))
        return cls

    return attach


def class_markers(cls: type) -> tuple[Marker, ...]:
    """Return the markers of a class and its bases, bases first."""
    found: list[Marker] = []
    for base in reversed(cls.__mro__):
        found.extend(vars(base).get(_MARKED, ()))
    return tuple(found)
