"""Errors for misspelt keyword arguments.

Users write `failurePolicy=` as in YAML, or `short_name=` for `short_names=`. Python's own error names neither
the right parameter nor the alternatives; these do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar

ClassT = TypeVar("ClassT", bound=type)


def keyword_error(
    callable_name: str,
    given: Iterable[str],
    known: Iterable[str],
    *,
    others: Mapping[str, Iterable[str]] | None = None,
) -> TypeError:
    """Return the error for the keyword arguments `given` to a callable with the parameters `known`.

    `others` are parameters of other callables that users may confuse it with.
    """
    parameters = list(known)
    problems = [_problem(name, parameters, others or {}) for name in given if name not in parameters]
    return TypeError(f"{callable_name}: " + "; ".join(problems))


def _problem(name: str, known: list[str], others: Mapping[str, Iterable[str]]) -> str:
    snake = re.sub("(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
    candidates = (snake, f"{snake}s", snake.removesuffix("s"))
    for candidate in candidates:
        if candidate in known:
            return f"unknown argument {name!r}; write {candidate}="
    for callable_name, parameters in others.items():
        for candidate in candidates:
            if candidate in parameters:
                return f"unknown argument {name!r}; {candidate}= is an argument of {callable_name}"
    from difflib import get_close_matches  # not needed unless there is an error

    close = get_close_matches(snake, known, n=1)
    if close:
        return f"unknown argument {name!r}; did you mean {close[0]}=?"
    return f"unknown argument {name!r}; the arguments are {', '.join(known)}"


def explain_keywords(cls: ClassT) -> ClassT:
    """Make a dataclass raise `keyword_error` for unknown keyword arguments."""
    names = [field.name for field in fields(cls) if field.init]
    constructor: Any = cls
    original = constructor.__init__

    @wraps(original)
    def initialize(self: object, *args: object, **arguments: object) -> None:
        if not arguments.keys() <= set(names):
            raise keyword_error(cls.__name__, arguments, names)
        original(self, *args, **arguments)

    constructor.__init__ = initialize
    return cls
