"""Field paths such as `.spec.replicas` or `.metadata.annotations['a.b/c']`.

This is the subset of JSONPath that custom resource definitions use for scale, selectable fields and rules:
keys only, no lists, no wildcards. A `SimplePath` can get, set and delete a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, TypeAlias

from .jsonpath_steps import JSONPathError

_STEP: Final = re.compile(r"\.([^.\[\]'\"\\\s]+)|\[(?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\")\]")
_PLAIN_KEY: Final = re.compile(r"[^.\[\]'\"\\\s]+")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)

Key: TypeAlias = str | int


def nested_get(data: Any, keys: Iterable[Key], default: Any = None) -> Any:
    """Return the value at `keys` (map keys and list indices), or `default` if it does not exist."""
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
    parent = nested_get(data, parents)
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
    place = (
        "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in keys[:position]) or "the root"
    )
    what = f"a list of {len(data)}" if isinstance(data, list) else f"a {type(data).__name__}"
    raise TypeError(f"cannot set {keys[-1]!r}: {place} is {what}, which has no {key!r}")


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
        return nested_get(data, self.keys, default)

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


@lru_cache(maxsize=1024)
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
