"""`RetryPolicy`: how often and after which delay a request is repeated."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Limits and delays of retries; delays double per attempt, up to `max_delay`, plus jitter."""

    retry_after_attempts: int = 10
    """Retries of responses with a `Retry-After` header."""
    transient_attempts: int = 4
    """Retries of connection failures and of transient responses without `Retry-After`."""
    initial_delay: float = 0.25
    max_delay: float = 30.0
    jitter: float = 0.5

    def delay(self, attempt: int, retry_after: float | None, rng: random.Random) -> float:
        """Return the seconds before the next attempt: `Retry-After` if given, else exponential backoff."""
        seconds = self.initial_delay * 2.0**attempt if retry_after is None else retry_after
        return min(seconds, self.max_delay) * (1 + self.jitter * rng.random())
