"""Normalize plain data as kube-apiserver does by decoding it into Go structs and encoding it again.

Decoding drops `null`s and unknown fields and rejects values of the wrong type. Encoding writes quantities,
times and bytes in canonical form, omits optional fields that have their zero value, and adds fields that are
always present: a Deployment without a status gets `status: {}`.

`TypedCodec.normalize` does this with a table of messages (`wire_messages`) and raises `TypedDecodeError` with
the wording of kube-apiserver. Fields keep their order; fields that are always present are appended.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from kubewright.api.values.quantity import Quantity, QuantityError
from kubewright.api.values.rfc3339 import TimeError, parse_layout
from kubewright.api.values.times import Duration, format_micro_time, format_time

from .wire_messages import SCALARS, Field, Message, Messages, type_name

Plain = dict[str, Any]

MAX_DEPTH: Final = 500
_RANGES: Final = {"i": (-(1 << 31), (1 << 31) - 1), "I": (-(1 << 63), (1 << 63) - 1)}
_ALPHABET: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_ABSENT: Final[tuple[Any, ...]] = (None, "", 0, [], {})
"""Values that are omitted from optional fields; `False` is one of them, because it equals 0."""


class TypedDecodeError(ValueError):
    """A value has the wrong type for its field, with the wording of Go's JSON decoder.

    `converted` has the wording of the conversion from plain data to Go structs, which kube-apiserver uses for
    strategic merge and apply patches.
    """

    def __init__(self, text: str, converted: str = "") -> None:
        super().__init__(text)
        self.converted = converted or text


def conversion_error(value: Any, wanted: str, base: str) -> str:
    """Return the message for data that cannot be converted to the Go type `wanted` (`base` if a scalar)."""
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


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    return {int: "number", float: "number", list: "array", dict: "object"}.get(type(value), "null")


def _mismatch(
    value: Any, wanted: str, place: str, *, base: str = "", literal: bool = False
) -> TypedDecodeError:
    shown = f"{_json_type(value)} {value}" if literal else _json_type(value)
    where = f"struct field {place}" if place else "value"
    converted = conversion_error(value, wanted, base)
    return TypedDecodeError(f"json: cannot unmarshal {shown} into Go {where} of type {wanted}", converted)


def _read_string(value: Any, wanted: str, place: str) -> str:
    if type(value) is not str:
        raise _mismatch(value, wanted, place, base="string")
    return value


def _read_integer(value: Any, wanted: str, place: str, type_: str) -> int:
    base = "int32" if type_ == "i" else "int64"
    if type(value) is not int:
        raise _mismatch(value, wanted, place, base=base, literal=type(value) is float)
    low, high = _RANGES[type_]
    if not low <= value <= high:
        raise _mismatch(value, wanted, place, base=base, literal=True)
    return value


def _read_boolean(value: Any, wanted: str, place: str) -> bool:
    if type(value) is not bool:
        raise _mismatch(value, wanted, place, base="bool")
    return value


def _read_number(value: Any, wanted: str, place: str) -> float:
    if type(value) is not int and type(value) is not float:
        raise _mismatch(value, wanted, place, base="float64")
    return value


def _read_bytes(value: Any, wanted: str, place: str) -> str:
    text = _read_string(value, wanted, place)
    bad = _base64_error(text)
    if bad is not None:
        text = f"illegal base64 data at input byte {bad}"
        raise TypedDecodeError(text, f"error decoding from json: {text}")
    return base64.b64encode(base64.b64decode(text)).decode()


def _base64_error(text: str) -> int | None:
    """Return the position of the first base64 error, counted as in Go; line breaks are ignored."""
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
    """Wrap errors of types with an UnmarshalJSON method, whose messages do not contain the field."""
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
            pass  # parse_layout raises the right error
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


_DEFAULTED_LISTS: Final = frozenset({("HPAScalingRules", "policies")})
"""Lists whose default applies only if they are missing, so that empty ones are kept for validation."""


class _JSONFields:
    """Fields of a message in JSON, with those of embedded messages inlined.

    `places` has the paths of inlined fields, which error messages contain.
    """

    __slots__ = ("fields", "keeps_empty", "kind", "name", "places", "shown")

    def __init__(self, message: Message, messages: Messages) -> None:
        self.name = message.name.rpartition(".")[2]
        self.fields: dict[str, Field] = {}
        self.places: dict[str, str] = {}
        self._collect(message, messages, "")
        self.kind = "metadata" in self.fields or self.name == "DeleteOptions"
        self.shown = tuple(field for field in self.fields.values() if field.always)
        # Most kinds are stored in protobuf, which has no empty lists; CRDs are stored as JSON.
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
    """Normalizes plain data with a table of messages."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._json_fields: dict[str, _JSONFields] = {}

    def normalize(self, name: str, value: Any) -> Any:
        """Return a new object of the message `name` with its known fields in canonical form."""
        if not isinstance(value, dict):
            raise _mismatch(value, type_name(name), "")
        return self._message(name, value, "", type_name(name), 0)

    def in_field_order(self, name: str, value: Any) -> Any:
        """Return the data with its fields in the order of the message; unknown fields are last."""
        if type(value) is not dict or self._messages[name].shape != "object":
            return value
        fields = self._fields_of(name).fields
        out: Plain = {key: value[key] for key in ("kind", "apiVersion") if key in value and key not in fields}
        for field in fields.values():
            if field.name in value:
                out[field.name] = self._field_in_order(field, value[field.name])
        return out | {key: item for key, item in value.items() if key not in out}

    def _field_in_order(self, field: Field, value: Any) -> Any:
        if field.label == "%" and type(value) is dict:
            value = {key: value[key] for key in sorted(value)}
        if field.type in _READERS:
            return value
        if field.label == "*" and type(value) is list:
            return [self.in_field_order(field.type, item) for item in value]
        if field.label == "%" and type(value) is dict:
            return {key: self.in_field_order(field.type, item) for key, item in value.items()}
        return self.in_field_order(field.type, value)

    def _fields_of(self, name: str) -> _JSONFields:
        shape = self._json_fields.get(name)
        if shape is None:
            shape = self._json_fields[name] = _JSONFields(self._messages[name], self._messages)
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
        return self._object(self._fields_of(name), value, path, depth)

    def _object(self, shape: _JSONFields, value: Plain, path: str, depth: int) -> Plain:
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
            elif (
                read not in _ABSENT
                or (field.always and (not field.label or shape.keeps_empty))
                or (read == [] and (shape.name, key) in _DEFAULTED_LISTS)
            ):
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
        return self._object(self._fields_of(name), {}, "", depth + 1)


_ZEROS: Final[dict[str, Any]] = {
    "s": "",
    "i": 0,
    "I": 0,
    "b": False,
    "d": 0,
    "q": "0",
    "o": 0,
    "D": "0s",
    "y": "",
}
