"""`TokenBucket`: client-side rate limit with a burst.

Off by default, because API servers protect themselves with priority and fairness. Use it for servers that do
not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kubewright.api.values.times import monotonic_time


class TokenBucket:
    """Allow `rate` requests per second and bursts of up to `burst`; waiters are served in order."""

    def __init__(
        self,
        rate: float,
        burst: int,
        *,
        clock: Callable[[], float] = monotonic_time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError(f"rate must be positive and burst at least 1, not {rate} and {burst}")
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._sleep = sleep
        self._tokens = float(burst)
        self._updated_at: float | None = None

    async def acquire(self) -> float:
        """Wait for a token; return the seconds waited."""
        now = self._clock()
        elapsed = 0.0 if self._updated_at is None else now - self._updated_at
        self._tokens = min(self._burst, self._tokens + elapsed * self._rate) - 1
        self._updated_at = now
        if self._tokens >= 0:
            return 0.0
        # The balance is negative now, so later callers wait longer and the order of arrival is preserved.
        delay = -self._tokens / self._rate
        try:
            await self._sleep(delay)
        except asyncio.CancelledError:
            self._tokens += 1
            raise
        return delay
