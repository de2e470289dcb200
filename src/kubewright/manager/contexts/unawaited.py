"""Detects coroutines of `Context` and of an operator's client that a function created and never awaited.

A call such as `ctx.update_status()` without `await` does nothing. The methods record the coroutine and the
line that created it; when the function has returned, a coroutine that was never started is an error.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from types import CoroutineType
from typing import Any, ParamSpec, TypeVar

from kubewright.cache import CachedClient

P = ParamSpec("P")
R = TypeVar("R")

_MAX_RECORDED = 64
"""Number of recorded coroutines above which finished ones are dropped; daemons run for a long time."""
_Created = list[tuple["CoroutineType[Any, Any, Any]", str, str, int]]
"""Coroutines with their names, and the file and line that created them."""

_created: ContextVar[_Created | None] = ContextVar("kubewright_created_coroutines", default=None)


class UnawaitedCoroutineError(TypeError):
    """A function did not await a coroutine of its context or client; the message begins with `file:line`."""


def recorded(method: Callable[P, R], name: str = "") -> Callable[P, R]:
    """Decorate a coroutine method so that `run_checked` finds calls that are not awaited."""
    shown = name or method.__qualname__

    @functools.wraps(method)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        coroutine: Any = method(*args, **kwargs)
        created = _created.get()
        if created is not None:
            frame = sys._getframe(1)
            if len(created) >= _MAX_RECORDED:
                created[:] = [each for each in created if each[0].cr_frame is not None]
            created.append((coroutine, shown, frame.f_code.co_filename, frame.f_lineno))
        result: R = coroutine
        return result

    return wrapper


async def run_checked(function: Callable[[], Awaitable[R]], name: str) -> R:
    """Call an async function; raise `UnawaitedCoroutineError` if it left a recorded coroutine unawaited."""
    created: _Created = []
    token = _created.set(created)
    try:
        result = await function()
    finally:
        _created.reset(token)
    if created and _unawaited(created):
        # A task that was created at the end of the function starts in the next iteration of the loop.
        await asyncio.sleep(0)
        left = _unawaited(created)
        for coroutine, *_ in left:
            coroutine.close()
        for _, called, file, line in left:
            raise UnawaitedCoroutineError(
                f"{file}:{line}: {name}: {called}() was not awaited and did nothing; "
                f"write `await` before the call, or make {name} a plain function (def)"
            )
    return result


def _unawaited(created: _Created) -> _Created:
    return [each for each in created if inspect.getcoroutinestate(each[0]) == inspect.CORO_CREATED]


class OperatorClient(CachedClient):
    """The client of an operator: a `CachedClient` that records its coroutines for `run_checked`."""


for _name, _method in inspect.getmembers(CachedClient, inspect.iscoroutinefunction):
    if not _name.startswith("_") and _name != "send":
        setattr(OperatorClient, _name, recorded(_method, f"Client.{_name}"))
