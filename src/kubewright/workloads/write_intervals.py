"""Minimum time between two writes for the same object, so that a rollout of many pods causes few writes.

The first write after a pause is immediate; further ones wait until the interval since the last one has ended.
"""

from __future__ import annotations

import asyncio

from kubewright.controller import Request


class WriteIntervals:
    """The times of the last writes, by request."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._last: dict[Request, float] = {}

    def remaining(self, request: Request) -> float:
        """Return the seconds until the next write for this request is allowed; 0 if it is allowed now."""
        last = self._last.get(request)
        if last is None:
            return 0.0
        left = last + self.seconds - asyncio.get_running_loop().time()
        if left <= 0:
            del self._last[request]
        return max(left, 0.0)

    def record(self, request: Request) -> None:
        """Record a write."""
        now = asyncio.get_running_loop().time()
        self._last.pop(request, None)
        self._last[request] = now
        # Sorted by time: what is before the first write within the interval has no effect any more.
        while now - self._last[oldest := next(iter(self._last))] > self.seconds:
            del self._last[oldest]
