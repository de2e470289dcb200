"""Sets of completion indexes in the form of the Job status, such as `0,2-4,7`."""

from __future__ import annotations

from collections.abc import Iterable


def parse_indexes(text: str | None, completions: int) -> set[int]:
    """Parse indexes; those that are not less than `completions` are left out, malformed parts ignored."""
    found: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        try:
            start, end = int(first), int(last or first)
        except ValueError:
            continue
        found.update(range(start, min(end, completions - 1) + 1))
    return found


def format_indexes(indexes: Iterable[int]) -> str:
    """Format indexes in increasing order; three or more in sequence become an interval."""
    parts: list[str] = []
    first = last = -2
    for index in sorted(indexes):
        if index == last + 1:
            last = index
            continue
        if first >= 0:
            parts.append(_interval(first, last))
        first = last = index
    if first >= 0:
        parts.append(_interval(first, last))
    return ",".join(parts)


def _interval(first: int, last: int) -> str:
    if first == last:
        return str(first)
    separator = "," if last == first + 1 else "-"
    return f"{first}{separator}{last}"
