"""Cron schedules.

Five fields, minute, hour, day of the month, month and day of the week, each `*`, a number, a range, a list or
any of these with a step (`*/15`, `9-17/2`, `1,15`); months and weekdays also by name. `@hourly` and similar
names are abbreviations. If both days are restricted, one of them must match, as in cron. Times are UTC.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1
    )
}
_DAYS: Final = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_LONGEST_WAIT: Final = timedelta(days=366 * 8 + 2)
"""29 February occurs at least every eight years: 1900 and 2100 are not leap years."""


class ScheduleError(ValueError):
    """The text is not a valid schedule."""


@dataclass(frozen=True, slots=True)
class Part:
    """One of the five fields: its name and the range of its numbers."""

    name: str
    low: int
    high: int
    words: dict[str, int]

    def parse(self, text: str) -> frozenset[int]:
        """The numbers that a field matches."""
        found: set[int] = set()
        for item in text.split(","):
            found |= self._item(item)
        return frozenset(found)

    def _item(self, item: str) -> set[int]:
        span, slash, step_text = item.partition("/")
        if slash and not (step_text.isascii() and step_text.isdigit() and int(step_text) > 0):
            raise ScheduleError(f"{self.name}: the step of {item!r} is not a number above 0")
        step = int(step_text) if slash else 1
        if span in ("*", "?"):
            return set(range(self.low, self.high + 1, step))
        first, dash, last = span.partition("-")
        low = self._number(first)
        high = self._number(last) if dash else (self.high if slash else low)
        if low > high:
            raise ScheduleError(f"{self.name}: {span!r} runs backwards")
        return set(range(low, high + 1, step))

    def _number(self, text: str) -> int:
        number = self.words.get(text.lower())
        if number is None:
            if not (text.isascii() and text.isdigit()):
                raise ScheduleError(f"{self.name}: {text!r} is not a number")
            number = int(text)
        if not self.low <= number <= self.high:
            raise ScheduleError(f"{self.name}: {text} is not between {self.low} and {self.high}")
        return number


PARTS: Final = (
    Part("minute", 0, 59, {}),
    Part("hour", 0, 23, {}),
    Part("day of month", 1, 31, {}),
    Part("month", 1, 12, _MONTHS),
    Part("day of week", 0, 6, _DAYS),
)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A parsed schedule."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    """Whether both days are restricted, so that one match suffices."""

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Parse a schedule; raise `ScheduleError` if it is invalid."""
        fields = MACROS.get(text.strip(), text).split()
        if len(fields) != len(PARTS):
            raise ScheduleError(f"expected five fields or one of {', '.join(MACROS)}, found {text!r}")
        minutes, hours, days, months, weekdays = (
            part.parse(field) for part, field in zip(PARTS, fields, strict=True)
        )
        restricted = not fields[2].startswith(("*", "?")) and not fields[4].startswith(("*", "?"))
        schedule = cls(
            tuple(sorted(minutes)), tuple(sorted(hours)), days, months, weekdays, either_day=restricted
        )
        if schedule.after(datetime(2000, 1, 1, tzinfo=UTC)) is None:
            raise ScheduleError(f"{text!r} never comes")
        return schedule

    def after(self, moment: datetime) -> datetime | None:
        """Return the first scheduled time after a time, or `None`."""
        return next(self.runs(moment), None)

    def runs(self, since: datetime) -> Iterator[datetime]:
        """Yield the scheduled times after a time, in order; stop after eight years without one."""
        since = since.astimezone(UTC)
        day = since.replace(hour=0, minute=0, second=0, microsecond=0)
        found = day
        while day - found <= _LONGEST_WAIT:
            if self._has_day(day):
                for hour in self.hours:
                    for minute in self.minutes:
                        run = day.replace(hour=hour, minute=minute)
                        if run > since:
                            found = day
                            yield run
            day += timedelta(days=1)

    def _has_day(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        date = day.day in self.days
        weekday = day.isoweekday() % 7 in self.weekdays
        return (date or weekday) if self.either_day else (date and weekday)
