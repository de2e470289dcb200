"""Times and durations."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.api.encoding.codec import decode, encode
from kubewright.api.objects import Struct
from kubewright.api.values.times import (
    Duration,
    MicroTime,
    Time,
    format_micro_time,
    format_time,
    now,
    now_micro,
    parse_time,
    worded_nanoseconds,
)


class Stamps(Struct):
    at: Time | None = None
    exact: MicroTime | None = None
    lasts: Duration | None = None


def test_times() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=timezone(timedelta(hours=2)))
    assert format_time(moment) == "2026-01-02T01:04:05Z"
    assert format_micro_time(moment) == "2026-01-02T01:04:05.678000Z"
    assert format_time(datetime(1, 1, 1, tzinfo=UTC)) == "0001-01-01T00:00:00Z"
    assert parse_time("2026-01-02T03:04:05.678+02:00") == moment
    assert now().microsecond == 0
    assert now().tzinfo is UTC
    assert now_micro().microsecond
    with pytest.raises(ValueError, match="no time zone"):
        format_time(datetime(2026, 1, 1))


@pytest.mark.parametrize(
    "text", ["", "2026-01-02", "2026-01-02T03:04:05", "2026-01-02 03:04:05Z", "2026-W01-1T03:04:05Z", "now"]
)
def test_malformed_times(text: str) -> None:
    with pytest.raises(ValueError, match="RFC 3339"):
        parse_time(text)


def test_json_encoding() -> None:
    data = b'{"at":"2026-01-02T03:04:05Z","exact":"2026-01-02T03:04:05.678000Z","lasts":"1h30m0s"}'
    stamps = decode(data, Stamps)
    assert stamps.lasts == Duration(timedelta(minutes=90))
    assert encode(stamps) == data
    assert decode(b'{"at":null}', Stamps).at is None


DURATIONS = {
    "0": "0s", "0s": "0s", "5s": "5s", "90m": "1h30m0s", "1.5h": "1h30m0s", "-1.5s": "-1.5s", "+3ms": "3ms",
    "100us": "100µs", "1µs": "1µs", "1ns": "1ns", "1h2m3.5s": "1h2m3.5s", ".5s": "500ms", "1.s": "1s",
    "60s": "1m0s", "1001ms": "1.001s", "9223372036854775807ns": "2562047h47m16.854775807s",
}  # fmt: skip


@pytest.mark.parametrize(("text", "printed"), DURATIONS.items())
def test_durations_are_formatted_as_in_go(text: str, printed: str) -> None:
    assert str(Duration(text)) == printed


@pytest.mark.parametrize("text", ["", "3", "s", ".s", "1d", "1h-5m", "1 h", "- 1s", "10000000h", "1.5", "½h"])
def test_malformed_durations(text: str) -> None:
    with pytest.raises(ValueError):
        Duration(text)


def test_durations_from_other_types() -> None:
    assert (
        Duration(1.5) == Duration("1.5s") == Duration(timedelta(seconds=1.5)) == Duration(Duration("1500ms"))
    )
    assert Duration("1m").total_seconds() == 60
    assert Duration("1m").timedelta() == timedelta(minutes=1)
    assert len({Duration("60s"), Duration("1m")}) == 1
    assert Duration("1s") < Duration("1m") <= Duration("60s")
    assert Duration("1s") != 1
    assert repr(Duration("90s")) == "Duration('1m30s')"
    with pytest.raises(TypeError):
        _ = Duration("1s") < 5


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_formatting_and_parsing_durations_round_trip(nanoseconds: int) -> None:
    if nanoseconds == -(1 << 63):
        nanoseconds += 1
    duration = Duration(f"{nanoseconds}ns")
    assert duration.nanoseconds == nanoseconds
    assert Duration(str(duration)) == duration


@given(st.datetimes(timezones=st.just(UTC)))
def test_formatting_and_parsing_times_round_trip(moment: datetime) -> None:
    assert parse_time(format_micro_time(moment)) == moment
    assert parse_time(format_time(moment)) == moment.replace(microsecond=0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("3 days", 259_200), ("1 Week 2 hrs", 604_800), ("2hourly", 7200), ("1 min, 5sec", 65)],
)
def test_durations_in_words_are_those_of_the_format(text: str, seconds: int) -> None:
    assert worded_nanoseconds(text) == seconds * 1_000_000_000


@pytest.mark.parametrize("text", ["", "3", "3 wks", "9223372036854775808 s", "1 year"])
def test_other_words_are_not_durations(text: str) -> None:
    with pytest.raises(ValueError, match="unable to parse"):
        worded_nanoseconds(text)
