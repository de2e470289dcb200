"""Memory that is not needed any more goes back to the system.

Objects come in all sizes and live from a moment to minutes. What is freed between those that stay is kept by
the C library for later use, and over hours of work that adds up. GNU's can be asked to return whole pages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

INTERVAL = 30.0


def find_trim() -> Callable[[int], int] | None:
    """The C library's function for it; `None` where it has none."""
    import ctypes

    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim


async def give_memory_back(progress: Callable[[], int], interval: float = INTERVAL) -> None:
    """Do so from time to time, if `progress` has changed meanwhile, until cancelled."""
    before = progress()
    trim: Callable[[int], int] | None = None
    while True:
        await asyncio.sleep(interval)
        if progress() == before:
            continue
        trim = trim or find_trim()
        if trim is None:
            return
        before = progress()
        trim(0)
