"""Field errors in the words of Kubernetes.

A path is the text that ends up in `details.causes[].field`: `spec.ports[0].name`, `metadata.labels`. The
root of an object is `ROOT`, which prints as `<nil>`. `child`, `index` and `key` extend a path.

Values are printed as a Go server prints them, since clients and tests compare these sentences: strings are
quoted, numbers and booleans are bare, everything else is compact JSON with sorted keys. A `GoStruct` keeps
the order of its fields and stands for a value whose Go type has no JSON names of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, Final

from kubewright.api.field_errors import FieldError, quote

ROOT: Final = "<nil>"


class _Omit:
    """Marks a value that is left out of the message."""

    def __repr__(self) -> str:
        return "OMIT"


OMIT: Final = _Omit()


class GoStruct(dict[str, Any]):
    """A map that is printed in its own order, as Go prints structs."""


def child(path: str, name: str) -> str:
    """The path of a named field."""
    return name if path == ROOT or not path else f"{path}.{name}"


def index(path: str, position: int) -> str:
    """The path of a list element."""
    return f"[{position}]" if path == ROOT else f"{path}[{position}]"


def key(path: str, name: str) -> str:
    """The path of a map entry."""
    return f"[{name}]" if path == ROOT else f"{path}[{name}]"


def invalid(path: str, value: Any, detail: str) -> FieldError:
    """The value is malformed or out of bounds."""
    return FieldError("FieldValueInvalid", path, _worded("Invalid value", value, detail))


def type_invalid(path: str, value: Any, detail: str) -> FieldError:
    """The value has another type than the schema asks for."""
    return FieldError("FieldValueTypeInvalid", path, _worded("Invalid value", value, detail))


def not_supported(path: str, value: Any, supported: Iterable[str]) -> FieldError:
    """The value is not one of an enumeration."""
    names = ", ".join(quote(name) for name in supported)
    return FieldError(
        "FieldValueNotSupported",
        path,
        _worded("Unsupported value", value, f"supported values: {names}" if names else ""),
    )


def duplicate(path: str, value: Any) -> FieldError:
    """The value occurs already."""
    return FieldError("FieldValueDuplicate", path, _worded("Duplicate value", value, ""))


required = FieldError.required
forbidden = FieldError.forbidden
too_long = FieldError.too_long
too_many = FieldError.too_many
internal = FieldError.internal


def _worded(title: str, value: Any, detail: str) -> str:
    text = title if value is OMIT else f"{title}: {show(value)}"
    return f"{text}: {detail}" if detail else text


def show(value: Any) -> str:
    """A value as an error message shows it."""
    if type(value) is str:
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
    return "[" + ",".join(go_json(item) for item in value) + "]"
