"""Cron schedules: fields, descriptors, time zones and clock changes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kubewright.api.values.cron_schedules import ScheduleError, parse_schedule


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("*/15 * * * *", "2012-07-09T14:45", "2012-07-09T15:00"),
        ("*/15 * * * *", "2012-07-09T14:59:59", "2012-07-09T15:00"),
        ("20-35/15 * * * *", "2012-07-09T15:45", "2012-07-09T16:20"),
        ("20-35/15 15-23/2 * * *", "2012-12-31T23:20", "2012-12-31T23:35"),
        ("0 0 9 apr-oct ?", "2012-07-09T23:35", "2012-08-09T00:00"),
        ("0 0 */5 apr,aug,oct mon", "2012-07-09T23:35", "2012-08-01T00:00"),
        ("0 0 29 feb ?", "2012-07-09T23:35", "2016-02-29T00:00"),
        ("30 6-16/4 * * 1-5", "2024-01-05T14:30", "2024-01-08T06:30"),
        ("5/20 * * * *", "2024-01-05T14:06", "2024-01-05T14:25"),
        ("@weekly", "2024-01-05T14:06", "2024-01-07T00:00"),
        ("@monthly", "2024-01-05T14:06", "2024-02-01T00:00"),
        ("@yearly", "2024-01-05T14:06", "2025-01-01T00:00"),
        ("@hourly", "2024-01-05T14:00", "2024-01-05T15:00"),
        ("@every 1h30m", "2024-01-05T14:06:07", "2024-01-05T15:36:07"),
        ("@every 10ms", "2024-01-05T14:06:07", "2024-01-05T14:06:08"),
        # Either day matches if both are restricted.
        ("0 0 13 * fri", "2024-09-01T00:00", "2024-09-06T00:00"),
        ("TZ=Asia/Tokyo 0 9 * * *", "2024-01-05T00:00", "2024-01-06T00:00"),
        # Clocks in New York are set from 2:00 to 3:00 on 2012-03-11 and back on 2012-11-04.
        ("TZ=America/New_York 30 2 11 mar ?", "2012-03-11T05:00", "2013-03-11T06:30"),
        ("TZ=America/New_York 0 * * * ?", "2012-03-11T06:00", "2012-03-11T07:00"),
        ("TZ=America/New_York 30 1 * * ?", "2012-11-04T05:30", "2012-11-04T06:30"),
        ("TZ=America/New_York 0 0 * * ?", "2012-11-04T05:00", "2012-11-05T05:00"),
        ("TZ=America/Sao_Paulo 0 9 10 * ?", "2018-10-17T05:00", "2018-11-10T11:00"),
    ],
)
def test_next(schedule: str, after: str, expected: str) -> None:
    assert parse_schedule(schedule).next(at(after)) == at(expected)


def test_schedule_without_times() -> None:
    assert parse_schedule("0 0 30 feb ?").next(at("2024-01-01T00:00")) is None


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("*/2/2 * * * *", "too many slashes: */2/2"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("@never", "unrecognized descriptor: @never"),
        ("TZ=Nowhere/City * * * * *", "provided bad location Nowhere/City: unknown time zone Nowhere/City"),
    ],
)
def test_errors(schedule: str, message: str) -> None:
    with pytest.raises(ScheduleError) as error:
        parse_schedule(schedule)
    assert str(error.value) == message
