"""Timestamps and durations: parsing, formatting and accessors.

Timestamps are RFC 3339 with up to nine digits of a second, from year 1 to 9999; durations have
Go's notation (`1h30m`, `1.5s`). Accessors take an IANA zone name or an offset such as `-08:00`; default UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from kubewright.api.values.times import duration_nanoseconds, worded_nanoseconds
from kubewright.cel.errors import CelError
from kubewright.cel.functions import Overload, overload
from kubewright.cel.values import MAX_INT, MIN_INT, NANOS, DurationValue, TimestampValue
from kubewright.text_cache import cache_short

MIN_SECONDS: Final = -62135596800
MAX_SECONDS: Final = 253402300799
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_LENIENT: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?([Zz]|[+-]\d\d:?\d\d)?", re.ASCII
)
_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)


def conversion_error(source: str, target: str) -> CelError:
    """The error of a failed conversion between types."""
    return CelError(f"type conversion error from '{source}' to '{target}'")


def checked_timestamp(ns: int, offset: int = 0) -> TimestampValue:
    """Return a timestamp; raise `CelError` outside the years 1 to 9999."""
    if MIN_SECONDS <= ns // NANOS <= MAX_SECONDS:
        return TimestampValue(ns, offset)
    raise CelError("timestamp overflow")


def checked_duration(ns: int) -> DurationValue:
    """Return a duration; raise `CelError` beyond 64 bits of nanoseconds."""
    if MIN_INT <= ns <= MAX_INT:
        return DurationValue(ns)
    raise CelError("duration overflow")


_LEAP_YEAR: Final = 2000


def _timestamp_of(match: re.Match[str]) -> TimestampValue:
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    moment = datetime(year or _LEAP_YEAR, month, day, hour, minute, second, tzinfo=UTC)
    if not year:
        raise CelError("timestamp overflow")
    fraction = (match[7] or "")[:9].ljust(9, "0")
    offset = 0
    zone = match[8]
    if zone and zone not in "Zz":
        digits = zone[1:].replace(":", "")
        hours, minutes = int(digits[:2]), int(digits[2:])
        if hours > 24 or minutes > 59:
            raise ValueError(zone)
        offset = (hours * 60 + minutes) * 60 * (-1 if zone[0] == "-" else 1)
    difference = moment - _EPOCH
    seconds = difference.days * 86400 + difference.seconds - offset
    return checked_timestamp(seconds * NANOS + int(fraction), offset)


def parse_timestamp(text: str) -> TimestampValue:
    """`timestamp(string)`."""
    match = _RFC3339.fullmatch(text)
    if match:
        try:
            return _timestamp_of(match)
        except ValueError:
            pass
    raise conversion_error("string", "google.protobuf.Timestamp")


def read_timestamp(text: str) -> TimestampValue:
    """Return the timestamp of a date-time or date field, whose formats are less strict than CEL's."""
    try:
        match = _LENIENT.fullmatch(text)
        if match:
            return _timestamp_of(match)
        date = _DATE.fullmatch(text)
        if date:
            moment = datetime(int(date[1]), int(date[2]), int(date[3]), tzinfo=UTC)
            return TimestampValue((moment - _EPOCH).days * 86400 * NANOS)
    except ValueError:
        pass
    raise CelError(f"Invalid date-time format: {text}")


@cache_short(maxsize=1024)
def parse_duration_ns(text: str) -> int:
    """Nanoseconds of a Go duration; raises `ValueError`."""
    total = duration_nanoseconds(text)
    if not MIN_INT <= total <= MAX_INT:
        raise ValueError(text)
    return total


def parse_duration(text: str) -> DurationValue:
    """`duration(string)`."""
    try:
        return DurationValue(parse_duration_ns(text))
    except ValueError:
        raise conversion_error("string", "google.protobuf.Duration") from None


def read_duration(text: str) -> DurationValue:
    """Return the duration of a field of format duration: Go's notation, or words such as `3 days`."""
    try:
        return checked_duration(worded_nanoseconds(text))
    except ValueError as error:
        raise CelError(str(error)) from None


