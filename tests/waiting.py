"""Waiting for conditions in tests.

The timeout only bounds how long a failing test takes: it is longer than a busy machine needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

TIMEOUT = 120.0


async def eventually(
    check: Callable[[], Any],
    timeout: float = TIMEOUT,
    *,
    interval: float = 0.02,
    ignore: type[Exception] | tuple[type[Exception], ...] = (),
) -> Any:
    """Call a function, plain or async, until it returns a true value; return that.

    Exceptions of the types `ignore` count as false. Raises `AssertionError` with the last result.
    """
    last: Any = None
    try:
        async with asyncio.timeout(timeout) as limit:
            while True:
                try:
                    found = check()
                    if asyncio.iscoroutine(found):
                        found = await found
                    if found:
                        return found
                    last = found
                except ignore as error:
                    last = error
                await asyncio.sleep(interval)
    except TimeoutError:
        if not limit.expired():
            raise
        raise AssertionError(f"still {last!r} after {timeout:g} s") from None
