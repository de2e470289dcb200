"""Limits on what the requests of all users use at the same time, with a share for each user.

seats = FairLimit()
with seats.hold("ada", limit=400):
    ...
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kubewright.api.errors import TooManyRequests


class FairLimit:
    """Counts what is in use. One user can use at most three quarters of a limit; the rest is for others."""

    __slots__ = ("_by_user", "total")

    def __init__(self) -> None:
        self.total = 0
        self._by_user: dict[str, int] = {}

    def acquire(self, user: str, amount: int = 1, *, limit: int) -> None:
        """Count an amount; raises `TooManyRequests` above the limit (0: none) or the user's share."""
        held = self._by_user.get(user, 0)
        if limit and (self.total + amount > limit or held + amount > limit - limit // 4):
            raise too_many_requests()
        self.total += amount
        self._by_user[user] = held + amount

    def release(self, user: str, amount: int = 1) -> None:
        """Return an amount that was acquired."""
        self.total -= amount
        held = self._by_user[user] - amount
        if held:
            self._by_user[user] = held
        else:
            del self._by_user[user]

    @contextmanager
    def hold(self, user: str, amount: int = 1, *, limit: int) -> Iterator[None]:
        """Acquire an amount for the duration of a block."""
        self.acquire(user, amount, limit=limit)
        try:
            yield
        finally:
            self.release(user, amount)


def too_many_requests() -> TooManyRequests:
    """Return the 429 that asks the client to retry after one second."""
    error = TooManyRequests("Too many requests, please try again later.", details={"retryAfterSeconds": 1})
    error.headers["Retry-After"] = "1"
    return error
