"""Warnings about names and options that are replaced."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
Arguments = tuple[Any, ...]


def warn_deprecated(old: str, new: str, *, stacklevel: int = 3) -> None:
    """Warn that the caller of the calling function uses something deprecated, and name the replacement."""
    warnings.warn(f"{old} is deprecated; use {new}", DeprecationWarning, stacklevel=stacklevel)


def renamed_parameter(old: str, new: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Accept the old name of a keyword parameter, with a warning."""

    def rename(arguments: Arguments, options: dict[str, Any]) -> Arguments:
        if old in options:
            warn_deprecated(f"the parameter {old}", new, stacklevel=4)
            options[new] = options.pop(old)
        return arguments

    decorator: Any = adapted(rename)
    keeps_type: Callable[[Callable[P, R]], Callable[P, R]] = decorator
    return keeps_type


def adapted(
    adapt: Callable[[Arguments, dict[str, Any]], Arguments],
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Call a function, plain or async, with the positional arguments that `adapt` returns.

    `adapt` can change the keyword arguments in place.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*adapt(args, kwargs), **kwargs)

        @wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            return await function(*adapt(args, kwargs), **kwargs)

        return call_async if iscoroutinefunction(function) else call

    return decorate
