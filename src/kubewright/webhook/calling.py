"""Calling what users write with as many arguments as it takes; plain functions run in a thread."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call gives a coroutine; also for objects with an async `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__
    )


def takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with so many arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    return True


async def call_with(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function with the arguments, or without the last ones if it takes fewer."""
    while arguments and not takes(function, len(arguments)):
        arguments = arguments[:-1]
    if is_async(function):
        return await function(*arguments)
    return await asyncio.to_thread(function, *arguments)
