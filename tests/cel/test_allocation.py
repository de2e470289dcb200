"""Cheap expressions cannot create large values: sizes are limited at run time, besides cost."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from kubewright import cel
from kubewright.cel.compilation.frame import ALLOCATION_LIMIT

LIMIT_BYTES = 200 * 1024 * 1024
ENV = cel.Env({"x": cel.DYN, "y": cel.DYN})
START: dict[str, Any] = {"list": list(range(64)), "string": "\u20ac" * 64, "nested": [[0]]}

GROWTH = [
    ("list", "x + x"),
    ("list", "[x, x].flatten()"),
    ("string", "x + x"),
    ("string", "'%s%s'.format([x, x])"),
    ("string", "[x, x].join()"),
    ("string", "'ab'.replace('', x)"),
    ("list", "[x, x].flatten(1) + x"),
]


def peak(run: Callable[[], object]) -> int:
    """Return the most memory that a call uses, in bytes."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("start", "text"), GROWTH)
def test_repeated_growth_is_stopped(start: str, text: str) -> None:
    program, budget = ENV.compile(text), cel.Budget()

    def grow() -> None:
        value, values = START[start], []
        with pytest.raises((cel.CostExceeded, cel.CelError)):
            for _ in range(60):
                value = program({"x": value, "y": None}, budget)
                values.append(value)

    assert peak(grow) < LIMIT_BYTES


def test_doubling_in_one_expression_is_stopped() -> None:
    text = "[0, 1]"
    for number in range(30):
        text = f"[{text}].map(a{number}, a{number} + a{number})[0]"
    program = cel.Env({}).compile(f"{text}.size() > 0")

    def run() -> None:
        with pytest.raises((cel.CostExceeded, cel.CelError)):
            program({}, cel.Budget())

    assert peak(run) < LIMIT_BYTES


def test_the_limit_is_shared_by_the_evaluations_of_a_budget() -> None:
    budget, program = cel.Budget(), ENV.compile("x + x")
    half = [0] * (ALLOCATION_LIMIT // 4)
    assert len(program({"x": half, "y": None}, budget)) == ALLOCATION_LIMIT // 2
    program({"x": half, "y": None}, budget)
    with pytest.raises(cel.CostExceeded):
        program({"x": half, "y": None}, budget)
    assert len(program({"x": half, "y": None}, cel.Budget())) == ALLOCATION_LIMIT // 2


@pytest.mark.parametrize(
    "text",
    [
        "x == y",
        "x in [y]",
        "[x].indexOf(y) == 0",
        "[x, y].distinct().size() == 1",
        "sets.contains([x], [y])",
        "'%s'.format([x]) == ''",
    ],
)
def test_values_that_share_parts_are_not_expanded(text: str) -> None:
    values = []
    for _ in range(2):
        value: Any = [0]
        for _ in range(40):
            value = [value, value]
        values.append(value)
    with pytest.raises((cel.CostExceeded, cel.CelError)):
        ENV.compile(text)({"x": values[0], "y": values[1]}, cel.Budget())
    with pytest.raises(cel.CelError, match="exceeds limit"):
        cel.to_json(values[0])


def test_usual_sizes_are_not_limited() -> None:
    items = list(range(100_000))
    assert len(ENV.compile("x + x + x")({"x": items, "y": None}, cel.Budget())) == 300_000
    assert len(ENV.compile("x + x")({"x": "a" * 1_000_000, "y": None}, cel.Budget())) == 2_000_000
