"""Long computations on the event loop, in slices.

A computation is a generator that yields between slices of a few milliseconds and returns its result:

    document = await run_in_slices(build_document())
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
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


__all__ = ["run_in_slices"]
