"""Quantities: amounts like `100m` or `1Gi`, by `kubewright.api.quantity`."""

from __future__ import annotations

import re
from typing import Final

from kubewright.api.quantity import Quantity, QuantityError
from kubewright.cel.errors import CelError
from kubewright.cel.functions import Overload, overload
from kubewright.cel.types import opaque_type
from kubewright.cel.values import MAX_INT, MIN_INT, Opaque

_PARTS: Final = re.compile(
    r"[+-]?[0-9]*(?:\.(?P<fraction>[0-9]*))?(?:[eE](?P<exponent>[+-]?[0-9]{1,9})|(?P<suffix>[A-Za-z]{0,2}))"
)
_POWERS: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


class QuantityValue(Opaque):
    """A quantity as an expression sees it.

    `whole` says whether it was written without a fraction. Kubernetes takes `1000m` and `1.0` for fractions.
    """

    __slots__ = ("amount", "whole")
    cel_type = opaque_type("kubernetes.Quantity")

    def __init__(self, amount: Quantity, whole: bool) -> None:
        self.amount = amount
        self.whole = whole

    def equals(self, other: object) -> bool:
        """Equality by amount, whatever the suffix."""
        return isinstance(other, QuantityValue) and other.amount == self.amount


def parse(text: str) -> QuantityValue:
    """`quantity(text)`."""
    try:
        return QuantityValue(Quantity(text), _is_whole(text))
    except QuantityError as error:
        raise CelError(str(error)) from None


def _is_whole(text: str) -> bool:
    match = _PARTS.fullmatch(text)
    if match is None:
        return False
    digits, suffix, exponent = len(match["fraction"] or ""), match["suffix"] or "", match["exponent"]
    if suffix.endswith("i"):
        return digits == 0
    return (int(exponent) if exponent else _POWERS.get(suffix, 0)) >= digits


def is_quantity(text: str) -> bool:
    """`isQuantity(text)`."""
    try:
        Quantity(text)
    except QuantityError:
        return False
    return True


def _compare(left: QuantityValue, right: QuantityValue) -> int:
    if left.amount == right.amount:
        return 0
    return -1 if left.amount < right.amount else 1


def _sign(value: QuantityValue) -> int:
    fraction = value.amount.as_fraction()
    return (fraction > 0) - (fraction < 0)


def _is_integer(value: QuantityValue) -> bool:
    fraction = value.amount.as_fraction()
    return value.whole and fraction.denominator == 1 and MIN_INT <= fraction <= MAX_INT


def _as_integer(value: QuantityValue) -> int:
    if not _is_integer(value):
        raise CelError("cannot convert value to integer")
    return int(value.amount.as_fraction())


def _add(left: QuantityValue, right: QuantityValue | int) -> QuantityValue:
    if isinstance(right, QuantityValue):
        return QuantityValue(left.amount.add(right.amount), left.whole and right.whole)
    return QuantityValue(left.amount.add(right), left.whole)


def _subtract(left: QuantityValue, right: QuantityValue | int) -> QuantityValue:
    if isinstance(right, QuantityValue):
        return QuantityValue(left.amount.sub(right.amount), left.whole and right.whole)
    return QuantityValue(left.amount.sub(right), left.whole)


def _greater(left: QuantityValue, right: QuantityValue) -> bool:
    return _compare(left, right) > 0


def _less(left: QuantityValue, right: QuantityValue) -> bool:
    return _compare(left, right) < 0


_Q: Final = "kubernetes.Quantity"
OVERLOADS: Final[list[Overload]] = [
    overload("quantity", "string_to_quantity", f"(string) -> {_Q}", parse),
    overload("isQuantity", "is_quantity_string", "(string) -> bool", is_quantity),
    overload("sign", "quantity_sign", f"({_Q}) -> int", _sign),
    overload(
        "isGreaterThan",
        "quantity_is_greater_than",
        f"{_Q}.({_Q}) -> bool",
        _greater,
    ),
    overload(
        "isLessThan",
        "quantity_is_less_than",
        f"{_Q}.({_Q}) -> bool",
        _less,
    ),
    overload("compareTo", "quantity_compare_to", f"{_Q}.({_Q}) -> int", _compare),
    overload(
        "asApproximateFloat",
        "quantity_get_float",
        f"{_Q}.() -> double",
        lambda value: value.amount.as_approximate_float(),
    ),
    overload("asInteger", "quantity_get_int", f"{_Q}.() -> int", _as_integer),
    overload("isInteger", "quantity_is_integer", f"{_Q}.() -> bool", _is_integer),
    overload("add", "quantity_add", f"{_Q}.({_Q}) -> {_Q}", _add),
    overload("add", "quantity_add_int", f"{_Q}.(int) -> {_Q}", _add),
    overload("sub", "quantity_sub", f"{_Q}.({_Q}) -> {_Q}", _subtract),
    overload("sub", "quantity_sub_int", f"{_Q}.(int) -> {_Q}", _subtract),
]
