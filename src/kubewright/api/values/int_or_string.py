"""`IntOrString`: an integer, or a string such as a percentage or the name of a port.

`maxUnavailable: 1` and `maxUnavailable: 25%` are both valid. In Python it is `int | str`.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from kubewright.api.values.go_format import quote

IntOrString: TypeAlias = int | str
"""An integer or a string."""

_PERCENTAGE: Final = re.compile(r"[+-]?[0-9]{1,18}%", re.ASCII)


def scaled_value(value: IntOrString | None, total: int, *, round_up: bool) -> int:
    """Return an integer unchanged, and a percentage as that part of `total`, rounded up or down."""
    if value is None:
        raise ValueError("nil value for IntOrString")
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        raise ValueError("invalid value for IntOrString: invalid type: string is not a percentage")
    if not _PERCENTAGE.fullmatch(value):
        raise ValueError(
            f"invalid value for IntOrString: invalid value {quote(value)}: write a whole number and %"
        )
    product = int(value[:-1]) * total
    return -(-product // 100) if round_up else product // 100


def is_percentage(value: IntOrString) -> bool:
    """Return whether the value is an integer percentage."""
    return isinstance(value, str) and _PERCENTAGE.fullmatch(value) is not None


def parse_int_or_string(text: str) -> IntOrString:
    """Parse a command line argument: an integer of 32 bits if it is one, otherwise the text."""
    try:
        number = int(text)
    except ValueError:
        return text
    return number if str(number) == text and -(1 << 31) <= number < 1 << 31 else text
