"""Whether values of an object have changed the structure of what templates render to.

Templates are text. A value that is written without a filter can add fields and whole documents by line
breaks, and hide the lines after it by a quote or bracket at its beginning; the operator would apply the
result with its own permissions. Therefore objects with such values are rendered twice, the second time
without these characters. Both results must have the same objects and fields; the text of fields can differ,
and so can the length of lists of plain values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_SYNTAX: Final = re.compile("[\r\n\x85\u2028\u2029]|^\\s*['\"{[|>]+")
"""Line breaks, and what begins a quoted, flow or block scalar or a flow collection."""


def has_syntax(value: Any) -> bool:
    """Whether a value contains a text that can change the structure of YAML around it."""
    if isinstance(value, str):
        return _SYNTAX.search(value) is not None
    if isinstance(value, Mapping):
        return any(has_syntax(key) or has_syntax(each) for key, each in value.items())
    return isinstance(value, list) and any(map(has_syntax, value))


def without_syntax(value: Any) -> Any:
    """Return a value with spaces instead of such characters, except in the keys of mappings."""
    if isinstance(value, str):
        return _SYNTAX.sub(" ", value)
    if isinstance(value, Mapping):
        return {key: without_syntax(each) for key, each in value.items()}
    return [without_syntax(each) for each in value] if isinstance(value, list) else value


def find_difference(actual: Any, expected: Any, path: str = "") -> str | None:
    """Return the first path at which two rendered values have different fields, or `None`."""
    if isinstance(actual, dict) and isinstance(expected, dict):
        for key in (*actual, *expected):
            if key not in actual or key not in expected:
                return f"{path}.{key}"
            if (found := find_difference(actual[key], expected[key], f"{path}.{key}")) is not None:
                return found
        return None
    if isinstance(actual, list) and isinstance(expected, list):
        if len(actual) != len(expected) and any(isinstance(each, dict | list) for each in actual + expected):
            return f"{path}[{min(len(actual), len(expected))}]"
        for index, (one, other) in enumerate(zip(actual, expected, strict=False)):
            if (found := find_difference(one, other, f"{path}[{index}]")) is not None:
                return found
        return None
    return path if type(actual) is not type(expected) else None
