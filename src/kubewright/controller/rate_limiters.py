"""Rate limiters: the delay before a failed key is retried.

`ExponentialFailureRateLimiter` doubles the delay of a key with each failure, `BucketRateLimiter` limits the
rate of all keys together, and `MaxOfRateLimiter` returns the longest delay of several limiters. The defaults
are those of client-go: 5 ms to 1000 s per key, 10 per second with a burst of 100.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class RateLimiter(Protocol[K_contra]):
    """Decides the delay of a key that failed."""

    def when(self, key: K_contra) -> float:
        """Count one more failure and say how many seconds to wait."""

    def forget(self, key: K_contra) -> None:
        """Start anew with this key."""

    def failures(self, key: K_contra) -> int:
        """How often it has failed since it was last forgotten."""


class ExponentialFailureRateLimiter(Generic[K]):
    """`base` seconds after the first failure, twice as long after each further one, up to `maximum`."""

    def __init__(self, base: float = 0.005, maximum: float = 1000.0) -> None:
        self.base = base
        self.maximum = maximum
        self._failures: dict[K, int] = {}

    def when(self, key: K) -> float:
        """Count one more failure and say how many seconds to wait."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # Above this the power alone exceeds any sensible maximum; huge ones would overflow a float.
        return float(min(self.base * 2 ** min(failures, 64), self.maximum))

    def forget(self, key: K) -> None:
        """Start anew with this key."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often it has failed since it was last forgotten."""
        return self._failures.get(key, 0)


class BucketRateLimiter(Generic[K]):
    """A token bucket for all keys together: `rate` per second on average, `burst` at once."""

    def __init__(
        self, rate: float = 10.0, burst: int = 100, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate = rate
        self.burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._filled_at = clock()

    def when(self, key: K) -> float:
        """Take a token, or reserve the next one that nobody has reserved."""
        now = self._clock()
        self._tokens = min(float(self.burst), self._tokens + (now - self._filled_at) * self.rate)
        self._filled_at = now
        self._tokens -= 1
        return max(0.0, -self._tokens / self.rate)

    def forget(self, key: K) -> None:
        """A bucket knows no keys."""

    def failures(self, key: K) -> int:
        """A bucket knows no keys."""
        return 0


class FastSlowRateLimiter(Generic[K]):
    """`fast` seconds for the first `attempts` failures of a key, then `slow`."""

    def __init__(self, fast: float, slow: float, attempts: int) -> None:
        self.fast = fast
        self.slow = slow
        self.attempts = attempts
        self._failures: dict[K, int] = {}

    def when(self, key: K) -> float:
        """Count one more failure and say how many seconds to wait."""
        self._failures[key] = failures = self._failures.get(key, 0) + 1
        return self.fast if failures <= self.attempts else self.slow

    def forget(self, key: K) -> None:
        """Start anew with this key."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often it has failed since it was last forgotten."""
        return self._failures.get(key, 0)


class MaxOfRateLimiter(Generic[K]):
    """The longest delay of several limiters."""

    def __init__(self, *limiters: RateLimiter[K]) -> None:
        self.limiters = limiters

    def when(self, key: K) -> float:
        """Count one more failure with each and take the longest delay."""
        return max(limiter.when(key) for limiter in self.limiters)

    def forget(self, key: K) -> None:
        """Start anew with this key."""
        for limiter in self.limiters:
            limiter.forget(key)

    def failures(self, key: K) -> int:
        """The most that any limiter has counted."""
        return max(limiter.failures(key) for limiter in self.limiters)
