"""Quantities: amounts such as `500m`, `1.5Gi` or `2e3`, with exact arithmetic.

A quantity is a whole number of nano units (`nanos`) and the family of suffixes that it was written in:

- DecimalSI        n u m (none) k M G T P E    powers of ten
- BinarySI         Ki Mi Gi Ti Pi Ei           powers of 1024
- DecimalExponent  e3, E-6                     powers of ten, written out

Amounts below one nano are rounded up, away from zero. The canonical form uses the largest suffix of the
family that needs no fraction: `0.5` is `500m`, `1.5Gi` is `1536Mi`. Text that is exact to a multiple of three
digits is printed unchanged, as in Kubernetes (`1.500` stays `1.500`). Equality, order and hash only depend on
the amount: `1000m` equals `1`.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, total_ordering
from typing import Final, Literal, TypeAlias

Format: TypeAlias = Literal["DecimalSI", "BinarySI", "DecimalExponent"]

_NANO: Final = 1_000_000_000
_BINARY_LIMIT: Final = ((1 << 63) - 1) * _NANO
_MAX_EXPONENT: Final = 1_000

_DECIMAL_SUFFIXES: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_DECIMAL_NAMES: Final = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BINARY_SUFFIXES: Final = {name: 10 * power for power, name in enumerate(_BINARY_NAMES) if name}

_SHAPE: Final = re.compile(r"([+-]?)0*+([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[-+]?[0-9]*+)", re.ASCII)
_FORMAT_WRONG: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_SUFFIX_WRONG: Final = "unable to parse quantity's suffix"
_NUMBER_WRONG: Final = "unable to parse numeric part of quantity"


class QuantityError(ValueError):
    """The text is not a quantity. The message is that of Kubernetes; `text` is the input."""

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text

    def __str__(self) -> str:
        shown = self.text if len(self.text) <= 64 else self.text[:61] + "..."
        return f"{self.args[0]} (got {shown!r})"


def _round_up(numerator: int, denominator: int) -> int:
    """Divide, rounding away from zero."""
    return -(-numerator // denominator) if numerator >= 0 else numerator // denominator


def _parse(text: str) -> tuple[int, Format, str | None]:
    """Return nanos, family, and the text if Kubernetes would print it unchanged."""
    shape = _SHAPE.fullmatch(text) if text else None
    if shape is None:
        raise QuantityError(_FORMAT_WRONG, text)
    sign, whole, fraction, suffix = shape.groups(default="")
    digits = (whole or "0") + fraction
    if len(digits) > _MAX_EXPONENT:
        raise QuantityError(_NUMBER_WRONG, text)
    mantissa = int(digits)
    if suffix in _BINARY_SUFFIXES:
        return _parse_binary(text, sign, mantissa, len(fraction), _BINARY_SUFFIXES[suffix])
    form: Format = "DecimalSI"
    exponent = _DECIMAL_SUFFIXES.get(suffix)
    if exponent is None:
        if suffix[0] not in "eE":
            raise QuantityError(_SUFFIX_WRONG, text)
        try:
            exponent = int(suffix[1:])
        except ValueError:
            raise QuantityError(_SUFFIX_WRONG, text) from None
        if exponent > _MAX_EXPONENT:
            raise QuantityError(_SUFFIX_WRONG, text)
        form = "DecimalExponent"
    scale = exponent - len(fraction)
    if scale >= -9:
        nanos = mantissa * int(10 ** (scale + 9))
        as_written = len(digits) <= 18 and scale % 3 == 0 and digits[0] != "0" and not digits.endswith("000")
    else:
        nanos = _round_up(mantissa, 10 ** min(-9 - scale, 2 * _MAX_EXPONENT))
        as_written = False
    return (-nanos if sign == "-" else nanos), form, text if as_written else None


def _parse_binary(
    text: str, sign: str, mantissa: int, fraction_digits: int, shift: int
) -> tuple[int, Format, str | None]:
    nanos = min(_round_up((mantissa << shift) * _NANO, 10**fraction_digits), _BINARY_LIMIT)
    form: Format = "DecimalSI" if 0 < nanos < _NANO else "BinarySI"
    short = not fraction_digits and 14 - len(str(mantissa)) - int(shift * 3 / 10) >= 0
    as_written = short and mantissa & 7 != 0
    return (-nanos if sign == "-" else nanos), form, text if as_written else None


_parse_short = lru_cache(maxsize=4096)(_parse)


def _canonical(nanos: int, form: Format) -> str:
    if nanos == 0:
        return "0"
    if form == "BinarySI" and abs(nanos) >= 1024 * _NANO and nanos % _NANO == 0:
        amount, power = nanos // _NANO, 0
        while power < 6 and amount % 1024 == 0:
            amount, power = amount // 1024, power + 1
        return f"{amount}{_BINARY_NAMES[power]}"
    amount, exponent = nanos, -9
    limit = 10_000 if form == "DecimalExponent" else 18
    while exponent < limit and amount % 1000 == 0:
        amount, exponent = amount // 1000, exponent + 3
    if form == "DecimalExponent":
        return f"{amount}e{exponent}" if exponent else str(amount)
    return f"{amount}{_DECIMAL_NAMES[exponent]}"


@total_ordering
class Quantity:
    """An exact amount: `Quantity("1.5Gi")`, `Quantity(2)`, `Quantity(0.1)`. Immutable and hashable."""

    __slots__ = ("_text", "format", "nanos")

    nanos: int
    """The amount in billionths."""
    format: Format
    """The suffix family that it is printed in."""
    _text: str | None

    def __init__(self, value: str | int | float | Decimal | Fraction | Quantity = 0) -> None:
        text: str | None = None
        form: Format = "DecimalSI"
        if isinstance(value, str):
            nanos, form, text = _parse_short(value) if len(value) <= 32 else _parse(value)
        elif isinstance(value, Quantity):
            nanos, form, text = value.nanos, value.format, value._text
        elif isinstance(value, bool):
            raise QuantityError(_FORMAT_WRONG, str(value))
        elif isinstance(value, int):
            nanos = value * _NANO
        elif isinstance(value, float | Decimal):
            nanos, form, text = _parse(str(value))
        elif isinstance(value, Fraction):
            nanos = _round_up(value.numerator * _NANO, value.denominator)
        else:
            raise TypeError(f"cannot create a Quantity from {type(value).__name__}; pass text or a number")
        _set(self, "nanos", nanos)
        _set(self, "format", form)
        _set(self, "_text", text)

    @classmethod
    def from_nanos(cls, nanos: int, format: Format = "DecimalSI") -> Quantity:
        """Create a quantity of `nanos` billionths, printed in the family `format`."""
        new = cls.__new__(cls)
        _set(new, "nanos", nanos)
        _set(new, "format", format)
        _set(new, "_text", None)
        return new

    def as_int(self, scale: int = 0) -> int:
        """Return the amount in units of `10**scale`, rounded up: `as_int(-3)` is in thousandths."""
        if scale <= -9:
            return self.nanos * int(10 ** (-9 - scale))
        return _round_up(self.nanos, 10 ** (9 + scale))

    def as_fraction(self) -> Fraction:
        """Return the exact amount."""
        return Fraction(self.nanos, _NANO)

    def as_approximate_float(self) -> float:
        """Return the nearest float; infinity on overflow."""
        try:
            return self.nanos / _NANO
        except OverflowError:
            return float("inf") if self.nanos > 0 else float("-inf")

    def with_format(self, format: Format) -> Quantity:
        """Return the same amount, printed in another family."""
        return Quantity.from_nanos(self.nanos, format)

    def add(self, other: Quantity | int) -> Quantity:
        """Return the sum, printed in the family of `self` unless `self` is zero."""
        if not isinstance(other, Quantity):
            other = Quantity(other)
        return Quantity.from_nanos(self.nanos + other.nanos, self.format if self.nanos else other.format)

    def sub(self, other: Quantity | int) -> Quantity:
        """Return the difference, printed in the family of `self` unless `self` is zero."""
        if not isinstance(other, Quantity):
            other = Quantity(other)
        return Quantity.from_nanos(self.nanos - other.nanos, self.format if self.nanos else other.format)

    __add__ = __radd__ = add
    __sub__ = sub

    def __rsub__(self, other: int) -> Quantity:
        return Quantity(other).sub(self)

    def __mul__(self, factor: int | float | Decimal | Fraction) -> Quantity:
        """Multiply by a number; results below one nano are rounded up, away from zero."""
        if isinstance(factor, int):
            return Quantity.from_nanos(self.nanos * factor, self.format)
        if isinstance(factor, float | Decimal):
            factor = Fraction(str(factor))
        elif not isinstance(factor, Fraction):
            return NotImplemented
        return Quantity.from_nanos(_round_up(self.nanos * factor.numerator, factor.denominator), self.format)

    __rmul__ = __mul__

    def __neg__(self) -> Quantity:
        return Quantity.from_nanos(-self.nanos, self.format)

    def __abs__(self) -> Quantity:
        return -self if self.nanos < 0 else self

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __int__(self) -> int:
        return self.as_int()

    def __float__(self) -> float:
        return self.as_approximate_float()

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self.nanos < other.nanos if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __str__(self) -> str:
        text = self._text
        if text is None:
            text = _canonical(self.nanos, self.format)
            _set(self, "_text", text)
        return text

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("Quantity is immutable; create a new one")

    def __copy__(self) -> Quantity:
        return self

    def __deepcopy__(self, memo: object) -> Quantity:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return Quantity._restore, (self.nanos, self.format, self._text)

    @staticmethod
    def _restore(nanos: int, form: Format, text: str | None) -> Quantity:
        new = Quantity.from_nanos(nanos, form)
        _set(new, "_text", text)
        return new


_set = object.__setattr__
