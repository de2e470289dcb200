"""Regular expressions by RE2, which matches in linear time."""

from __future__ import annotations

from typing import Any, Final

import re2

from kubewright.cel.errors import CelError
from kubewright.cel.functions import Overload, overload
from kubewright.text_cache import cache_short

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 8 << 20


_REASONS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression: ``",
}
"""Go's messages for errors that RE2 words differently."""


def _reason(error: Exception) -> str:
    text = error.args[0] if error.args else ""
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    reason, colon, where = text.partition(": ")
    return f"{_REASONS.get(reason, reason)}: `{where}`" if colon else _REASONS.get(reason, reason)


@cache_short(maxsize=512)
def compiled(pattern: str) -> Any:
    """Return the compiled pattern; raise `CelError`."""
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        raise CelError(f"error parsing regexp: {_reason(error)}") from None
    except UnicodeEncodeError:
        raise CelError("error parsing regexp: invalid UTF-8") from None


def matches(text: str, pattern: str) -> bool:
    """`text.matches(pattern)`: anywhere in the text."""
    return compiled(pattern).search(text) is not None


def _illegal(pattern: str) -> Any:
    try:
        return compiled(pattern)
    except CelError as error:
        raise CelError(f"Illegal regex: {error}") from None


def find(text: str, pattern: str) -> str:
    """`text.find(pattern)`: the first match, or an empty string."""
    found = _illegal(pattern).search(text)
    return found[0] if found else ""


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """`text.findAll(pattern, limit)`."""
    expression = _illegal(pattern)
    if limit == 0:
        return []
    results: list[str] = []
    for match in expression.finditer(text):
        results.append(match[0])
        if len(results) == limit:
            break
    return results


OVERLOADS: Final[list[Overload]] = [
    overload("find", "string_find_string", "string.(string) -> string", find),
    overload("findAll", "string_find_all_string", "string.(string) -> list(string)", find_all),
    overload("findAll", "string_find_all_string_int", "string.(string, int) -> list(string)", find_all),
]
