"""Delegated authentication: ask another API server (or a webhook) with a TokenReview.

`review` is an async function from a TokenReview to its answer: a client's `create`, or anything that posts
it. Answers are kept for ten seconds.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from kubewright.api.errors import APIError, InternalError, Unauthorized
from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.http.messages import HTTPRequest

from .tokens import bearer_token

Review = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class TokenReviewAuthenticator:
    """Users by TokenReview."""

    def __init__(
        self,
        review: Review,
        *,
        audiences: Sequence[str] = (),
        cache_seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.review = review
        self.audiences = list(audiences)
        self.cache_seconds = cache_seconds
        self.clock = clock
        self._known: dict[str, tuple[float, User | None]] = {}

    async def authenticate(self, request: HTTPRequest) -> User | None:
        """The user that the other server sees behind the token."""
        token = bearer_token(request)
        if not token:
            return None
        now = self.clock()
        known = self._known.get(token)
        if known is None or known[0] < now:
            if len(self._known) > 10_000:
                self._known.clear()
            known = self._known[token] = (now + self.cache_seconds, await self._ask(token))
        if known[1] is None:
            raise Unauthorized("Unauthorized")
        return known[1]

    async def _ask(self, token: str) -> User | None:
        spec: dict[str, Any] = {"token": token}
        if self.audiences:
            spec["audiences"] = self.audiences
        try:
            answer = await self.review(
                {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
            )
        except APIError:
            raise
        except Exception as error:
            raise InternalError(f"Internal error occurred: token review failed: {error}") from error
        status = answer.get("status") or {}
        if not status.get("authenticated"):
            return None
        if self.audiences and not set(self.audiences).intersection(status.get("audiences") or ()):
            # A server that knows nothing of audiences has looked at the token alone: it may be for another.
            return None
        return User.from_info(status.get("user") or {})
