"""Compiled code: a function of a frame, with its fixed cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kubewright.cel.compilation.frame import Frame

Run = Callable[[Frame], Any]


class Code(NamedTuple):
    """Compiled code, its fixed cost, and whether it is a constant."""

    run: Run
    cost: int
    constant: bool = False


def constant(value: Any) -> Code:
    """Return code for a constant, at no cost."""
    return Code(lambda frame: value, 0, constant=True)


def value_of(code: Code) -> Any:
    """The value of constant code."""
    return code.run([])
