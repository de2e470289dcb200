"""Values as a Go server prints them, since clients and tests compare these sentences.

`quote` is Go's `%q` for text, `go_float` its `%v` for numbers, `go_json` what its JSON encoder writes; `show`
chooses among them as error messages do: text is quoted, numbers and booleans are bare, everything else is
compact JSON with sorted keys. A `GoStruct` keeps the order of its fields and stands for a value whose Go type
has no JSON names of its own.
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
    """A map that is printed in its own order, as Go prints structs."""


def quote(text: str) -> str:
    """Quote text as Go's `%q` does, which is how values appear in messages."""
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


def show(value: Any) -> str:
    """A value as an error message shows it."""
    if isinstance(value, str):
        return quote(value)
    if type(value) is float:
        return go_float(value)
    return go_json(value)


def go_float(value: float) -> str:
    """Go's `%v` of a float64: shortest digits, exponent below 1e-4 and from 1e6 on."""
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


def go_json(value: Any) -> str:
    """Compact JSON as Go marshals it: sorted keys, HTML characters escaped."""
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
        return "{" + ",".join(f"{go_json(name)}:{go_json(value[name])}" for name in names) + "}"
    if isinstance(value, Iterable):
        return "[" + ",".join(go_json(item) for item in value) + "]"
    return go_json(str(value))


__all__ = ["GoStruct", "go_float", "go_json", "quote", "show"]
