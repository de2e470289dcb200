"""The public keys of a token issuer.

The discovery document (`URL/.well-known/openid-configuration`) names the issuer and the address of its keys.
Keys are fetched when the first token arrives, and again when a token names an unknown key, at most once a
second.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kubewright.api.values.times import monotonic_time

if TYPE_CHECKING:
    import jwt

logger = logging.getLogger("kubewright.controlplane")

_TIMEOUT: Final = 10.0
_RETRY_SECONDS: Final = 1.0
_MAX_BYTES: Final = 1024 * 1024
_ALGORITHM_PREFIXES: Final = ("RS", "ES", "PS")


class KeysUnavailable(Exception):
    """The keys of an issuer could not be fetched."""


class IssuerKeys:
    """The keys of one issuer, by key ID."""

    def __init__(
        self,
        issuer: str,
        *,
        discovery_url: str = "",
        authority: str = "",
        clock: Callable[[], float] = monotonic_time,
    ) -> None:
        """`authority`: CA bundle (PEM) of the issuer's server; the system's authorities by default."""
        self.issuer = issuer
        self._discovery_url = discovery_url or issuer.rstrip("/") + "/.well-known/openid-configuration"
        self._tls = ssl.create_default_context(cadata=authority or None)
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self._clock = clock
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._next_fetch = 0.0
        self._lock = asyncio.Lock()

    async def get(self, key_id: str) -> list[jwt.PyJWK]:
        """Return the key of an ID, or all keys for a token without one; an empty list if it is unknown."""
        found = self._find(key_id)
        if not found:
            async with self._lock:
                found = self._find(key_id)
                if not found and self._clock() >= self._next_fetch:
                    try:
                        await self.load()
                    except KeysUnavailable as error:
                        logger.error(
                            "keys of the token issuer are not available",
                            extra={"issuer": self.issuer, "error": str(error)},
                        )
                    self._next_fetch = self._clock() + _RETRY_SECONDS
                    found = self._find(key_id)
        return found

    def _find(self, key_id: str) -> list[jwt.PyJWK]:
        if not key_id:
            return list(self._keys.values())
        return [self._keys[key_id]] if key_id in self._keys else []

    async def load(self) -> None:
        """Fetch the keys; raises `KeysUnavailable`."""
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=_TIMEOUT)
        try:
            async with aiohttp.ClientSession(timeout=timeout, trust_env=True) as session:
                document = await self._get(session, self._discovery_url)
                if document.get("issuer") != self.issuer:
                    raise ValueError(f"the discovery document is of the issuer {document.get('issuer')!r}")
                keys = await self._get(session, str(document.get("jwks_uri") or ""))
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise KeysUnavailable(f"{self.issuer}: {str(error) or type(error).__name__}") from None
        self._keys = _signing_keys(keys)

    async def _get(self, session: Any, url: str) -> dict[str, Any]:
        async with session.get(url, ssl=self._tls) as response:
            response.raise_for_status()
            body = await response.content.read(_MAX_BYTES + 1)
        if len(body) > _MAX_BYTES:
            raise ValueError(f"{url} has more than {_MAX_BYTES} bytes")
        try:
            document = msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            raise ValueError(f"{url} is not JSON: {error}") from None
        if not isinstance(document, dict):
            raise ValueError(f"{url} is not a JSON object")
        return document


def _signing_keys(document: dict[str, Any]) -> dict[str, jwt.PyJWK]:
    """Return the keys of a key set that sign with a supported algorithm."""
    import jwt

    found: dict[str, jwt.PyJWK] = {}
    for index, each in enumerate(document.get("keys") or ()):
        if not isinstance(each, dict) or each.get("use", "sig") != "sig":
            continue
        try:
            key = jwt.PyJWK.from_dict(each)
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        if key.algorithm_name.startswith(_ALGORITHM_PREFIXES):
            found[key.key_id or f"#{index}"] = key
    return found