def format_timestamp(value: TimestampValue) -> str:
    """RFC 3339 with as many digits as needed."""
    seconds, fraction = divmod(value.ns, NANOS)
    try:
        moment = _EPOCH + timedelta(seconds=seconds + value.offset)
    except OverflowError:
        return format_timestamp(TimestampValue(value.ns))
    text = f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}"
    digits = f"{fraction:09d}".rstrip("0")
    hours, minutes = divmod(abs(value.offset) // 60, 60)
    zone = f"{'-' if value.offset < 0 else '+'}{hours:02d}:{minutes:02d}" if value.offset else "Z"
    return f"{text}.{digits}{zone}" if digits else f"{text}{zone}"


def format_duration(value: DurationValue) -> str:
    """Seconds, as `string(duration)` shows them."""
    sign = "-" if value.ns < 0 else ""
    seconds, fraction = divmod(abs(value.ns), NANOS)
    digits = f"{fraction:09d}".rstrip("0")
    return f"{sign}{seconds}{'.' + digits if digits else ''}s"


def timestamp_of_seconds(seconds: int) -> TimestampValue:
    """`timestamp(int)`."""
    return checked_timestamp(seconds * NANOS)


@cache_short(maxsize=256)
def _zone(name: str) -> tzinfo | timedelta:
    """Return a time zone, or an offset in seconds beyond the range of `datetime.timezone`."""
    if ":" not in name:
        if name == "Local":
            return datetime.now().astimezone().tzinfo or UTC
        if name in ("", "UTC"):
            return UTC
        try:
            if name.startswith(("/", ".")) or ".." in name:
                raise ValueError(name)
            return ZoneInfo(name)
        except Exception:
            raise CelError(f"unknown time zone {name}") from None
    hours, _, minutes = name.partition(":")
    if not re.fullmatch(r"[+-]?\d{1,4}", hours, re.ASCII):
        raise CelError(f'strconv.Atoi: parsing "{hours}": invalid syntax')
    if not re.fullmatch(r"[+-]?\d{1,4}", minutes, re.ASCII):
        raise CelError(f'strconv.Atoi: parsing "{minutes}": invalid syntax')
    if not 0 <= int(minutes) <= 59:
        raise CelError(f"timezone offset minutes out of range [0, 59]: {name}")
    offset = int(hours) * 60 + int(minutes) * (-1 if name[0] == "-" else 1)
    distance = timedelta(minutes=offset)
    return timezone(distance) if abs(offset) < 24 * 60 else distance


def _local(value: TimestampValue, zone: str) -> datetime:
    moment = _EPOCH + timedelta(seconds=value.ns // NANOS)
    if not zone:
        return moment
    place = _zone(zone)
    try:
        return moment + place if isinstance(place, timedelta) else moment.astimezone(place)
    except (OverflowError, ValueError):
        raise CelError("timestamp overflow") from None


def _accessor(read: Callable[[datetime], int]) -> Callable[..., int]:
    def access(value: TimestampValue, zone: str = "") -> int:
        return read(_local(value, zone))

    return access


def _milliseconds(value: TimestampValue, zone: str = "") -> int:
    if zone:
        _zone(zone)
    return value.ns % NANOS // 1_000_000


def _duration_part(unit: int) -> Callable[[DurationValue], int]:
    def access(value: DurationValue) -> int:
        whole = abs(value.ns) // unit
        return -whole if value.ns < 0 else whole

    return access


_PARTS: Final[dict[str, tuple[str, Callable[..., int]]]] = {
    "getFullYear": ("year", _accessor(lambda moment: moment.year)),
    "getMonth": ("month", _accessor(lambda moment: moment.month - 1)),
    "getDayOfYear": ("day_of_year", _accessor(lambda moment: moment.timetuple().tm_yday - 1)),
    "getDayOfMonth": ("day_of_month", _accessor(lambda moment: moment.day - 1)),
    "getDate": ("day_of_month_1_based", _accessor(lambda moment: moment.day)),
    "getDayOfWeek": ("day_of_week", _accessor(lambda moment: moment.isoweekday() % 7)),
    "getHours": ("hours", _accessor(lambda moment: moment.hour)),
    "getMinutes": ("minutes", _accessor(lambda moment: moment.minute)),
    "getSeconds": ("seconds", _accessor(lambda moment: moment.second)),
    "getMilliseconds": ("milliseconds", _milliseconds),
}
_DURATION_PARTS: Final = {
    "getHours": ("hours", 3600 * NANOS),
    "getMinutes": ("minutes", 60 * NANOS),
    "getSeconds": ("seconds", NANOS),
    "getMilliseconds": ("milliseconds", 1_000_000),
}


def _overloads() -> list[Overload]:
    found: list[Overload] = []
    for function, (name, read) in _PARTS.items():
        found.append(overload(function, f"timestamp_to_{name}", "timestamp.() -> int", read))
        found.append(overload(function, f"timestamp_to_{name}_with_tz", "timestamp.(string) -> int", read))
    for function, (name, unit) in _DURATION_PARTS.items():
        found.append(overload(function, f"duration_to_{name}", "duration.() -> int", _duration_part(unit)))
    return found


OVERLOADS: Final = _overloads()
