"""Bearer tokens take precedence over client certificates.

`kubectl --token` with the kubeconfig of `kubewright up`, which has a certificate, acts as the token's user,
and an invalid token is rejected. In kube-apiserver a valid certificate takes precedence.
"""

from __future__ import annotations

from kubewright.apiserver.authentication import Authenticator
from kubewright.apiserver.authentication.tokens import bearer_token
from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.http.messages import HTTPRequest


class TokenlessAuthenticator:
    """Delegates requests without a bearer token to another authenticator."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    async def authenticate(self, request: HTTPRequest) -> User | None:
        """Return the user of a request without a token, or `None`."""
        if "Authorization" in request.headers and bearer_token(request):
            return None
        return await self._authenticator.authenticate(request)
