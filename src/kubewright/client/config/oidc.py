"""Tokens of an OpenID Connect provider, refreshed shortly before they expire.

The kubeconfig holds an id-token, a refresh-token and where the issuer is. The new id-token is kept in memory;
the kubeconfig is not rewritten, since other programs may be reading it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from collections.abc import Callable, Mapping
from typing import Any

from kubewright.api import codec
from kubewright.client.errors import ConfigError, CredentialsError
from kubewright.client.transport.interface import read_limited

from .cluster_config import PEMData

EARLY = 10.0
TIMEOUT = 30.0


class OIDCToken:
    """The id-token of an `oidc` auth provider."""

    def __init__(self, config: Mapping[str, str], clock: Callable[[], float] = time.time) -> None:
        for key in ("idp-issuer-url", "client-id"):
            if not config.get(key):
                raise ConfigError(f"the oidc auth provider needs {key}")
        self._config = dict(config)
        self._clock = clock
        self._token = config.get("id-token", "")
        self._lock = asyncio.Lock()

    async def token(self) -> str:
        """A token that is good for a while yet."""
        if self._token and self._clock() < _expiry(self._token) - EARLY:
            return self._token
        async with self._lock:
            if not self._token or self._clock() >= _expiry(self._token) - EARLY:
                self._token = await self._refresh()
        return self._token

    def invalidate(self) -> bool:
        """Refresh before the next request."""
        if not self._config.get("refresh-token"):
            return False
        self._token = ""
        return True

    async def _refresh(self) -> str:
        refresh = self._config.get("refresh-token")
        if not refresh:
            raise CredentialsError("the id-token has expired and there is no refresh-token; log in again")
        import aiohttp

        issuer = self._config["idp-issuer-url"].rstrip("/")
        form = {
            "grant_type": "refresh_token",
            "refresh_token": refresh,
            "client_id": self._config["client-id"],
            "client_secret": self._config.get("client-secret", ""),
        }
        timeout = aiohttp.ClientTimeout(total=TIMEOUT)
        try:
            async with aiohttp.ClientSession(timeout=timeout, trust_env=True) as session:
                tls = _tls(self._config)
                discovery = await _fetch(session.get(f"{issuer}/.well-known/openid-configuration", ssl=tls))
                answer = await _fetch(
                    session.post(str(discovery["token_endpoint"]), data=form, ssl=tls, allow_redirects=False)
                )
        except (aiohttp.ClientError, TimeoutError, KeyError, codec.DecodeError) as error:
            raise CredentialsError(f"the token could not be refreshed at {issuer}: {error}") from None
        token = answer.get("id_token")
        if not token:
            raise CredentialsError(f"{issuer} answered the refresh without an id_token")
        if answer.get("refresh_token"):
            self._config["refresh-token"] = answer["refresh_token"]
        return str(token)


async def _fetch(request: Any) -> dict[str, Any]:
    async with request as response:
        response.raise_for_status()
        answer = codec.loads(await read_limited(response.content.iter_any()))
        return answer if isinstance(answer, dict) else {}


def _tls(config: Mapping[str, str]) -> Any:
    import ssl

    data, file = config.get("idp-certificate-authority-data"), config.get("idp-certificate-authority")
    if not data and not file:
        return True
    material = PEMData(data=base64.b64decode(data)) if data else PEMData(file=file)
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_verify_locations(cadata=material.read().decode())
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"the certificate authority of the oidc provider is not PEM: {error}") from None
    return context


def _expiry(token: str) -> float:
    """When a JWT expires; the server verifies it, this side only wants to know when to ask for another."""
    try:
        payload = token.split(".")[1]
        claims = codec.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError, binascii.Error):
        return 0.0
