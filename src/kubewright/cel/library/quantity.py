"""Quantities: amounts like `100m` or `1Gi`, by `kubewright.api.values.quantity`."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from kubewright.api.values.quantity import Quantity, QuantityError
from kubewright.cel.checking.types import opaque_type
from kubewright.cel.errors import CelError
from kubewright.cel.functions import Overload, overload
from kubewright.cel.values import MAX_INT, MIN_INT, Opaque

_PARTS: Final = re.compile(
    r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,9})|([A-Za-z]{0,2}))",
)
_POWERS: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SHIFTS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_MAX_DIGITS: Final = 18
_MAX_BINARY_DIGITS: Final = 14

Scaled: TypeAlias = tuple[int, int]
"""`value * 10**scale` where the value fits into 64 bits."""


class QuantityValue(Opaque):
    """A quantity value.

    `scaled` is the amount if Kubernetes stores it in 64 bits. Only such an amount can be converted to an
    integer, and only if it was written without a fraction: `1000m`, `1.0` and `1Ei` cannot.
    """

    __slots__ = ("amount", "scaled")
    cel_type = opaque_type("kubernetes.Quantity")

    def __init__(self, amount: Quantity, scaled: Scaled | None) -> None:
        self.amount = amount
        self.scaled = scaled

    def equals(self, other: object) -> bool:
        """Equality by amount, whatever the suffix."""
        return isinstance(other, QuantityValue) and other.amount == self.amount


def parse(text: str) -> QuantityValue:
    """`quantity(text)`."""
    try:
        return QuantityValue(Quantity(text), _scaled(text))
    except QuantityError as error:
        raise CelError(error.args[0]) from None


def _scaled(text: str) -> Scaled | None:
    match = _PARTS.fullmatch(text)
    if match is None:
        return None
    sign, whole, fraction, exponent, suffix = match.groups(default="")
    whole = whole or "0"
    if suffix in _SHIFTS:
        shift = _SHIFTS[suffix]
        if fraction or len(whole) + shift * 3 // 10 > _MAX_BINARY_DIGITS:
            return None
        value, scale = int(whole) << shift, 0
    else:
        scale = (int(exponent) if exponent else _POWERS.get(suffix, 0)) - len(fraction)
        if len(whole) + len(fraction) > _MAX_DIGITS or scale < _POWERS["n"]:
            return None
        value = int(whole + fraction)
    return (-value if sign == "-" else value), scale


def _sum(left: Scaled | None, right: Scaled | None) -> Scaled | None:
    if left is None or right is None:
        return None
    if not left[0] or not right[0]:
        return left if left[0] else right if right[0] else left
    scale = min(left[1], right[1])
    if max(left[1], right[1]) - scale > _MAX_DIGITS:
        return None
    value = left[0] * 10 ** (left[1] - scale) + right[0] * 10 ** (right[1] - scale)
    return (value, scale) if MIN_INT <= value <= MAX_INT else None


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


def _integer(value: QuantityValue) -> int | None:
    if value.scaled is None:
        return None
    number, scale = value.scaled
    if scale < 0 or scale > _MAX_DIGITS:
        return None
    number *= 10**scale
    return number if MIN_INT <= number <= MAX_INT else None


def _is_integer(value: QuantityValue) -> bool:
    return _integer(value) is not None


def _as_integer(value: QuantityValue) -> int:
    number = _integer(value)
    if number is None:
        raise CelError("cannot convert value to integer")
    return number


def _as_float(value: QuantityValue) -> float:
    number, scale = value.scaled or (value.amount.nanos, -9)
    if not number or not scale:
        return float(number)
    try:
        return float(number) * float(f"1e{scale}")
    except OverflowError:
        return value.amount.as_approximate_float()


def _operand(value: QuantityValue | int) -> QuantityValue:
    return value if isinstance(value, QuantityValue) else QuantityValue(Quantity(value), (value, 0))


def _add(left: QuantityValue, right: QuantityValue | int) -> QuantityValue:
    other = _operand(right)
    return QuantityValue(left.amount.add(other.amount), _sum(left.scaled, other.scaled))


def _subtract(left: QuantityValue, right: QuantityValue | int) -> QuantityValue:
    other = _operand(right)
    negated = other.scaled and (-other.scaled[0], other.scaled[1])
    return QuantityValue(left.amount.sub(other.amount), _sum(left.scaled, negated))


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
        _as_float,
    ),
    overload("asInteger", "quantity_get_int", f"{_Q}.() -> int", _as_integer),
    overload("isInteger", "quantity_is_integer", f"{_Q}.() -> bool", _is_integer),
    overload("add", "quantity_add", f"{_Q}.({_Q}) -> {_Q}", _add),
    overload("add", "quantity_add_int", f"{_Q}.(int) -> {_Q}", _add),
    overload("sub", "quantity_sub", f"{_Q}.({_Q}) -> {_Q}", _subtract),
    overload("sub", "quantity_sub_int", f"{_Q}.(int) -> {_Q}", _subtract),
]
