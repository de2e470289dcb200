"""Proof of identity that stays fresh: tokens that expire, files that rotate, plug-ins that mint them.

`Credentials` answers two questions for every request: which headers, and which TLS context. Both are cheap
when nothing changed. After a 401 the transport calls `renew()` once and tries again, so a token that was
revoked early costs one request, not an outage.
"""

from __future__ import annotations

import base64
import logging
import os
import ssl
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from multidict import CIMultiDict

from kubewright.client.errors import ConfigError, CredentialsError

from .cluster_config import ClusterConfig, Impersonation, PEMData
from .exec_plugin import ExecCredentials
from .oidc import OIDCToken

logger = logging.getLogger("kubewright.client")

TOKEN_FILE_PERIOD = 60.0
"""Seconds between reads of a token file; the kubelet rotates tokens long before they expire."""
FILE_CHECK_PERIOD = 5.0
"""Seconds between looks at certificate files."""


class TokenSource(Protocol):
    """Something that has a bearer token, now."""

    async def token(self) -> str:
        """The token to send; the empty string for none."""

    def invalidate(self) -> bool:
        """Drop what is cached after the server refused it; whether the next token may differ."""


class StaticToken:
    """A token that never changes."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        """The token."""
        return self._token

    def invalidate(self) -> bool:
        """It stays as it is."""
        return False


class TokenFile:
    """A token in a file that somebody else rotates; the last good one is kept while the file is away."""

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = Path(path)
        self._clock = clock
        self._token = ""
        self._read_at = float("-inf")

    async def token(self) -> str:
        """The token, at most a minute old."""
        now = self._clock()
        if now - self._read_at >= TOKEN_FILE_PERIOD:
            try:
                self._token = self._path.read_text().strip()
            except OSError as error:
                if not self._token:
                    raise CredentialsError(
                        f"token file {self._path} cannot be read: {error.strerror}"
                    ) from None
            self._read_at = now
        return self._token

    def invalidate(self) -> bool:
        """Read the file again for the next request."""
        self._read_at = float("-inf")
        return True


class Credentials:
    """The identity in a `ClusterConfig`, kept fresh."""

    def __init__(self, config: ClusterConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._exec = ExecCredentials(config) if config.exec is not None else None
        self._source = self._token_source()
        self._fixed = CIMultiDict([*_basic(config), *_impersonation(config.impersonation)])
        self._context: ssl.SSLContext | None = None
        self._stamp: tuple[object, ...] = ()
        self._checked_at = float("-inf")

    def _token_source(self) -> TokenSource | None:
        config = self._config
        if config.token:
            return StaticToken(config.token)
        if config.token_file:
            return TokenFile(config.token_file, self._clock)
        if self._exec is not None:
            return self._exec
        if config.oidc is not None:
            return OIDCToken(config.oidc)
        return None

    async def headers(self) -> CIMultiDict[str]:
        """Authorization and impersonation headers for one request; the caller may add to them."""
        headers = self._fixed.copy()
        if self._source is not None:
            token = await self._source.token()
            if token:
                headers["Authorization"] = f"Bearer {token}"
        return headers

    def invalidate(self) -> bool:
        """Forget what the server just refused; whether trying again makes sense."""
        self._checked_at = float("-inf")
        return self._source.invalidate() if self._source is not None else False

    async def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS context for new connections, made again when a certificate file or plug-in result changes.

        `None` for a plain http server.
        """
        config = self._config
        if not config.server.startswith("https://"):
            return None
        minted = await self._exec.certificate() if self._exec is not None else None
        now = self._clock()
        recent = now - self._checked_at < FILE_CHECK_PERIOD and self._stamp[-1:] == (minted,)
        if self._context is not None and recent:
            return self._context
        stamp = (_stamp(config.ca), _stamp(config.client_certificate), _stamp(config.client_key), minted)
        self._checked_at = now
        if self._context is None or stamp != self._stamp:
            try:
                self._context = make_context(config, minted)
                self._stamp = stamp
            except ConfigError as error:
                if self._context is None:
                    raise
                # Files are being replaced one by one: what was good stays so until they fit together.
                logger.warning("keeping the certificates in use: %s", error)
        return self._context


def make_context(config: ClusterConfig, minted: tuple[str, str] | None = None) -> ssl.SSLContext:
    """A TLS context from a configuration; `minted` is a certificate and key from a plug-in."""
    try:
        authorities = config.ca.read().decode() if config.ca is not None else None
        if authorities is not None and not authorities.strip():
            # The ssl module would trust every authority of the system instead.
            raise ValueError("it is empty")
        context = ssl.create_default_context(cadata=authorities)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{config.source}: the certificate authority is not valid PEM: {error}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Development CAs often lack the extensions that strict checking (a default of Python 3.13) demands.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if config.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if minted is not None:
        _load_pair(context, minted[0].encode(), minted[1].encode(), config.source)
    elif config.client_certificate is not None and config.client_key is not None:
        _load_pair(context, config.client_certificate.read(), config.client_key.read(), config.source)
    return context


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes, source: str) -> None:
    """OpenSSL reads pairs from files only: one that nobody else can read, gone at once."""
    handle, path = tempfile.mkstemp(prefix="kubewright-", suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(certificate.rstrip() + b"\n" + key)
        context.load_cert_chain(path)
    except ssl.SSLError as error:
        raise ConfigError(
            f"{source}: the client certificate and key do not fit together: {error.reason}"
        ) from None
    finally:
        os.unlink(path)


def _stamp(material: PEMData | None) -> object:
    """Changes when the material does: a Kubernetes volume swaps a link, others write in location."""
    if material is None or material.file is None:
        return None
    try:
        stat = os.stat(material.file)
    except OSError:
        return None
    return (stat.st_mtime_ns, stat.st_size, stat.st_ino)


def _basic(config: ClusterConfig) -> list[tuple[str, str]]:
    if not config.username:
        return []
    pair = base64.b64encode(f"{config.username}:{config.password}".encode()).decode()
    return [("Authorization", f"Basic {pair}")]


def _impersonation(who: Impersonation | None) -> list[tuple[str, str]]:
    if who is None:
        return []
    headers = [("Impersonate-User", who.user)] if who.user else []
    headers += [("Impersonate-Group", group) for group in who.groups]
    if who.uid:
        headers.append(("Impersonate-Uid", who.uid))
    for key, values in who.extra.items():
        headers += [(f"Impersonate-Extra-{quote(key, safe='')}", value) for value in values]
    return headers
