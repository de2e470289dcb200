"""Path elements of FieldsV1: the keys of field sets.

- `f:<name>` is a field or map key,
- `k:<object>` an element of a list, by its key fields,
- `v:<value>` an element of a set, by its value,
- `i:<index>` an element of another list.

`.` is not an element: it marks the object that contains it as a member of the field set. Elements are
compared as text, so those from clients are converted to their canonical form: key fields sorted, no spaces.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import msgspec

from kubewright.api.values import go_format

Path = tuple[str, ...]

SELF: Final = "."
_USUAL_LENGTH: Final = 256

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
HTML_ESCAPES: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


class FieldSetError(ValueError):
    """FieldsV1 is malformed."""


def scalar_json(value: Any) -> str:
    """Encode a scalar as path elements contain it: as in Go, with `<`, `>` and `&` escaped."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        value = int(value)
    text = _encode(value).decode()
    if text.isascii() and "<" not in text and ">" not in text and "&" not in text:
        return text
    return text.translate(HTML_ESCAPES)


def field(name: str) -> str:
    """Return the path element of a field or map key."""
    return "f:" + name


def value_element(value: Any) -> str:
    """Return the path element of a member of a set."""
    return "v:" + scalar_json(value)


def key_element(keys: dict[str, Any]) -> str:
    """Return the path element of a list element with these key fields."""
    return "k:{" + ",".join(f"{scalar_json(name)}:{scalar_json(keys[name])}" for name in sorted(keys)) + "}"


def canonical_element(element: str) -> str | None:
    """Return the canonical form; `None` for an unknown type of element."""
    kind = element[:2]
    if len(element) < 2:
        raise FieldSetError(f"key must be 2 characters long: {element!r}")
    if kind[1] != ":":
        raise FieldSetError(f"missing colon: {element}")
    try:
        match kind:
            case "f:":
                return element
            case "v:":
                return value_element(_decode(element[2:].encode()))
            case "k:":
                keys = _decode(element[2:].encode())
                if not isinstance(keys, dict):
                    raise FieldSetError(f"a key has to be an object: {element}")
                return key_element(keys)
            case "i:":
                return f"i:{int(element[2:])}"
            case _:
                return None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise FieldSetError(f"{element}: {error}") from None


def fields_path(*names: str) -> Path:
    """Return the path of nested fields: `fields_path("spec", "replicas")`."""
    return tuple("f:" + name for name in names)


def _value_rank(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, (int, float)):
        return (0, value)
    if isinstance(value, str):
        return (1, value)
    return (4, "") if value is None else (3, scalar_json(value))


def _place(element: str) -> tuple[Any, ...]:
    """Return the sort key of an element, cached for elements of usual size."""
    return _usual_place(element) if len(element) <= _USUAL_LENGTH else _read_place(element)


def _read_place(element: str) -> tuple[Any, ...]:
    kind = element[:2]
    if kind == SELF:
        return (-1,)
    if kind == "f:":
        return (0, element)
    if kind == "k:":
        keys: dict[str, Any] = _decode(element[2:].encode())
        return (1, tuple((name, _value_rank(value)) for name, value in keys.items()))
    if kind == "v:":
        return (2, _value_rank(_decode(element[2:].encode())))
    return (3, int(element[2:]))


_usual_place = lru_cache(maxsize=4096)(_read_place)


def in_order(elements: Iterable[str]) -> list[str]:
    """Sort path elements as Kubernetes does: fields, keys, values, indexes, each by value."""
    listed = list(elements)
    if len(listed) < 2:
        return listed
    listed.sort()
    # "." and "f:" precede "i:", "k:" and "v:", and fields are in the order of their text.
    if listed[-1][0] == "f":
        return listed
    return sorted(listed, key=_place)


def element_text(element: str) -> str:
    """Format a path element for messages: `.name`, `[port=80]`, `[="x"]`, `[3]`."""
    kind, rest = element[:2], element[2:]
    if kind == "f:":
        return "." + rest
    if kind == "k:":
        keys: dict[str, Any] = _decode(rest.encode())
        return "[" + ",".join(f"{name}={_value_text(value)}" for name, value in keys.items()) + "]"
    if kind == "v:":
        return f"[={_value_text(_decode(rest.encode()))}]"
    return f"[{rest}]"


def key_fields(element: str) -> list[str]:
    """Return the names of the key fields of a `k:` element."""
    return list(_decode(element[2:].encode()))


def _value_text(value: Any) -> str:
    if value is None:
        return "null"
    return go_format.quote(value) if isinstance(value, str) else go_format.format_value(value)


def path_text(path: Path) -> str:
    """Format a path for messages: `.spec.ports[port=80].name`."""
    return "".join(map(element_text, path))
