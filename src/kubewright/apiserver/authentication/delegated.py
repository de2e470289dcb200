"""Delegated authentication: a TokenReview by another API server or a webhook.

`review` is an async function from a TokenReview to the completed one, such as a client's `create`. Results
are cached for ten seconds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from kubewright.api.errors import APIError, InternalError, Unauthorized
from kubewright.api.values.times import monotonic_time
from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.http.messages import HTTPRequest

from .tokens import bearer_token

Review = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class TokenReviewAuthenticator:
    """Authenticates bearer tokens by TokenReview."""

    def __init__(
        self,
        review: Review,
        *,
        audiences: Sequence[str] = (),
        cache_seconds: float = 10.0,
        clock: Callable[[], float] = monotonic_time,
    ) -> None:
        self.review = review
        self.audiences = list(audiences)
        self.cache_seconds = cache_seconds
        self.clock = clock
        self._known: dict[str, tuple[float, User | None]] = {}

    async def authenticate(self, request: HTTPRequest) -> User | None:
        """Return the user of the token."""
        token = bearer_token(request)
        return await self.user_of(token) if token else None

    async def user_of(self, token: str) -> User:
        """Return the user of a token; raises `Unauthorized`."""
        now = self.clock()
        known = self._known.get(token)
        if known is None or known[0] < now:
            if len(self._known) > 10_000:
                self._known.clear()
            known = self._known[token] = (now + self.cache_seconds, await self._review(token))
        if known[1] is None:
            raise Unauthorized("Unauthorized")
        return known[1]

    async def _review(self, token: str) -> User | None:
        spec: dict[str, Any] = {"token": token}
        if self.audiences:
            spec["audiences"] = self.audiences
        try:
            completed = await self.review(
                {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
            )
        except APIError:
            raise
        except Exception as error:
            raise InternalError(f"Internal error occurred: token review failed: {error}") from error
        status = completed.get("status") or {}
        if not status.get("authenticated"):
            return None
        if self.audiences and not set(self.audiences).intersection(status.get("audiences") or ()):
            # A reviewer without audience support did not check the audience of the token.
            return None
        return User.from_info(status.get("user") or {})
