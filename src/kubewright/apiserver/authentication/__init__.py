"""Who sent a request: a chain of authenticators, asked in order.

An authenticator answers with a `User`, or `None` if the request carries nothing it understands; it raises
`Unauthorized` if the request carries credentials of its kind that are wrong. The chain is: front-proxy
headers, client certificate, bearer token, anonymous. A wrong bearer token never becomes anonymous.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kubewright.api.errors import Unauthorized
from kubewright.apiserver.authentication.user import AUTHENTICATED, User, anonymous
from kubewright.apiserver.http.messages import HTTPRequest


class Authenticator(Protocol):
    """One way of knowing who asks."""

    async def authenticate(self, request: HTTPRequest) -> User | None:
        """The user, or `None` for 'not mine'; raises `Unauthorized` for wrong credentials."""


class AnonymousAuthenticator:
    """Lets everybody in as `system:anonymous`; put it last."""

    def __init__(self) -> None:
        self._user = anonymous()

    async def authenticate(self, request: HTTPRequest) -> User | None:
        """Always the same nobody."""
        return self._user


class FixedUserAuthenticator:
    """Takes every request for the given user: servers without authentication, in tests."""

    def __init__(self, user: User) -> None:
        self._user = user

    async def authenticate(self, request: HTTPRequest) -> User | None:
        """Always this user."""
        return self._user


class AuthenticatorChain:
    """Asks one after the other. If none answers: anonymous where allowed, otherwise 401.

    One authenticator's `Unauthorized` is remembered while later ones are tried, so that a token that only a
    later one knows still works; but it is what the client gets if nobody does.
    """

    def __init__(self, authenticators: Sequence[Authenticator], *, allow_anonymous: bool = True) -> None:
        self.authenticators = list(authenticators)
        self.anonymous = anonymous() if allow_anonymous else None

    async def authenticate(self, request: HTTPRequest) -> User:
        """The user; raises `Unauthorized`."""
        failure: Unauthorized | None = None
        for authenticator in self.authenticators:
            try:
                user = await authenticator.authenticate(request)
            except Unauthorized as error:
                failure = error
                continue
            if user is not None:
                return user.with_group(AUTHENTICATED)
        if failure is None and self.anonymous is not None and "Authorization" not in request.headers:
            return self.anonymous
        raise Unauthorized("Unauthorized")


__all__ = ["AnonymousAuthenticator", "Authenticator", "AuthenticatorChain", "FixedUserAuthenticator"]
