"""IntOrString and RawObject."""

import math
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.api.objects import Struct
from kubewright.api.values.int_or_string import is_percentage, parse_int_or_string, scaled_value
from kubewright.api.values.raw_object import RawObject, RawObjectMarker


def test_scaling() -> None:
    assert scaled_value(3, 100, round_up=True) == 3
    assert scaled_value("25%", 10, round_up=True) == 3
    assert scaled_value("25%", 10, round_up=False) == 2
    assert scaled_value("0%", 10, round_up=True) == 0
    assert scaled_value("150%", 2, round_up=True) == 3
    with pytest.raises(ValueError, match="nil value for IntOrString"):
        scaled_value(None, 1, round_up=True)
    with pytest.raises(ValueError, match="string is not a percentage"):
        scaled_value("25", 1, round_up=True)
    with pytest.raises(ValueError, match='invalid value "x%"'):
        scaled_value("x%", 1, round_up=True)


@given(st.integers(0, 1000), st.integers(0, 10_000))
def test_scaling_is_exact(percent: int, total: int) -> None:
    assert scaled_value(f"{percent}%", total, round_up=True) == math.ceil(percent * total / 100)
    assert scaled_value(f"{percent}%", total, round_up=False) == math.floor(percent * total / 100)


def test_parse_int_or_string() -> None:
    assert parse_int_or_string("80") == 80
    assert parse_int_or_string("-1") == -1
    for text in ("http", "25%", "080", "1_000", "4294967296"):
        assert parse_int_or_string(text) == text
    assert is_percentage("5%")
    assert not is_percentage(5)
    assert not is_percentage("5")


class Holder(Struct):
    values: RawObject | None = None


def test_raw_object_has_its_marker() -> None:
    hint = get_type_hints(Holder, include_extras=True)["values"]
    marker = hint.__args__[0].__metadata__[0]
    assert marker == RawObjectMarker()
    schema = {"type": "object", "additionalProperties": {}}
    marker.apply(schema)
    assert schema == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
