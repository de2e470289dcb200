"""Rate limiters: the delay before a failed key is retried.

`ExponentialFailureRateLimiter` doubles the delay of a key with each failure, `BucketRateLimiter` limits the
rate of all keys together, and `MaxOfRateLimiter` returns the longest delay of several limiters. The defaults
are those of client-go: 5 ms to 1000 s per key, 10 per second with a burst of 100.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from kubewright.api.values.times import monotonic_time

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class RateLimiter(Protocol[K_contra]):
    """Determines the delay before a failed key is retried."""

    def when(self, key: K_contra) -> float:
        """Count one more failure and return the delay in seconds."""

    def forget(self, key: K_contra) -> None:
        """Reset the failure count of a key."""

    def failures(self, key: K_contra) -> int:
        """Return the number of failures since the key was last forgotten."""


class ExponentialFailureRateLimiter(Generic[K]):
    """Exponential backoff per key: `base` seconds after the first failure, doubling up to `maximum`."""

    def __init__(self, base: float = 0.005, maximum: float = 1000.0) -> None:
        self.base = base
        self.maximum = maximum
        self._failures: dict[K, int] = {}

    def when(self, key: K) -> float:
        """Count one more failure and return the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # A larger exponent would overflow a float and exceeds any sensible maximum.
        return float(min(self.base * 2 ** min(failures, 64), self.maximum))

    def forget(self, key: K) -> None:
        """Reset the failure count of a key."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Return the number of failures since the key was last forgotten."""
        return self._failures.get(key, 0)


class BucketRateLimiter(Generic[K]):
    """Token bucket shared by all keys: `rate` per second on average, bursts of up to `burst`."""

    def __init__(
        self, rate: float = 10.0, burst: int = 100, *, clock: Callable[[], float] = monotonic_time
    ) -> None:
        self.rate = rate
        self.burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._filled_at: float | None = None

    def when(self, key: K) -> float:
        """Reserve the next token and return the delay until it is available."""
        now = self._clock()
        if self._filled_at is not None:
            self._tokens = min(float(self.burst), self._tokens + (now - self._filled_at) * self.rate)
        self._filled_at = now
        self._tokens -= 1
        return max(0.0, -self._tokens / self.rate)

    def forget(self, key: K) -> None:
        """Do nothing: a bucket does not count per key."""

    def failures(self, key: K) -> int:
        """Return 0: a bucket does not count per key."""
        return 0


class FastSlowRateLimiter(Generic[K]):
    """Delay of `fast` seconds for the first `attempts` failures of a key, then `slow` seconds."""

    def __init__(self, fast: float, slow: float, attempts: int) -> None:
        self.fast = fast
        self.slow = slow
        self.attempts = attempts
        self._failures: dict[K, int] = {}

    def when(self, key: K) -> float:
        """Count one more failure and return the delay in seconds."""
        self._failures[key] = failures = self._failures.get(key, 0) + 1
        return self.fast if failures <= self.attempts else self.slow

    def forget(self, key: K) -> None:
        """Reset the failure count of a key."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Return the number of failures since the key was last forgotten."""
        return self._failures.get(key, 0)


class MaxOfRateLimiter(Generic[K]):
    """Longest delay of several rate limiters."""

    def __init__(self, *limiters: RateLimiter[K]) -> None:
        self.limiters = limiters

    def when(self, key: K) -> float:
        """Count one more failure in each limiter and return the longest delay."""
        return max(limiter.when(key) for limiter in self.limiters)

    def forget(self, key: K) -> None:
        """Reset the failure count of a key."""
        for limiter in self.limiters:
            limiter.forget(key)

    def failures(self, key: K) -> int:
        """Return the highest failure count of all limiters."""
        return max(limiter.failures(key) for limiter in self.limiters)
