"""Quantities: amounts like `100m` or `1Gi`, by `kubewright.api.quantity`."""

from __future__ import annotations

from typing import Final

from kubewright.api.quantity import Quantity, QuantityError
from kubewright.cel.errors import CelError
from kubewright.cel.functions import Overload, overload
from kubewright.cel.types import opaque_type
from kubewright.cel.values import MAX_INT, MIN_INT, Opaque


class QuantityValue(Opaque):
    """A quantity as an expression sees it."""

    __slots__ = ("amount",)
    cel_type = opaque_type("kubernetes.Quantity")

    def __init__(self, amount: Quantity) -> None:
        self.amount = amount

    def equals(self, other: object) -> bool:
        """Equality by amount, whatever the suffix."""
        return isinstance(other, QuantityValue) and other.amount == self.amount


def parse(text: str) -> QuantityValue:
    """`quantity(text)`."""
    try:
        return QuantityValue(Quantity(text))
    except QuantityError as error:
        raise CelError(str(error)) from None


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
    return fraction.denominator == 1 and MIN_INT <= fraction <= MAX_INT


def _as_integer(value: QuantityValue) -> int:
    if not _is_integer(value):
        raise CelError("cannot convert value to integer")
    return int(value.amount.as_fraction())


def _add(left: QuantityValue, right: QuantityValue | int) -> QuantityValue:
    other = right.amount if isinstance(right, QuantityValue) else right
    return QuantityValue(left.amount.add(other))


def _subtract(left: QuantityValue, right: QuantityValue | int) -> QuantityValue:
    other = right.amount if isinstance(right, QuantityValue) else right
    return QuantityValue(left.amount.sub(other))


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
