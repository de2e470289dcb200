"""Warnings about names and options that are replaced."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")


def warn_deprecated(old: str, new: str, *, stacklevel: int = 3) -> None:
    """Warn that the caller of the calling function uses something deprecated, and name the replacement."""
    warnings.warn(f"{old} is deprecated; use {new}", DeprecationWarning, stacklevel=stacklevel)


def renamed_parameter(old: str, new: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Accept the old name of a keyword parameter, with a warning."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        def rename(arguments: dict[str, Any]) -> None:
            if old in arguments:
                warn_deprecated(f"the parameter {old}", new, stacklevel=4)
                arguments[new] = arguments.pop(old)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            rename(kwargs)
            return function(*args, **kwargs)

        @wraps(function)
        async def call_async(*args: P.args, **kwargs: P.kwargs) -> Any:
            rename(kwargs)
            return await cast(Any, function)(*args, **kwargs)

        return cast(Callable[P, R], call_async) if iscoroutinefunction(function) else call

    return decorate


__all__ = ["renamed_parameter", "warn_deprecated"]
