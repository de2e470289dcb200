"""`Backoff`: delays that double with each failure in a row, with jitter."""

from __future__ import annotations

import random


class Backoff:
    """Exponential backoff from `initial` to `maximum` seconds.

    Each delay is extended by a random part of up to `jitter` times itself. The sequence starts again after
    `reset()`, or when the last delay ended more than `reset_after` seconds before the next failure.
    """

    def __init__(
        self,
        *,
        initial: float = 0.8,
        maximum: float = 30.0,
        reset_after: float = 120.0,
        jitter: float = 1.0,
        rng: random.Random | None = None,
    ) -> None:
        self.initial = initial
        self.maximum = maximum
        self.reset_after = reset_after
        self.jitter = jitter
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._delay = initial
        self._ends_at = float("-inf")

    def next_delay(self, now: float) -> float:
        """Return the delay after a failure at time `now`."""
        if now - self._ends_at > self.reset_after:
            self._delay = self.initial
        delay = self._delay * (1 + self._rng.random() * self.jitter)
        self._delay = min(self._delay * 2, self.maximum)
        self._ends_at = now + delay
        return delay

    def reset(self) -> None:
        """Start with the initial delay again."""
        self._delay = self.initial
