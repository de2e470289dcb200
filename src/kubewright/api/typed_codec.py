"""Plain data as a server's own types read and write it.

A server that is written with typed structs does more to a JSON object than check it. Reading drops `null`s
and unknown fields and refuses values of another type; writing brings quantities, times and bytes into their
one canonical form, leaves out optional fields that have their zero value and shows required ones that were
absent: a Deployment that was sent without a status comes back with `status: {}`.

`TypedCodec.read` does the same from a table of messages (`wire_messages`), and raises `TypedDecodeError` with
the wording of kube-apiserver. Fields come in the order they were given, then those that are always shown.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from .quantity import Quantity, QuantityError
from .rfc3339 import TimeError, parse_layout
from .times import Duration, format_micro_time, format_time
from .wire_messages import SCALARS, Field, Message, Messages, type_name

Plain = dict[str, Any]

MAX_DEPTH: Final = 500
_RANGES: Final = {"i": (-(1 << 31), (1 << 31) - 1), "I": (-(1 << 63), (1 << 63) - 1)}
_ALPHABET: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_ABSENT: Final[tuple[Any, ...]] = (None, "", 0, [], {})
"""Values that are left out of a field that may be empty (`False` is one: it equals 0)."""


class TypedDecodeError(ValueError):
    """A value that does not fit its field, in the words of the JSON reader of typed servers.

    `converted` says the same in the words of a server that goes from plain data to its types directly, as
    it does for strategic and apply patches.
    """

    def __init__(self, text: str, converted: str = "") -> None:
        super().__init__(text)
        self.converted = converted or text


def conversion_error(value: Any, wanted: str, base: str) -> str:
    """What is wrong with plain data that is to become a Go value of type `wanted`, a `base` if a scalar."""
    kinds = {str: "string", bool: "bool", int: "int64", float: "float64", list: "slice", dict: "map"}
    kind = kinds.get(type(value), "invalid")
    if wanted.startswith("map["):
        return f"cannot restore map from {kind}"
    if wanted.startswith("[]"):
        return f"cannot restore slice from {kind}"
    if not base:
        return f"cannot restore struct from: {kind}"
    if (kind, base) == ("int64", "string") or (kind, base[:3]) == ("float64", "int"):
        return f"cannot convert {kind} to {wanted}"
    return f"unrecognized type: {base}"


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    return {int: "number", float: "number", list: "array", dict: "object"}.get(type(value), "null")


def _mismatch(
    value: Any, wanted: str, place: str, *, base: str = "", literal: bool = False
) -> TypedDecodeError:
    shown = f"{_word(value)} {value}" if literal else _word(value)
    where = f"struct field {place}" if place else "value"
    converted = conversion_error(value, wanted, base)
    return TypedDecodeError(f"json: cannot unmarshal {shown} into Go {where} of type {wanted}", converted)


def _read_string(value: Any, wanted: str, place: str) -> str:
    if type(value) is not str:
        raise _mismatch(value, wanted, place, base="string")
    return value


def _read_integer(value: Any, wanted: str, place: str, type_: str) -> int:
    base = "int32" if type_ == "i" else "int64"
    if type(value) not in (int, float):
        raise _mismatch(value, wanted, place, base=base)
    low, high = _RANGES[type_]
    if type(value) is float or not low <= value <= high:
        raise _mismatch(value, wanted, place, base=base, literal=True)
    return value  # type: ignore[no-any-return]


def _read_boolean(value: Any, wanted: str, place: str) -> bool:
    if type(value) is not bool:
        raise _mismatch(value, wanted, place, base="bool")
    return value


def _read_number(value: Any, wanted: str, place: str) -> float:
    if type(value) not in (int, float):
        raise _mismatch(value, wanted, place, base="float64")
    return value  # type: ignore[no-any-return]


def _read_bytes(value: Any, wanted: str, place: str) -> str:
    text = _read_string(value, wanted, place)
    bad = _base64_error(text)
    if bad is not None:
        text = f"illegal base64 data at input byte {bad}"
        raise TypedDecodeError(text, f"error decoding from json: {text}")
    return base64.b64encode(base64.b64decode(text)).decode()


def _base64_error(text: str) -> int | None:
    """Where text stops being base64, counted as Go counts it; line breaks are ignored."""
    places = [index for index, char in enumerate(text) if char not in "\r\n"]
    for start in range(0, len(places), 4):
        quantum = places[start : start + 4]
        for position, index in enumerate(quantum):
            char = text[index]
            if char in _ALPHABET:
                continue
            if char != "=" or position < 2:
                return index
            if position == 2 and len(quantum) < 4:
                return len(text)
            if position == 2 and text[quantum[3]] != "=":
                return quantum[3] - 1
            return places[start + 4] if start + 4 < len(places) else None
        if len(quantum) < 4:
            return quantum[0]
    return None


def _read_quantity(value: Any, wanted: str, place: str) -> str:
    if isinstance(value, dict | list | bool):
        value = "?"
    try:
        return str(Quantity(value))
    except QuantityError as error:
        raise TypedDecodeError(error.args[0]) from None


@contextmanager
def _read_by_itself(value: Any, wanted: str) -> Iterator[None]:
    """For types that read their JSON themselves: converters let them, and they do not know where they are."""
    try:
        yield
    except TypedDecodeError as error:
        raise TypedDecodeError(str(error), str(_mismatch(value, wanted, ""))) from None


def _read_int_or_string(value: Any, wanted: str, place: str) -> int | str:
    if type(value) is str:
        return value
    with _read_by_itself(value, "int32"):
        return _read_integer(value, "int32", place, "i")


def _read_time(value: Any, wanted: str, place: str) -> str:
    if type(value) is str and len(value) == 20 and value[10] == "T" and value[19] == "Z":
        try:
            datetime.fromisoformat(value)
            return value
        except ValueError:
            pass  # the slow way finds the words for what is wrong
    return format_time(_moment(value, place, fraction=0))


def _read_micro_time(value: Any, wanted: str, place: str) -> str:
    return format_micro_time(_moment(value, place, fraction=6))


def _moment(value: Any, place: str, *, fraction: int) -> datetime:
    with _read_by_itself(value, "string"):
        text = _read_string(value, "string", place)
    try:
        return parse_layout(text, fraction)
    except TimeError as error:
        raise TypedDecodeError(str(error)) from None


def _read_duration(value: Any, wanted: str, place: str) -> str:
    with _read_by_itself(value, "string"):
        text = _read_string(value, "string", place)
    try:
        return str(Duration(text))
    except ValueError:
        raise TypedDecodeError(f'time: invalid duration "{text}"') from None


_READERS: Final[dict[str, Callable[[Any, str, str], Any]]] = {
    "s": _read_string,
    "i": lambda value, wanted, place: _read_integer(value, wanted, place, "i"),
    "I": lambda value, wanted, place: _read_integer(value, wanted, place, "I"),
    "b": _read_boolean,
    "d": _read_number,
    "y": _read_bytes,
    "q": _read_quantity,
    "o": _read_int_or_string,
    "t": _read_time,
    "T": _read_micro_time,
    "D": _read_duration,
    "r": lambda value, wanted, place: value,
}


class _Shape:
    """A message as JSON has it: the fields of embedded messages among its own.

    `places` says under which embedded message a field stands, as messages about wrong values do.
    """

    __slots__ = ("fields", "keeps_empty", "kind", "name", "places", "shown")

    def __init__(self, message: Message, messages: Messages) -> None:
        self.name = message.name.rpartition(".")[2]
        self.fields: dict[str, Field] = {}
        self.places: dict[str, str] = {}
        self._collect(message, messages, "")
        self.kind = "metadata" in self.fields or self.name == "DeleteOptions"
        self.shown = tuple(field for field in self.fields.values() if field.always)
        # Most kinds are stored in a format that knows no empty lists; definitions are stored as JSON.
        self.keeps_empty = ".apiextensions." in message.name

    def _collect(self, message: Message, messages: Messages, prefix: str) -> None:
        for field in message.fields:
            if field.inline:
                embedded = field.type.rpartition(".")[2]
                self._collect(messages[field.type], messages, f"{prefix}{embedded}.")
            else:
                self.fields[field.name] = field
                if prefix:
                    self.places[field.name] = prefix + field.name


class TypedCodec:
    """Reads plain data by a table of messages."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._shapes: dict[str, _Shape] = {}

    def read(self, name: str, value: Any) -> Any:
        """A new object of the message `name`: only known fields, in canonical form."""
        if not isinstance(value, dict):
            raise _mismatch(value, type_name(name), "")
        return self._message(name, value, "", type_name(name), 0)

    def arranged(self, name: str, value: Any) -> Any:
        """The same plain data with its fields in the order of the type; what fits no field is last."""
        if type(value) is not dict or self._messages[name].shape != "object":
            return value
        fields = self._shape(name).fields
        out: Plain = {key: value[key] for key in ("kind", "apiVersion") if key in value and key not in fields}
        for field in fields.values():
            if field.name in value:
                out[field.name] = self._arranged_field(field, value[field.name])
        return out | {key: item for key, item in value.items() if key not in out}

    def _arranged_field(self, field: Field, value: Any) -> Any:
        if field.label == "%" and type(value) is dict:
            value = {key: value[key] for key in sorted(value)}
        if field.type in _READERS:
            return value
        if field.label == "*" and type(value) is list:
            return [self.arranged(field.type, item) for item in value]
        if field.label == "%" and type(value) is dict:
            return {key: self.arranged(field.type, item) for key, item in value.items()}
        return self.arranged(field.type, value)

    def _shape(self, name: str) -> _Shape:
        shape = self._shapes.get(name)
        if shape is None:
            shape = self._shapes[name] = _Shape(self._messages[name], self._messages)
        return shape

    def _message(self, name: str, value: Any, path: str, wanted: str, depth: int, place: str = "") -> Any:
        if depth > MAX_DEPTH:
            raise TypedDecodeError("exceeded max depth")
        message = self._messages[name]
        if message.shape == "list":
            if type(value) is not list:
                raise _mismatch(value, wanted, place)
            return [_read_string(item, "string", place) for item in value]
        if message.shape == "union":
            return self._union(message, value, path, place, depth)
        if type(value) is not dict:
            raise _mismatch(value, wanted, place)
        return self._object(self._shape(name), value, path, depth)

    def _object(self, shape: _Shape, value: Plain, path: str, depth: int) -> Plain:
        out: Plain = {}
        fields, places = shape.fields, shape.places
        read: Any
        for key, item in value.items():
            field = fields.get(key)
            if field is None:
                if (shape.kind or not path) and key in ("apiVersion", "kind") and item is not None:
                    text = _read_string(item, "string", f"{shape.name}.{path}{key}")
                    if text:
                        out[key] = text
                continue
            if type(item) is str and field.type == "s" and not field.label:
                read = item
            else:
                place = path + (places.get(key, key) if places else key)
                read = None if item is None else self._field(field, item, shape.name, place, depth)
            if field.pointer:
                if read is not None:
                    out[key] = read
            elif read is None:
                continue
            elif read not in _ABSENT or (field.always and (not field.label or shape.keeps_empty)):
                out[key] = read
        for field in shape.shown:
            if field.name not in out:
                structure = not (field.label or field.pointer or field.type in SCALARS)
                out[field.name] = self._zero(field.type, depth) if structure else field.zero
        return out

    def _field(self, field: Field, value: Any, struct: str, path: str, depth: int) -> Any:
        type_, label, wanted = field.type, field.label, field.type_name
        place = f"{struct}.{path}"
        if label == "*":
            if type(value) is not list:
                raise _mismatch(value, wanted, place)
            element = wanted[2:] if wanted[:2] == "[]" else type_name(type_)
            return [self._value(type_, item, element, place, path, depth) for item in value]
        if label == "%":
            if type(value) is not dict:
                raise _mismatch(value, wanted, place)
            element = wanted.partition("]")[2] or type_name(type_)
            return {key: self._value(type_, item, element, place, path, depth) for key, item in value.items()}
        return self._value(type_, value, wanted, place, path, depth)

    def _value(self, type_: str, value: Any, wanted: str, place: str, path: str, depth: int) -> Any:
        reader = _READERS.get(type_)
        if value is None:
            return self._zero(type_, depth) if reader is None else _ZEROS.get(type_)
        if reader is not None:
            return reader(value, wanted, place)
        return self._message(type_, value, path + ".", wanted, depth + 1, place)

    def _union(self, message: Message, value: Any, path: str, place: str, depth: int) -> Any:
        for field in message.fields:
            if field.type == "b" and type(value) is bool:
                return value
            if field.label and type(value) is list:
                return [self._value(field.type, item, "", place, path[:-1], depth) for item in value]
            if not field.label and field.type not in SCALARS and type(value) is dict:
                return self._message(field.type, value, path, "", depth + 1, place)
        if message.fields[0].type != "b":
            return None
        raise TypedDecodeError("boolean or JSON schema expected")

    def _zero(self, name: str, depth: int) -> Any:
        message = self._messages[name]
        if message.shape != "object":
            return None
        return self._object(self._shape(name), {}, "", depth + 1)


_ZEROS: Final[dict[str, Any]] = {"s": "", "i": 0, "I": 0, "b": False, "d": 0, "q": "0", "o": 0, "D": "0s"}


__all__ = ["TypedCodec", "TypedDecodeError"]
