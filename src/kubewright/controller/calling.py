"""Calling what users write: coroutine functions here, plain functions in a thread."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call gives a coroutine; also for objects with an async `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - the method itself is looked at
    )


async def call(function: Callable[..., Any], *arguments: Any, executor: Executor | None = None) -> Any:
    """Call a function and wait for its answer; a plain one runs in a thread, in the same context.

    A thread cannot be stopped. When the caller is cancelled the thread is waited for all the same, because
    until it has ended nobody else may do its work; a second cancellation leaves it behind.
    """
    if is_async(function):
        return await function(*arguments)
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    future = loop.run_in_executor(executor, context.run, function, *arguments)
    try:
        answer: Any = await asyncio.shield(future)
    except asyncio.CancelledError:
        if not future.cancelled():
            await asyncio.wait([future])
            if not future.cancelled():
                future.exception()
        raise
    return await answer if inspect.isawaitable(answer) else answer
