"""Fuzz targets of `kubewright.api`: parsers raise only their documented error.

In the suite each target runs briefly. `KUBEWRIGHT_FUZZ_SECONDS=60 pytest tests/fuzz` keeps each going that
long, with new inputs all the time.
"""

import os
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubewright.api.selectors.field_paths import SimplePath
from kubewright.api.selectors.field_selectors import parse_field_selector
from kubewright.api.selectors.jsonpath import JSONPath
from kubewright.api.selectors.jsonpath_steps import JSONPathError
from kubewright.api.selectors.label_selectors import SelectorError, parse_selector
from kubewright.api.values.quantity import Quantity, QuantityError
from kubewright.api.values.times import Duration, parse_time

SECONDS = float(os.environ.get("KUBEWRIGHT_FUZZ_SECONDS", "0"))
DATA = {"a": [{"b": 1, "c": "x"}, {"b": 2.5}, None, "text"], "b": {"a.b": True, "c": []}}


def fuzz_label_selector(text: str) -> None:
    try:
        selector = parse_selector.__wrapped__(text)
    except SelectorError:
        return
    assert parse_selector.__wrapped__(str(selector)) == selector
    selector.matches({"a": "b", "in": "7"})


def fuzz_field_selector(text: str) -> None:
    try:
        selector = parse_field_selector.__wrapped__(text)
    except SelectorError:
        return
    assert parse_field_selector.__wrapped__(str(selector)).matches({"a": "b"}) == selector.matches({"a": "b"})


def fuzz_jsonpath(text: str) -> None:
    for template in (text, "{" + text + "}"):
        try:
            JSONPath(template, allow_missing_keys=True).render(DATA)
        except JSONPathError:
            pass
    try:
        JSONPath.relaxed(text).find(DATA)
    except JSONPathError:
        pass


def fuzz_simple_path(text: str) -> None:
    try:
        path = SimplePath.parse(text)
    except JSONPathError:
        return
    assert SimplePath.parse(str(path)) == path


def fuzz_quantity(text: str) -> None:
    try:
        quantity = Quantity(text)
    except QuantityError:
        return
    assert Quantity(str(quantity)) == quantity
    assert str(Quantity(str(quantity))) == str(quantity)


def fuzz_duration(text: str) -> None:
    try:
        duration = Duration(text)
    except ValueError:
        return
    assert Duration(str(duration)) == duration


def fuzz_time(text: str) -> None:
    try:
        moment = parse_time(text)
    except ValueError:
        return
    assert moment.tzinfo is not None


TARGETS: list[tuple[Callable[[str], None], str]] = [
    (fuzz_label_selector, "ab/.-_ =!<>(),in notin 0 7 \t"),
    (fuzz_field_selector, "a b.c=!,\\"),
    (fuzz_jsonpath, "abc.*[]?()@$'\"\\{}:,-012 =<>!&|range end"),
    (fuzz_simple_path, ".a['b\"]\\ 0"),
    (fuzz_quantity, "0123456789.+-eEinumkKMGTP"),
    (fuzz_duration, "0123456789.+-nuµmsh"),
    (fuzz_time, "0123456789-:.TZ+"),
]


@pytest.mark.parametrize(("target", "alphabet"), TARGETS, ids=lambda value: getattr(value, "__name__", ""))
def test_fuzz(target: Callable[[str], None], alphabet: str) -> None:
    texts = st.text(alphabet, max_size=40) | st.text(max_size=20)

    @settings(
        max_examples=150,
        derandomize=False,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(texts)
    def run(text: str) -> None:
        target(text)

    run()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        run()
