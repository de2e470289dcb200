"""Field paths such as `.spec.replicas` or `.metadata.annotations['a.b/c']`.

This is the subset of JSONPath that custom resource definitions use for scale, selectable fields and rules:
keys only, no lists, no wildcards. A `SimplePath` can get, set and delete a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias, TypeVar, overload

from kubewright.text_cache import cache_short

from .jsonpath_steps import JSONPathError

_STEP: Final = re.compile(r"\.([^.\[\]'\"\\\s]+)|\[(?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\")\]")
_PLAIN_KEY: Final = re.compile(r"[^.\[\]'\"\\\s]+")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)

Key: TypeAlias = str | int
T = TypeVar("T")

_TYPE_NAMES: Final[dict[type, str]] = {
    dict: "a map",
    list: "a list",
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    type(None): "null",
}


class NestedTypeError(TypeError):
    """A value in unstructured data, at a path or on the way to it, has another type than the caller expects.

    It is not a missing value: reading the default instead would hide an error in the data.
    """


@overload
def nested_get(data: Any, keys: Iterable[Key], default: Any = None) -> Any: ...
@overload
def nested_get(data: Any, keys: Iterable[Key], default: None = None, *, of: type[T]) -> T | None: ...
@overload
def nested_get(data: Any, keys: Iterable[Key], default: T, *, of: type[T]) -> T: ...
def nested_get(data: Any, keys: Iterable[Key], default: Any = None, *, of: Any = None) -> Any:
    """Return the value at `keys` (map keys and list indices), or `default` if it does not exist.

    Below a `null` and behind the end of a list, nothing exists. Raises `NestedTypeError` if the path leads
    through a value that is neither a map nor a list, or the value is not of the type `of`. With `of`, `null`
    counts as missing, and an integer is a valid `float`.
    """
    path = tuple(keys)
    for position, key in enumerate(path):
        if data is None:
            return default
        if isinstance(data, dict):
            if key not in data:
                return default
            data = data[key]
        elif isinstance(data, list) and isinstance(key, int):
            if not -len(data) <= key < len(data):
                return default
            data = data[key]
        else:
            expected = "a list" if isinstance(key, int) else "a map"
            raise NestedTypeError(
                f"{_text(path[:position])} is {_described(data)}, not {expected}; "
                f"there cannot be a value at {_text(path)}"
            )
    if of is None:
        return data
    if data is None:
        return default
    if of is float and type(data) is int:
        return float(data)
    if not isinstance(data, of) or (isinstance(data, bool) and of is not bool):
        raise NestedTypeError(
            f"{_text(path)} is {_described(data)}, expected {_TYPE_NAMES.get(of, of.__name__)}"
        )
    return data


def _find(data: Any, keys: Iterable[Key], default: Any = None) -> Any:
    """Return the value at `keys`, or `default` if it does not exist, for any reason."""
    for key in keys:
        if isinstance(data, dict):
            if key not in data:
                return default
            data = data[key]
        elif isinstance(data, list) and isinstance(key, int) and -len(data) <= key < len(data):
            data = data[key]
        else:
            return default
    return data


def nested_set(data: Any, keys: Iterable[Key], value: Any) -> None:
    """Set the value at `keys`; missing maps are created, any other type on the path is a `TypeError`."""
    *parents, last = keys
    for position, key in enumerate(parents):
        if isinstance(data, dict):
            if data.get(key) is None:
                data[key] = {}
            data = data[key]
        else:
            data = _item(data, key, [*parents, last], position)
    if isinstance(data, dict):
        data[last] = value
    else:
        _item(data, last, [*parents, last], len(parents))
        data[last] = value


def nested_delete(data: Any, keys: Iterable[Key]) -> bool:
    """Delete the value at `keys`; return whether it existed."""
    *parents, last = keys
    parent = _find(data, parents)
    if isinstance(parent, dict) and last in parent:
        del parent[last]
        return True
    if isinstance(parent, list) and isinstance(last, int) and -len(parent) <= last < len(parent):
        del parent[last]
        return True
    return False


def _item(data: Any, key: Key, keys: list[Key], position: int) -> Any:
    if isinstance(data, list) and isinstance(key, int) and -len(data) <= key < len(data):
        return data[key]
    what = f"a list of {len(data)}" if isinstance(data, list) else _described(data)
    raise NestedTypeError(
        f"cannot set {keys[-1]!r}: {_text(keys[:position])} is {what}, which has no {key!r}"
    )


def _text(keys: Sequence[Key]) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys) or "the root"


def _described(value: Any) -> str:
    return _TYPE_NAMES.get(type(value), type(value).__name__)


class SimplePath:
    """A parsed field path; `keys` are its parts."""

    __slots__ = ("keys",)

    keys: tuple[str, ...]

    def __init__(self, keys: Iterable[str]) -> None:
        self.keys = tuple(keys)
        if not self.keys:
            raise JSONPathError("a path requires at least one field, such as .spec.replicas")

    @staticmethod
    def parse(text: str) -> SimplePath:
        """Parse `.spec.replicas` or `.spec.selectors['a.b']`."""
        return _parse(text)

    def get(self, data: Any, default: Any = None) -> Any:
        """Return the value at the path, or `default`."""
        return _find(data, self.keys, default)

    def set(self, data: dict[str, Any], value: Any) -> None:
        """Set the value at the path; missing maps are created."""
        nested_set(data, self.keys, value)

    def delete(self, data: dict[str, Any]) -> bool:
        """Delete the value at the path; return whether it existed."""
        return nested_delete(data, self.keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SimplePath) and self.keys == other.keys

    def __hash__(self) -> int:
        return hash(self.keys)

    def __str__(self) -> str:
        return "".join(f".{key}" if _PLAIN_KEY.fullmatch(key) else _quoted(key) for key in self.keys)

    def __repr__(self) -> str:
        return f"SimplePath.parse({str(self)!r})"


def _quoted(key: str) -> str:
    escaped = key.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"


@cache_short(maxsize=1024)
def _parse(text: str) -> SimplePath:
    keys: list[str] = []
    position = 0
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None:
            raise JSONPathError(
                f"{text!r} is not a field path: cannot parse {text[position:]!r}; "
                "write it like .spec.replicas or .spec.labels['a.b/c'], without list indices"
            )
        if step[1] is not None:
            keys.append(step[1])
        else:
            keys.append(_ESCAPED.sub(r"\1", step[2] if step[2] is not None else step[3]))
        position = step.end()
    return SimplePath(keys)
