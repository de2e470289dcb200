"""Arithmetic and logic as another implementation of CEL computes them."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import cel
from kubewright.cel import CelError, Env

ENV = Env()
ints = st.integers(-(2**31), 2**31).map(lambda number: f"({number})")
bools = st.sampled_from(["true", "false"])
texts = st.text(alphabet="abxyz ", max_size=5).map(lambda text: f"'{text}'")
lists = st.lists(st.integers(0, 9), max_size=4).map(lambda items: f"{items}")


def extend_numbers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "/", "%"])
    return st.builds(lambda left, operator, right: f"({left} {operator} {right})", inner, operators, inner)


numbers = st.recursive(ints, extend_numbers, max_leaves=5)
comparisons = st.one_of(
    st.builds(
        lambda a, o, b: f"({a} {o} {b})",
        numbers,
        st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
        numbers,
    ),
    st.builds(lambda a, o, b: f"({a} {o} {b})", texts, st.sampled_from(["<", "==", "!="]), texts),
    st.builds(lambda a, b: f"{a}.startsWith({b})", texts, texts),
    st.builds(lambda a, b: f"{a}.contains({b})", texts, texts),
    st.builds(lambda a, b: f"({a} in {b})", st.integers(0, 9), lists),
    st.builds(lambda a, n: f"{a}.all(x, x < {n})", lists, st.integers(0, 9)),
    st.builds(lambda a, n: f"{a}.exists(x, x == {n})", lists, st.integers(0, 9)),
    bools,
)


def extend_logic(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds(lambda a, o, b: f"({a} {o} {b})", inner, st.sampled_from(["&&", "||"]), inner),
        st.builds(lambda a, b, c: f"({a} ? {b} : {c})", inner, inner, inner),
        st.builds(lambda a: f"!({a})", inner),
    )


def ours(text: str) -> Any:
    try:
        return ENV.compile(text)({})
    except CelError:
        return "error"


def theirs(text: str) -> Any:
    try:
        return cel.evaluate(text, {})
    except Exception:
        return "error"


@settings(max_examples=150, deadline=None)
@given(numbers)
def test_numbers(text: str) -> None:
    left, right = ours(text), theirs(text)
    assert left == right or (isinstance(left, float) and math.isnan(left))


@settings(max_examples=150, deadline=None)
@given(st.recursive(comparisons, extend_logic, max_leaves=6))
def test_logic(text: str) -> None:
    left, right = ours(text), theirs(text)
    if right == "error" and left != "error":
        # The other one does not absorb every error that && and || may absorb.
        assert "/" in text or "%" in text
        return
    assert left == right
