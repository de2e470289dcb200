"""Calls of functions that users write: coroutine functions on the event loop, plain functions in a thread."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling the function returns a coroutine; also true for objects with an async `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - the method itself is inspected
    )


def accepts(function: Callable[..., Any], count: int) -> bool:
    """Whether the function can be called with `count` positional arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    return True


async def call(function: Callable[..., Any], *arguments: Any, executor: Executor | None = None) -> Any:
    """Call a function and return its result; a plain one runs in a thread, with the caller's context.

    A thread cannot be interrupted. When the caller is cancelled, the call still waits for the thread, so that
    the same work is never done twice at the same time; a second cancellation abandons the thread.
    """
    if is_async(function):
        return await function(*arguments)
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    future = loop.run_in_executor(executor, context.run, function, *arguments)
    try:
        result: Any = await asyncio.shield(future)
    except asyncio.CancelledError:
        if not future.cancelled():
            await asyncio.wait([future])
            if not future.cancelled():
                future.exception()
        raise
    return await result if inspect.isawaitable(result) else result


async def call_with_accepted(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function with the arguments, without trailing ones that it does not accept."""
    while arguments and not accepts(function, len(arguments)):
        arguments = arguments[:-1]
    return await call(function, *arguments)
