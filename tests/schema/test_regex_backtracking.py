"""Formats do not backtrack on long input."""

from __future__ import annotations

import contextlib

import pytest

from kubewright.api.selectors.jsonpath import _DECIMAL
from kubewright.api.selectors.label_selectors import parse_selector
from kubewright.api.values.quantity import Quantity
from kubewright.api.values.times import worded_nanoseconds
from kubewright.cel.library.conversions import _NUMBER
from kubewright.schema.validation.formats import checker

LONG = 300_000
TEXTS = {
    "digits": "0" * LONG + "!",
    "spaces": " " * LONG + "!",
    "digits and spaces": "1" * LONG + " " * LONG,
    "dots": "a." * LONG + "!",
    "quotes": '"' * LONG,
    "fraction": "1." + "0" * LONG + "!",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_patterns_do_not_backtrack(text: str) -> None:
    with pytest.raises(ValueError):
        Quantity(text)
    for name in ("email", "duration"):
        check = checker(name)
        assert check is not None
        assert not check(text)
    assert not _DECIMAL.fullmatch(text)
    assert not _NUMBER.fullmatch(text)
    with pytest.raises(ValueError):
        worded_nanoseconds(text)
    with contextlib.suppress(ValueError):
        parse_selector(text)


@pytest.mark.parametrize("text", ["a@b", ' "A B" <a.b@c.d> ', "A B <a@[x]>", "Ann\t<ann@example.com>"])
def test_addresses_are_still_addresses(text: str) -> None:
    check = checker("email")
    assert check is not None
    assert check(text)
