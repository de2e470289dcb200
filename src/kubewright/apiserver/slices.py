"""Long computations, with other requests in between.

A computation on the event loop is a generator that yields between slices of a few milliseconds and returns
its result:

    document = await run_in_slices(build_document())

One that cannot be divided, such as the validation of a long object, runs in a worker thread. It has the
interpreter for at most the switch interval (5 ms) while the event loop has work to do:

    errors = await run_in_worker(partial(validate, obj))
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


async def run_in_slices(steps: Generator[None, None, T]) -> T:
    """Run a generator to its end and return its result; other tasks run between its steps."""
    try:
        while True:
            next(steps)
            await asyncio.sleep(0)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        steps.close()


LONG_OBJECT = 128 * 1024
"""Bytes of an encoded object above which computations on it run in the worker thread."""

_worker: ThreadPoolExecutor | None = None


async def run_in_worker(function: Callable[[], T]) -> T:
    """Call a function in the worker thread and return its result.

    There is one worker: several long objects are processed one after the other, so that the event loop waits
    for one other thread at most.
    """
    global _worker
    if _worker is None:
        _worker = ThreadPoolExecutor(1, thread_name_prefix="kubewright-long-objects")
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_worker, context.run, function)
