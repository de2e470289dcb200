"""Conditions of `wait` steps."""

from __future__ import annotations

from typing import Any

from tests.conformance.http_client import Response
from tests.conformance.paths import lookup

_EMPTY: tuple[Any, ...] = (None, "", [], {})


def is_met(until: dict[str, Any], response: Response) -> bool:
    """Whether a response satisfies the `until` of a step."""
    if "status" in until and response.status != until["status"]:
        return False
    if "not_status" in until and response.status == until["not_status"]:
        return False
    if until.get("warning") and "Warning" not in response.headers:
        return False
    document = response.json()
    if "absent" in until and lookup(document, until["absent"]) not in _EMPTY:
        return False
    if "path" not in until:
        return True
    value = lookup(document, until["path"])
    if "equals" in until:
        return bool(value == until["equals"])
    if "not" in until:
        return bool(value != until["not"])
    if "length" in until:
        return bool(len(value or ()) == until["length"])
    return all(value != empty for empty in _EMPTY)
