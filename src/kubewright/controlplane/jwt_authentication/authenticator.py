"""`JWTAuthenticator`: users by JSON web tokens of one issuer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from kubewright.api.errors import Unauthorized
from kubewright.apiserver.authentication.tokens import bearer_token
from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.http.messages import HTTPRequest

from .claims import ClaimError, ClaimMapping
from .issuer_keys import IssuerKeys

logger = logging.getLogger("kubewright.controlplane")

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512")
"""Algorithms of signatures, all of them asymmetric."""


class JWTAuthenticator:
    """Authenticates tokens of an issuer for some audiences."""

    def __init__(
        self,
        keys: IssuerKeys,
        audiences: Sequence[str],
        mapping: ClaimMapping,
        algorithms: Sequence[str] = ALGORITHMS,
    ) -> None:
        self.issuer = keys.issuer
        self._algorithms = list(algorithms)
        self._keys = keys
        self._audiences = list(audiences)
        self._mapping = mapping

    async def load_keys(self) -> None:
        """Fetch the keys of the issuer before the first token; raises `KeysUnavailable`."""
        await self._keys.load()

    async def authenticate(self, request: HTTPRequest) -> User | None:
        """Return the user of the bearer token, `None` if it is of another issuer."""
        token = bearer_token(request)
        return await self.user_of(token) if token.count(".") == 2 else None

    async def user_of(self, token: str) -> User | None:
        """Return the user of a token, `None` if it is of another issuer; raises `Unauthorized`."""
        import jwt

        try:
            header = jwt.get_unverified_header(token)
            unverified = jwt.decode(token, options={"verify_signature": False})
        except (jwt.PyJWTError, RecursionError, ValueError):
            return None
        if unverified.get("iss") != self.issuer:
            return None
        try:
            return self._mapping.user(await self._verify(token, str(header.get("kid") or "")))
        except (ClaimError, jwt.PyJWTError) as error:
            logger.warning("rejected token", extra={"issuer": self.issuer, "error": str(error)})
            raise Unauthorized("Unauthorized") from None

    async def _verify(self, token: str, key_id: str) -> dict[str, Any]:
        import jwt

        for key in await self._keys.get(key_id):
            try:
                claims: dict[str, Any] = jwt.decode(
                    token,
                    key.key,
                    algorithms=self._algorithms,
                    audience=self._audiences,
                    issuer=self.issuer,
                    options={"require": ["exp", "iss", "aud"]},
                )
            except (jwt.InvalidSignatureError, jwt.InvalidKeyError, TypeError):
                continue
            return claims
        raise ClaimError("no key of the issuer verifies the signature")
