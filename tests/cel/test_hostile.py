"""Expressions that try to exhaust CPU, memory or the stack are rejected or stopped."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.cel import (
    DYN,
    INT,
    STRING,
    Budget,
    CelCompileError,
    CelError,
    CostExceeded,
    Env,
    list_type,
    map_type,
)

ENV = Env({"l": list_type(INT), "s": STRING, "d": DYN, "m": map_type(STRING, DYN)})
BIG: dict[str, Any] = {
    "l": list(range(2000)),
    "s": "a" * 100_000,
    "d": {"deep": [[[[list(range(50))] * 20] * 20]]},
    "m": {str(index): {"x": [index] * 50} for index in range(2000)},
}

STOPPED = [
    "l.all(a, l.all(b, l.all(c, l.all(d, a + b + c + d >= 0))))",
    "l.map(a, l.map(b, l.map(c, a * b * c))).size() > 0",
    "l.exists_one(a, l.exists_one(b, a == b + 1))",
    "l.transformMap(i, v, l.map(b, b)).size() > 0",
    "lists.range(1000000).map(a, lists.range(1000000)).size() > 0",
    "lists.range(1000000000).size() > 0",
    "lists.range(9223372036854775807).size() > 0",
    "s.replace('a', s).size() > 0",
    "(s + s).replace('', s + s).size() > 0",
    "s.split('').map(c, s).join(s).size() > 0",
    "[s, s, s, s].map(a, [s, s, s, s].map(b, a + b + a + b)).size() > 0",
    "l.distinct().size() > 0 && l.sort().size() > 0",
    "m.all(k, m == m)",
    "lists.range(200).all(i, lists.range(200).all(j, m == m))",
    "l.all(i, d.deep == d.deep)",
    "s.matches('(a+)+$') && s.matches(s)",
    "sets.contains(l, l) && sets.equivalent(l, l)",
    "s.contains(s) && s.contains(s)",
]


@pytest.mark.parametrize("text", STOPPED)
def test_runaway_expressions_are_stopped_by_their_budget(text: str) -> None:
    with pytest.raises((CostExceeded, CelError)):
        ENV.compile(text)(BIG, Budget())


REJECTED = [
    "(" * 1000 + "1" + ")" * 1000,
    "[" * 1000 + "]" * 1000,
    "-" * 3 + "(" * 400 + "1" + ")" * 400,
    "1" + "+1" * 5000,
    "d" + ".x" * 5000,
    "d" + "[0]" * 5000,
    "s" + ".trim()" * 2000,
    "true ? " * 500 + "1" + " : 1" * 500,
    "l.all(x, " * 300 + "true" + ")" * 300,
    "!" * 50_000,
    "'" + "x" * 200_000 + "'",
    "'''" * 20_000,
    "\\" * 50_000,
    "{" * 5000,
    "1" * 50_000,
    "1.0" + "0" * 50_000 + "e999",
    "a." * 10_000 + "a",
    "x" + " in x" * 5000,
]


@pytest.mark.parametrize("text", REJECTED, ids=[text[:20] for text in REJECTED])
def test_deep_and_huge_texts_are_rejected(text: str) -> None:
    with pytest.raises((CelCompileError, CelError)):
        ENV.compile(text)({"l": [], "s": "", "d": {}, "m": {}})


def test_long_chains_of_logic_are_fine() -> None:
    assert ENV.compile(" && ".join(["s == s"] * 4000))({"s": "a"})
    assert ENV.compile(" || ".join(["s != s"] * 4000) + " || true")({"s": "a"})


def test_long_lists_are_fine() -> None:
    text = "[" + ",".join(["l.size()"] * 5000) + "].size()"
    with pytest.raises(CostExceeded):
        ENV.compile(text)(BIG, Budget(100))
    assert ENV.compile(text)(BIG) == 5000


def test_nested_optional_maps_do_not_explode() -> None:
    text = "optional.of(1)" + ".optMap(x, x + 1)" * 60
    checked = ENV.check(text + ".value()")
    assert checked.cost.max > 0
    with pytest.raises(CostExceeded):
        checked.compile()({}, Budget())
    assert ENV.compile("optional.of(1)" + ".optMap(x, x + 1)" * 10 + ".value()")({}) == 11


def test_nested_macros_at_a_usual_depth_work() -> None:
    text = "l.all(x, " * 40 + "x >= 0" + ")" * 40
    assert ENV.compile(text)({"l": [1]})


def test_catastrophic_patterns_are_linear() -> None:
    assert ENV.compile("s.matches('^(a+)+$')")({"s": "a" * 5000 + "!"}) is False


def test_a_pattern_that_needs_too_much_memory_is_rejected() -> None:
    with pytest.raises((CelError, CelCompileError)):
        ENV.compile("s.matches('((a{1000}){1000}){1000}')")({"s": "a"})
