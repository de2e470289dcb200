"""Authentication: a chain of authenticators, called in order.

An authenticator returns a `User`, or `None` if the request has no credentials of its type; it raises
`Unauthorized` for invalid credentials. The usual order is front-proxy headers, client certificate, bearer
token, anonymous. An invalid bearer token is never treated as anonymous; other Authorization headers are
ignored, as in kube-apiserver.

- `delegated`: delegated authentication: a TokenReview by another API server or a webhook
- `impersonation`: requests on behalf of another user
- `requestheader`: front-proxy authentication: an aggregator names the user in request headers
- `serviceaccount`: service account tokens: JSON web tokens signed by the cluster
- `tokens`: bearer tokens of requests, and a static table of tokens
- `user`: name, groups, uid and extra attributes
- `x509`: client certificates: the common name is the user, the organizations are the groups
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kubewright.api.errors import Unauthorized
from kubewright.apiserver.authentication.user import AUTHENTICATED, User, anonymous
from kubewright.apiserver.http.messages import HTTPRequest
from kubewright.apiserver.resources.stored_objects import UndecodableObject

from .tokens import bearer_token


class Authenticator(Protocol):
    """Identifies the user of a request."""

    async def authenticate(self, request: HTTPRequest) -> User | None:
        """Return the user, or `None` without credentials of this type; raises `Unauthorized` for invalid
        ones."""


class TokenAuthenticator(Authenticator, Protocol):
    """Identifies the user of a bearer token."""

    async def user_of(self, token: str) -> User | None:
        """Return the user, or `None` for tokens of another type; raises `Unauthorized` for invalid ones."""


class AnonymousAuthenticator:
    """Authenticates every request as `system:anonymous`; use it last."""

    def __init__(self) -> None:
        self._user = anonymous()

    async def authenticate(self, request: HTTPRequest) -> User | None:
        """Return `system:anonymous`."""
        return self._user


class FixedUserAuthenticator:
    """Authenticates every request as one user: for tests."""

    def __init__(self, user: User) -> None:
        self._user = user

    async def authenticate(self, request: HTTPRequest) -> User | None:
        """Return the user."""
        return self._user


class AuthenticatorChain:
    """Calls authenticators in order; without a user, the request is anonymous if allowed, otherwise 401.

    After one authenticator raises `Unauthorized`, later ones are still called, so that a token that only a
    later one knows is accepted; if none accepts it, the response is 401. `anonymous_paths`, if given, are the
    only paths of anonymous requests.
    """

    def __init__(
        self,
        authenticators: Sequence[Authenticator],
        *,
        allow_anonymous: bool = True,
        anonymous_paths: frozenset[str] = frozenset(),
    ) -> None:
        self.authenticators = list(authenticators)
        self.anonymous = anonymous() if allow_anonymous else None
        self.anonymous_paths = anonymous_paths

    async def authenticate(self, request: HTTPRequest) -> User:
        """Return the user; raises `Unauthorized`."""
        failure: Unauthorized | None = None
        for authenticator in self.authenticators:
            try:
                user = await authenticator.authenticate(request)
            except Unauthorized as error:
                failure = error
                continue
            except UndecodableObject:
                # The token or account cannot be read; the response does not name it.
                failure = Unauthorized("Unauthorized")
                continue
            if user is not None:
                return user.with_group(AUTHENTICATED)
        if failure is None and self.anonymous is not None and self._allows_anonymous(request):
            return self.anonymous
        raise Unauthorized("Unauthorized")

    def _allows_anonymous(self, request: HTTPRequest) -> bool:
        if bearer_token(request):
            return False
        return not self.anonymous_paths or request.path in self.anonymous_paths
