"""Times and durations in the formats of Kubernetes.

`Time` is RFC 3339 to the second and `MicroTime` to the microsecond; both are `datetime` values in Python.
`now()` returns a value for a `Time`, `now_micro()` one for a `MicroTime`. `Duration` has Go's notation
(`1h30m`, `250ms`) and is exact to the nanosecond. `wall_time` and `monotonic_time` are the default values of
parameters that take a clock: unlike `time.time` and `time.monotonic` themselves, an object that was created
with them follows a simulated clock that is installed later.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from functools import total_ordering
from typing import Annotated, Final

TIME_FORMAT: Final = "date-time"
_RFC_3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)


class TimePrecision:
    """Annotation of a `datetime` field with its precision in JSON."""

    __slots__ = ("digits",)

    def __init__(self, digits: int) -> None:
        self.digits = digits

    def __repr__(self) -> str:
        return f"TimePrecision({self.digits})"


Time = Annotated[datetime, TimePrecision(0)]
MicroTime = Annotated[datetime, TimePrecision(6)]


def now() -> datetime:
    """Return the current time in UTC, to the second."""
    return datetime.now(UTC).replace(microsecond=0)


def now_micro() -> datetime:
    """Return the current time in UTC, to the microsecond.

    It is never a whole second: API servers require the fraction of a `MicroTime`, and encoders omit zero.
    """
    value = datetime.now(UTC)
    return value if value.microsecond else value.replace(microsecond=1)


def wall_time() -> float:
    """Return the current time in seconds since the Unix epoch."""
    return time.time()


def monotonic_time() -> float:
    """Return the time in seconds of a clock that never goes backwards, which is also that of event loops."""
    return time.monotonic()


def parse_time(text: str) -> datetime:
    """Parse an RFC 3339 time; a missing zone is an error."""
    if _RFC_3339.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not an RFC 3339 time such as 2006-01-02T15:04:05Z")
    return datetime.fromisoformat(text)


def format_time(value: datetime) -> str:
    """Format a `Time`: UTC, without a fraction."""
    return _utc(value).isoformat(timespec="seconds") + "Z"


def format_micro_time(value: datetime) -> str:
    """Format a `MicroTime`: UTC, always with six digits."""
    return _utc(value).isoformat(timespec="microseconds") + "Z"


def _utc(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone; use datetime(..., tzinfo=UTC)")
    return value.astimezone(UTC).replace(tzinfo=None)


_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_TERM: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_WORDS: Final = re.compile(r"(?<![0-9])([0-9]++)[\t\n\f\r ]*+([A-Za-zµ]+)")
_WORD_UNITS: Final = (
    (1, ("ns", "nano")),
    (1_000, ("us", "µs", "micro")),
    (1_000_000, ("ms", "milli")),
    (1_000_000_000, ("s", "sec")),
    (60_000_000_000, ("m", "min")),
    (3_600_000_000_000, ("h", "hr", "hour")),
    (86_400_000_000_000, ("d", "day")),
    (604_800_000_000_000, ("w", "wk", "week")),
)
"""Units of the format `duration`; longer words than the last one of a unit are accepted."""
_MAX_NS: Final = (1 << 63) - 1


@total_ordering
class Duration:
    """A duration in Go's notation, exact to the nanosecond; compared by length."""

    __slots__ = ("nanoseconds",)

    def __init__(self, value: str | timedelta | float | int | Duration = 0) -> None:
        """Create it from Go's notation, a `timedelta`, another duration, or a number of seconds."""
        if isinstance(value, str):
            self.nanoseconds = duration_nanoseconds(value)
        elif isinstance(value, timedelta):
            self.nanoseconds = ((value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds) * 1000
        elif isinstance(value, Duration):
            self.nanoseconds = value.nanoseconds
        else:
            self.nanoseconds = round(value * 1_000_000_000)
        if not -_MAX_NS - 1 <= self.nanoseconds <= _MAX_NS:
            raise ValueError(f"duration {value!r} is out of range")

    def total_seconds(self) -> float:
        """Return the duration in seconds."""
        return self.nanoseconds / 1_000_000_000

    def timedelta(self) -> timedelta:
        """Return the duration as a `timedelta`, rounded to microseconds."""
        return timedelta(microseconds=self.nanoseconds / 1000)

    def __str__(self) -> str:
        return _format_duration(self.nanoseconds)

    def __repr__(self) -> str:
        return f"Duration({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.nanoseconds == other.nanoseconds

    def __lt__(self, other: object) -> bool:
        return self.nanoseconds < other.nanoseconds if isinstance(other, Duration) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.nanoseconds)


def duration_nanoseconds(text: str) -> int:
    """Parse a duration in Go's notation to nanoseconds; raise `ValueError` if it is malformed."""
    rest = text
    sign = -1 if rest[:1] == "-" else 1
    if rest[:1] in ("-", "+"):
        rest = rest[1:]
    if rest == "0":
        return 0
    total, position = 0, 0
    while position < len(rest):
        term = _TERM.match(rest, position)
        if term is None or not (term[1] or term[2]):
            break
        unit = _UNITS[term[3]]
        fraction = term[2] or ""
        total += int(term[1] or 0) * unit
        if fraction:
            total += int(fraction) * unit // 10 ** len(fraction)
        position = term.end()
    if not rest or position != len(rest):
        raise ValueError(f"invalid duration {text!r}: write it as 300ms, 1.5h or 2h45m")
    return sign * total


def worded_nanoseconds(text: str) -> int:
    """Parse a value of the format `duration`, Go's notation or words such as `3 days`; raise `ValueError`."""
    try:
        return Duration(text).nanoseconds
    except ValueError:
        pass
    total: int | None = None
    for digits, word in _WORDS.findall(text):
        unit = word.lower()
        if len(digits) > 19 or (factor := int(digits)) > _MAX_NS:
            break
        for size, variants in _WORD_UNITS:
            if unit in variants or unit.startswith(variants[-1]):
                total = (total or 0) + factor * size
    else:
        if total is not None:
            return total
    raise ValueError(f'unable to parse "{text}" as duration')


def _format_duration(nanoseconds: int) -> str:
    if nanoseconds == 0:
        return "0s"
    sign, value = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    for unit, size in (("ns", 1), ("µs", 1_000), ("ms", 1_000_000)):
        if value < size * 1000 and value < 1_000_000_000:
            return f"{sign}{_decimal(value, size)}{unit}"
    minutes, rest = divmod(value, 60_000_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, 1_000_000_000)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else sign + text


def _decimal(value: int, size: int) -> str:
    whole, rest = divmod(value, size)
    if not rest:
        return str(whole)
    digits = len(str(size)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0")
