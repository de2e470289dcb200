"""A token that a client sends on purpose counts for more than the certificate of its connection.

`kubectl --token` with a kubeconfig that also has a certificate then acts as the token's user, and a wrong
token is refused instead of being forgiven silently.
"""

from __future__ import annotations

from kubewright.apiserver.authentication import Authenticator
from kubewright.apiserver.authentication.tokens import bearer_token
from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.http.messages import HTTPRequest


class TokenlessAuthenticator:
    """Asks another authenticator about requests that carry no bearer token."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    async def authenticate(self, request: HTTPRequest) -> User | None:
        """The other's answer, or nothing."""
        if "Authorization" in request.headers and bearer_token(request):
            return None
        return await self._authenticator.authenticate(request)
