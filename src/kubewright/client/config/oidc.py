"""`OIDCToken`: ID tokens of an OpenID Connect provider, refreshed before they expire.

The kubeconfig has an id-token, a refresh-token and the issuer. A new ID token is only held in memory; the
kubeconfig is not changed.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

from kubewright.api.encoding import codec
from kubewright.api.values.times import wall_time
from kubewright.client.errors import ConfigError, CredentialsError
from kubewright.client.transport.interface import read_limited

from .cluster_config import PEMData

EARLY = 10.0
TIMEOUT = 30.0


class OIDCToken:
    """The ID token of an `oidc` auth provider."""

    def __init__(self, config: Mapping[str, str], clock: Callable[[], float] = wall_time) -> None:
        for key in ("idp-issuer-url", "client-id"):
            if not config.get(key):
                raise ConfigError(f"the oidc auth provider requires {key}")
        self._config = dict(config)
        self._clock = clock
        self._token = config.get("id-token", "")
        self._lock = asyncio.Lock()

    async def token(self) -> str:
        """Return a token that does not expire within the next seconds."""
        if self._token and self._clock() < _expiry(self._token) - EARLY:
            return self._token
        async with self._lock:
            if not self._token or self._clock() >= _expiry(self._token) - EARLY:
                self._token = await self._refresh()
        return self._token

    def invalidate(self) -> bool:
        """Refresh the token before the next request."""
        if not self._config.get("refresh-token"):
            return False
        self._token = ""
        return True

    async def _refresh(self) -> str:
        refresh = self._config.get("refresh-token")
        if not refresh:
            raise CredentialsError(
                "the id-token has expired and the kubeconfig has no refresh-token; log in again"
            )
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
                response_data = await _fetch(
                    session.post(str(discovery["token_endpoint"]), data=form, ssl=tls, allow_redirects=False)
                )
        except (aiohttp.ClientError, TimeoutError, KeyError, codec.DecodeError) as error:
            raise CredentialsError(f"cannot refresh the token at {issuer}: {error}") from None
        token = response_data.get("id_token")
        if not token:
            raise CredentialsError(f"{issuer} returned no id_token")
        if response_data.get("refresh_token"):
            self._config["refresh-token"] = response_data["refresh_token"]
        return str(token)


async def _fetch(request: Any) -> dict[str, Any]:
    async with request as response:
        response.raise_for_status()
        response_data = codec.loads(await read_limited(response.content.iter_any()))
        return response_data if isinstance(response_data, dict) else {}


def _tls(config: Mapping[str, str]) -> Any:
    import ssl

    data, file = config.get("idp-certificate-authority-data"), config.get("idp-certificate-authority")
    if not data and not file:
        return True
    pem = PEMData(data=base64.b64decode(data)) if data else PEMData(file=file)
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_verify_locations(cadata=pem.read().decode())
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"the certificate authority of the oidc provider is not valid PEM: {error}"
        ) from None
    return context


def _expiry(token: str) -> float:
    """Return the expiry of a JWT without verifying it; 0 if it cannot be decoded."""
    try:
        payload = token.split(".")[1]
        claims = codec.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError, binascii.Error):
        return 0.0
