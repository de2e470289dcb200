"""Returning freed memory to the operating system.

The C library keeps freed memory for reuse. With objects of many sizes and lifetimes the heap fragments, and
the resident size of a long-running process grows. glibc can return unused pages (`malloc_trim`).
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from functools import partial

from kubewright.background import run_forever

INTERVAL = 30.0


def enable_gc() -> None:
    """Enable the garbage collector after the start of a server."""
    gc.freeze()
    # Deleted CRDs and closed connections are reference cycles: collect them, but rarely.
    gc.set_threshold(20_000, 5, 4)
    gc.enable()


def find_malloc_trim() -> Callable[[int], int] | None:
    """Return `malloc_trim` of the C library, or `None` if it does not have it."""
    import ctypes

    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim


def trim_in_background(progress: Callable[[], int]) -> asyncio.Task[None]:
    """Trim the heap periodically in a task, until it is cancelled."""
    return run_forever(partial(trim_periodically, progress), name="memory", required=False)


async def trim_periodically(progress: Callable[[], int], interval: float = INTERVAL) -> None:
    """Trim the heap every `interval` seconds, if `progress` has changed, until cancelled."""
    before = progress()
    trim: Callable[[int], int] | None = None
    while True:
        await asyncio.sleep(interval)
        if progress() == before:
            continue
        trim = trim or find_malloc_trim()
        if trim is None:
            return
        before = progress()
        trim(0)
