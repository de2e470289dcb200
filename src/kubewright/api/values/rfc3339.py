"""Parse RFC 3339 times with the error messages of Go's `time.Parse`.

The layout is `2006-01-02T15:04:05Z07:00`, with `.000000` after the seconds if the fraction is required. Error
messages contain the rest of the text and the part of the layout that did not match, as in kube-apiserver.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from kubewright.api.values.go_format import quote

_LAYOUT: Final = "2006-01-02T15:04:05{}Z07:00"
_PARTS: Final = (
    ("2006", 4, ""),
    ("-", 0, ""),
    ("01", 2, "month"),
    ("-", 0, ""),
    ("02", 2, "day"),
    ("T", 0, ""),
    ("15", 2, "hour"),
    (":", 0, ""),
    ("04", 2, "minute"),
    (":", 0, ""),
    ("05", 2, "second"),
)
_LIMITS: Final = {"month": (1, 12), "day": (1, 31), "hour": (0, 23), "minute": (0, 59), "second": (0, 59)}
_FRACTION: Final = re.compile(r"[.,]([0-9]+)", re.ASCII)
_ZONE: Final = re.compile(r"Z|([+-])([0-9]{2}):([0-9]{2})", re.ASCII)


class TimeError(ValueError):
    """The text does not match the layout."""


def parse_layout(text: str, fraction: int = 0) -> datetime:
    """Parse a time. With `fraction`, exactly that many digits must follow the seconds."""
    layout = _LAYOUT.format("." + "0" * fraction if fraction else "")

    def failed(rest: str, part: str) -> TimeError:
        found = f"parsing time {quote(text)} as {quote(layout)}"
        return TimeError(f"{found}: cannot parse {quote(rest)} as {quote(part)}")

    def out_of_range(name: str) -> TimeError:
        return TimeError(f"parsing time {quote(text)}: {name} out of range")

    at = 0
    numbers: list[int] = []
    for part, digits, name in _PARTS:
        if not digits:
            if text[at : at + 1] != part:
                raise failed(text[at:], part)
            at += 1
            continue
        piece = text[at : at + digits]
        if len(piece) < digits or not (piece.isascii() and piece.isdigit()):
            raise failed(text[at:], part)
        number = int(piece)
        if name:
            low, high = _LIMITS[name]
            if not low <= number <= high:
                raise out_of_range(name)
        numbers.append(number)
        at += digits
    found = _FRACTION.match(text, at)
    micros = 0
    if fraction and (found is None or len(found[1]) < fraction):
        raise failed(text[at:], "." + "0" * fraction)
    if found is not None:
        micros = int(found[1][:6].ljust(6, "0"))
        at = at + 1 + fraction if fraction else found.end()
    zone = _ZONE.match(text, at)
    if zone is None:
        raise failed(text[at:], "Z07:00")
    if zone.end() < len(text):
        raise TimeError(f"parsing time {quote(text)}: extra text: {quote(text[zone.end() :])}")
    return _assembled(numbers, micros, zone, out_of_range("day"))


def _assembled(numbers: list[int], micros: int, zone: re.Match[str], impossible: TimeError) -> datetime:
    year, month, day, hour, minute, second = numbers
    offset = timedelta(0)
    if zone[1]:
        offset = timedelta(hours=int(zone[2]), minutes=int(zone[3])) * (-1 if zone[1] == "-" else 1)
    try:
        moment = datetime(year, month, day, hour, minute, second, micros, tzinfo=timezone(offset))
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise impossible from None
