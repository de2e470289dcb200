"""Values formatted as a Go server prints them; clients and tests compare these messages.

| function | Go |
|---|---|
| `format_value` | `%v`: `map[a:1 b:[x y]]` |
| `format_literal` | `%#v`: `map[string]interface {}{"a":1}` |
| `type_name` | `%T`: `map[string]interface {}` |
| `quote` | `%q` of a string |
| `format_float` | `%v` of a float64 |
| `marshal_json` | `encoding/json`: compact, sorted keys, HTML characters escaped |
| `json_type_name` | the type in `json: cannot unmarshal ...` |
| `format_invalid_value` | the value in `Invalid value: ...` |
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, Final

_SHORT_ESCAPES: Final = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
    "\v": "\\v",
}  # fmt: skip
_JSON_ESCAPES: Final = {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    ord("\b"): "\\b",
    ord("\f"): "\\f",
    ord("<"): "\\u003c",
    ord(">"): "\\u003e",
    ord("&"): "\\u0026",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
    **{code: f"\\u{code:04x}" for code in range(0x20) if code not in (8, 9, 10, 12, 13)},
}


class GoStruct(dict[str, Any]):
    """A map formatted in insertion order, as Go formats structs; plain dicts are sorted by key."""


def quote(text: str) -> str:
    """Quote text (`%q`)."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_SHORT_ESCAPES.get(char) or _escape(char) for char in text) + '"'


def _escape(char: str) -> str:
    if char.isprintable():
        return char
    point = ord(char)
    if point < 0x80:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def format_invalid_value(value: Any) -> str:
    """Format the value of an `Invalid value` error: quoted text, bare numbers, compact JSON for the rest."""
    if isinstance(value, str):
        return quote(value)
    if type(value) is float:
        return format_float(value)
    return marshal_json(value)


def format_float(value: float) -> str:
    """Format a float64 (`%v`): shortest digits, exponent below 1e-4 and from 1e6 on."""
    return _float_text(value, -4, 6)


def _float_text(value: float, smallest: int, largest: int) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    number = Decimal(repr(value)).normalize()
    exponent = number.adjusted()
    if value == 0 or smallest <= exponent < largest:
        return format(number, "f")
    digits = "".join(map(str, number.as_tuple().digits))
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    sign = "-" if value < 0 else ""
    return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def marshal_json(value: Any) -> str:
    """Encode as compact JSON with sorted keys and escaped HTML characters."""
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, str):
        return f'"{value.translate(_JSON_ESCAPES)}"'
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        text = _float_text(value, -6, 21)
        return text.replace("e-0", "e-") if "e-0" in text else text
    if isinstance(value, dict):
        names: Sequence[str] = list(value) if isinstance(value, GoStruct) else sorted(value)
        return "{" + ",".join(f"{marshal_json(name)}:{marshal_json(value[name])}" for name in names) + "}"
    if isinstance(value, Iterable):
        return "[" + ",".join(marshal_json(item) for item in value) + "]"
    return marshal_json(str(value))


def format_number(value: float) -> str:
    """Format a number of decoded JSON: whole floats without a fraction, as Go decodes them to int64."""
    if isinstance(value, int):
        return str(value)
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return repr(value)


def format_value(value: Any) -> str:
    """Format decoded JSON (`%v`): maps as `map[a:1 b:2]` in key order, lists as `[a b]`, strings bare."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | float():
            return format_number(value)
        case dict():
            return "map[" + " ".join(f"{key}:{format_value(value[key])}" for key in sorted(value)) + "]"
        case _:
            return "[" + " ".join(format_value(item) for item in value) + "]"


def format_literal(value: Any) -> str:
    """Format decoded JSON as a Go literal (`%#v`)."""
    match value:
        case None:
            return "interface {}(nil)"
        case str():
            return quote(value)
        case dict():
            inner = ", ".join(f"{quote(key)}:{format_literal(value[key])}" for key in sorted(value))
            return "map[string]interface {}{" + inner + "}"
        case list():
            return "[]interface {}{" + ", ".join(format_literal(item) for item in value) + "}"
        case _:
            return format_value(value)


def format_strings(values: Iterable[str]) -> str:
    """Format a list of strings as a Go literal: `[]string{"a", "b"}`, `[]string(nil)` when empty."""
    inner = ", ".join(quote(value) for value in values)
    return f"[]string{{{inner}}}" if inner else "[]string(nil)"


def type_name(value: Any) -> str:
    """Name the Go type of decoded JSON (`%T`)."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "bool"
        case str():
            return "string"
        case int():
            return "int64"
        case float():
            return "float64"
        case dict():
            return "map[string]interface {}"
        case _:
            return "[]interface {}"


def json_type_name(value: Any) -> str:
    """Name the JSON type of a value as Go's decoder does in `json: cannot unmarshal ...`."""
    match value:
        case dict():
            return "object"
        case list():
            return "array"
        case str():
            return "string"
        case bool():
            return "bool"
        case None:
            return "null"
        case _:
            return "number"
