"""Cron schedules as in CronJobs: five fields, descriptors such as `@hourly`, `@every 90s`, `TZ=` prefixes.

    schedule = parse_schedule("TZ=Europe/Berlin 30 6-16/4 * * mon-fri")
    schedule.next(datetime.now(UTC))

The rules are those of the library that Kubernetes uses (robfig/cron). A local time that does not exist
because clocks are set forward is skipped; one that exists twice is used twice. If both days of the month and
days of the week are restricted, a day has to match one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Protocol
from zoneinfo import ZoneInfo

from kubewright.api.values.go_format import quote

from .times import Duration

_MONTHS = {
    name: number
    for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), start=1)  # noqa: SIM905
}
_DAYS = {name: number for number, name in enumerate("sun mon tue wed thu fri sat".split())}  # noqa: SIM905
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
"""Names of common schedules."""
_YEARS = 5
"""A schedule without a time in this many years, such as 31 February, has none."""


class ScheduleError(ValueError):
    """A schedule is malformed."""


class Schedule(Protocol):
    """A sequence of points in time."""

    def next(self, after: datetime) -> datetime | None:
        """Return the first time after `after`, in UTC; `None` if it has no further time."""


@dataclass(frozen=True, slots=True)
class IntervalSchedule:
    """A time every number of seconds."""

    seconds: int

    def next(self, after: datetime) -> datetime:
        """Return the time one interval later."""
        return after.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """The values of each field that match."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    """Whether the days of the month or of the week are not restricted."""
    zone: tzinfo = UTC

    def next(self, after: datetime) -> datetime | None:
        """Return the first time after `after`, in UTC; `None` if five years have no such time."""
        moment = self._add(after.replace(microsecond=0), timedelta(seconds=1))
        limit = moment.year + _YEARS
        at_midnight = False
        while moment.year <= limit:
            if moment.month not in self.months:
                year, month = divmod(moment.year * 12 + moment.month, 12)
                moment, at_midnight = self._local(datetime(year, month + 1, 1)), True
            elif not self._matches_day(moment):
                start = moment if at_midnight else moment.replace(hour=0, minute=0, second=0)
                moment, at_midnight = self._local(start.replace(tzinfo=None) + timedelta(days=1)), True
                if moment.hour:
                    # Midnight does not exist or exists twice.
                    hours = 24 - moment.hour if moment.hour > 12 else -moment.hour
                    moment = self._add(moment, timedelta(hours=hours))
            elif moment.hour not in self.hours:
                moment = self._add(moment, timedelta(hours=1, minutes=-moment.minute, seconds=-moment.second))
            elif moment.minute not in self.minutes:
                moment = self._add(moment, timedelta(minutes=1, seconds=-moment.second))
            elif moment.second:
                moment = self._add(moment, timedelta(seconds=60 - moment.second))
            else:
                return moment.astimezone(UTC)
        return None

    def _matches_day(self, moment: datetime) -> bool:
        day, weekday = moment.day in self.days, moment.isoweekday() % 7 in self.weekdays
        return (day and weekday) if self.any_day else (day or weekday)

    def _add(self, moment: datetime, delta: timedelta) -> datetime:
        """Add elapsed time, which differs from the difference of local times when clocks are changed."""
        return (moment.astimezone(UTC) + delta).astimezone(self.zone)

    def _local(self, naive: datetime) -> datetime:
        return naive.replace(tzinfo=self.zone).astimezone(UTC).astimezone(self.zone)


def load_zone(name: str) -> tzinfo:
    """Return a time zone of the IANA database; raises `ScheduleError` if it does not exist."""
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise ScheduleError(f"unknown time zone {name}") from None


def parse_schedule(text: str) -> Schedule:
    """Parse a schedule; raises `ScheduleError` with the message that Kubernetes has for it."""
    if not text:
        raise ScheduleError("empty spec string")
    zone: tzinfo = UTC
    if text.startswith(("TZ=", "CRON_TZ=")):
        prefix, _, text = text.partition(" ")
        name = prefix.partition("=")[2]
        try:
            zone = load_zone(name)
        except ScheduleError as error:
            raise ScheduleError(f"provided bad location {name}: {error}") from None
        text = text.strip()
    if text.startswith("@every "):
        return _parse_interval(text)
    if text.startswith("@"):
        if text not in DESCRIPTORS:
            raise ScheduleError(f"unrecognized descriptor: {text}")
        text = DESCRIPTORS[text]
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    parsed = [_parse_field(field, *bounds) for field, bounds in zip(fields, _FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = (values for values, _ in parsed)
    return CronSchedule(minutes, hours, days, months, weekdays, parsed[2][1] or parsed[4][1], zone)


def _parse_interval(text: str) -> IntervalSchedule:
    length = text.removeprefix("@every ")
    try:
        seconds = int(Duration(length).total_seconds())
    except ValueError:
        raise ScheduleError(
            f"failed to parse duration {text}: time: invalid duration {quote(length)}"
        ) from None
    return IntervalSchedule(max(seconds, 1))


def _parse_field(field: str, low: int, high: int, names: dict[str, int]) -> tuple[frozenset[int], bool]:
    """Return the values of a field, and whether it is unrestricted."""
    values: set[int] = set()
    unrestricted = False
    for part in filter(None, field.split(",")):
        found, star = _parse_range(part, low, high, names)
        values.update(found)
        unrestricted = unrestricted or star
    return frozenset(values), unrestricted


def _parse_range(part: str, low: int, high: int, names: dict[str, int]) -> tuple[Iterable[int], bool]:
    span, slash, step_text = part.partition("/")
    first, *rest = span.split("-")
    star = first in ("*", "?")
    if star:
        start, end = low, high
    else:
        start = end = _number(first, names)
        if len(rest) == 1:
            end = _number(rest[0], names)
        elif rest:
            raise ScheduleError(f"too many hyphens: {part}")
    step = 1
    if slash:
        if "/" in step_text:
            raise ScheduleError(f"too many slashes: {part}")
        step = _number(step_text, {})
        if not rest:
            end = high
        star = star and step <= 1
    if start < low:
        raise ScheduleError(f"beginning of range ({start}) below minimum ({low}): {part}")
    if end > high:
        raise ScheduleError(f"end of range ({end}) above maximum ({high}): {part}")
    if start > end:
        raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {part}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {part}")
    return range(start, end + 1, step), star


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not (text.isascii() and text.removeprefix("+").removeprefix("-").isdigit()):
        raise ScheduleError(
            f"failed to parse int from {text}: strconv.Atoi: parsing {quote(text)}: invalid syntax"
        )
    number = int(text)
    if number < 0:
        raise ScheduleError(f"negative number ({number}) not allowed: {text}")
    return number
