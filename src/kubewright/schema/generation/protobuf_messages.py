"""Protobuf messages of Python types, from the field numbers that they declare.

    class FlunderSpec(Spec):
        reference: Annotated[str, FieldNumber(1)] = ""

The messages are lines of text in the notation of `api.builtin.wire_messages`. All scalars are pointers in
that notation, so that a field is in protobuf exactly if it is in JSON; empty lists and maps are absent in
protobuf. The kind itself has the numbers of Kubernetes: 1 for metadata, 2 for spec and 3 for status.

| Python | protobuf |
|---|---|
| `str`, `Literal`, `Enum` of strings | string |
| `int` | int64, with `Int32` int32 |
| `bool`, `bytes`, `float` | bool, bytes, double |
| `Quantity`, `datetime`, `Duration`, `int or str` | the messages of Kubernetes |
| `list[T]`, `dict[str, T]` | repeated, map |
| a struct, a built-in type such as `PodSpec` | a message |
"""

from __future__ import annotations

import enum
import types
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

from kubewright.api.markers import FieldNumber, Int32
from kubewright.api.values.quantity import Quantity
from kubewright.api.values.times import Duration

from .from_builtin import builtin_definition
from .struct_fields import StructField, struct_fields

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_ROOT_NUMBERS: Final = {"metadata": 1, "spec": 2, "status": 3}
_SCALARS: Final[dict[Any, str]] = {
    str: "s",
    bool: "b",
    int: "I",
    float: "d",
    bytes: "y",
    datetime: "t",
    Duration: "D",
    Quantity: "q",
    msgspec.Raw: "r",
}


class ProtobufDeclarationError(TypeError):
    """The types of a kind declare some field numbers and cannot be encoded as protobuf."""


def message_lines(cls: type, home: str) -> dict[str, str]:
    """Return the messages of a kind and of its list, by name; empty if it declares no field numbers.

    `home` is the prefix of the names, such as `com.example.wardle.v1alpha1`.
    """
    builder = _Messages(home)
    name = builder.message(cls, is_kind=True)
    if not builder.has_numbers:
        return {}
    if builder.missing:
        raise ProtobufDeclarationError(
            f"{builder.missing[0]} has no FieldNumber; protobuf needs one for every field of {cls.__name__}"
        )
    if builder.unsupported:
        raise ProtobufDeclarationError(builder.unsupported[0])
    builder.lines[f"{name}List"] = f"1 metadata {_META}.ListMeta!;2 items *{cls.__name__}!"
    return builder.lines


class _Messages:
    """Collects messages of nested types."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._names: dict[str, type] = {}
        self.lines: dict[str, str] = {}
        self.has_numbers = False
        self.missing: list[str] = []
        self.unsupported: list[str] = []

    def message(self, cls: Any, *, is_kind: bool = False) -> str:
        struct = get_origin(cls) or cls
        name = f"{self._home}.{struct.__name__}"
        if self._names.setdefault(name, struct) is not struct:
            self.unsupported.append(f"two classes have the name {struct.__name__}; rename one for protobuf")
        if name in self.lines:
            return name
        self.lines[name] = ""
        used: dict[int, str] = {}
        parts = []
        for field in struct_fields(cls):
            if is_kind and field.wire_name in ("apiVersion", "kind"):
                continue
            if _bare(field.type)[0] in (None, type(None)):  # CustomResource[Spec, None] has no status
                continue
            number = self._number(field, struct, is_kind)
            if number and number in used:
                self.unsupported.append(
                    f"fields {used[number]} and {field.name} of {struct.__name__} have field number {number}"
                )
            used[number] = field.name
            type_ = self._type(field.type, f"{struct.__name__}.{field.name}")
            parts.append(f"{number} {field.wire_name} {type_}")
        self.lines[name] = ";".join(parts)
        return name

    def _number(self, field: StructField, struct: type, is_kind: bool) -> int:
        for marker in _markers(field.type):
            if isinstance(marker, FieldNumber):
                self.has_numbers = True
                return marker.number
        if is_kind and field.wire_name in _ROOT_NUMBERS:
            return _ROOT_NUMBERS[field.wire_name]
        self.missing.append(f"{struct.__name__}.{field.name}")
        return 0

    def _type(self, type_: Any, where: str) -> str:
        inner, markers = _bare(type_)
        origin = get_origin(inner)
        if origin in (list, tuple, set, frozenset):
            return "*" + self._item(get_args(inner)[0], where)
        if origin is dict:
            return "%" + self._item(get_args(inner)[1], where)
        found = self._single(inner, where)
        if found == "I" and Int32 in markers:
            found = "i"
        return found + "?"

    def _item(self, type_: Any, where: str) -> str:
        inner, markers = _bare(type_)
        if get_origin(inner) in (list, tuple, set, frozenset, dict):
            self.unsupported.append(
                f"{where}: protobuf has no lists or maps of lists or maps; write a struct with a list"
            )
            return "s"
        found = self._single(inner, where)
        return "i" if found == "I" and Int32 in markers else found

    def _single(self, type_: Any, where: str) -> str:
        if type_ in _SCALARS:
            return _SCALARS[type_]
        if get_origin(type_) is Literal:
            return "I" if isinstance(get_args(type_)[0], int) else "s"
        if get_origin(type_) in (Union, types.UnionType) and set(get_args(type_)) == {int, str}:
            return "o"
        cls = get_origin(type_) or type_
        if isinstance(cls, type):
            if issubclass(cls, enum.Enum):
                return "I" if isinstance(next(iter(cls)).value, int) else "s"
            definition = builtin_definition(cls)
            if definition is not None:
                return definition
            if issubclass(cls, msgspec.Struct):
                return self.message(type_)
            for base, letter in ((str, "s"), (int, "I"), (bytes, "y")):
                if issubclass(cls, base):
                    return letter
        self.unsupported.append(f"{where}: {getattr(cls, '__name__', type_)} has no form in protobuf")
        return "s"


def _bare(type_: Any) -> tuple[Any, list[Any]]:
    """Return a type without `Annotated` and `None`, and its markers."""
    markers: list[Any] = []
    while True:
        if get_origin(type_) is Annotated:
            markers += type_.__metadata__
            type_ = get_args(type_)[0]
            continue
        if get_origin(type_) in (Union, types.UnionType):
            rest = [each for each in get_args(type_) if each is not type(None)]
            if len(rest) == 1:
                type_ = rest[0]
                continue
            if len(rest) < len(get_args(type_)) and set(rest) == {int, str}:
                return int | str, markers
        return type_, markers


def _markers(type_: Any) -> list[Any]:
    return _bare(type_)[1]
