"""A token bucket: at most so many requests a second, with a burst.

Off by default, since API servers protect themselves (priority and fairness); useful for those that do not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


class TokenBucket:
    """`rate` requests a second on average, up to `burst` at once. Waiters are served in order."""

    def __init__(
        self,
        rate: float,
        burst: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError(
                f"a rate limit needs a positive rate and a burst of at least 1, not {rate}, {burst}"
            )
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._sleep = sleep
        self._tokens = float(burst)
        self._at = clock()

    async def acquire(self) -> float:
        """Take one token, waiting for it if need be; the seconds that it took."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate) - 1
        self._at = now
        if self._tokens >= 0:
            return 0.0
        # The token is owed: whoever comes next waits longer, so the order of arrival is kept.
        wait = -self._tokens / self._rate
        try:
            await self._sleep(wait)
        except asyncio.CancelledError:
            self._tokens += 1
            raise
        return wait


__all__ = ["TokenBucket"]
