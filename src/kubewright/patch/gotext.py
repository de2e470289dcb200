"""Values as Go prints them.

Kubernetes puts values into its error messages with Go's `%v`, `%#v`, `%T` and `%q`. Clients and tests match
on those texts, so the few messages that contain a value are printed in the same way here.
"""

from __future__ import annotations

from typing import Any

import msgspec


def number_text(value: float) -> str:
    """A number as `%v` prints it: floats in the shortest form, exponents with two digits."""
    if isinstance(value, int):
        return str(value)
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return repr(value)


def plain(value: Any) -> str:
    """`%v`: maps as `map[a:1 b:2]` in key order, lists as `[a b]`, strings bare."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | float():
            return number_text(value)
        case dict():
            return "map[" + " ".join(f"{key}:{plain(value[key])}" for key in sorted(value)) + "]"
        case _:
            return "[" + " ".join(plain(item) for item in value) + "]"


def syntax(value: Any) -> str:
    """`%#v`: as a Go literal."""
    match value:
        case None:
            return "interface {}(nil)"
        case str():
            return quoted(value)
        case dict():
            inner = ", ".join(f"{quoted(key)}:{syntax(value[key])}" for key in sorted(value))
            return "map[string]interface {}{" + inner + "}"
        case list():
            return "[]interface {}{" + ", ".join(syntax(item) for item in value) + "}"
        case _:
            return plain(value)


def type_name(value: Any) -> str:
    """`%T` of decoded JSON."""
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


def quoted(text: str) -> str:
    """`%q` of a string."""
    return msgspec.json.encode(text).decode()


def json_kind(value: Any) -> str:
    """What Go's JSON decoder calls a value that it cannot store."""
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
