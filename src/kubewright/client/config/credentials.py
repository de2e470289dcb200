"""`Credentials`: request headers and TLS contexts, renewed when tokens expire and files are rotated.

Both are cheap when nothing has changed. After a 401 the transport calls `renew()` once and retries, so a
token that was revoked early costs one request.
"""

from __future__ import annotations

import base64
import logging
import os
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from multidict import CIMultiDict

from kubewright.api.values.times import monotonic_time
from kubewright.client.errors import ConfigError, CredentialsError
from kubewright.client.transport.headers import escape_key

from .cluster_config import ClusterConfig, Impersonation, PEMData
from .exec_plugin import ExecCredentials
from .oidc import OIDCToken

logger = logging.getLogger("kubewright.client")

TOKEN_FILE_PERIOD = 60.0
"""Seconds between reads of a token file; the kubelet rotates tokens long before they expire."""
FILE_CHECK_PERIOD = 5.0
"""Seconds between checks of certificate files."""


class TokenSource(Protocol):
    """A source of bearer tokens."""

    async def token(self) -> str:
        """Return the token to send; empty for none."""

    def invalidate(self) -> bool:
        """Discard a token that the server rejected; return whether the next one can differ."""


class StaticToken:
    """A token that never changes."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        """Return the token."""
        return self._token

    def invalidate(self) -> bool:
        """Return False: the token cannot change."""
        return False


class TokenFile:
    """A token in a file that is rotated; the last token is used while the file is missing."""

    def __init__(self, path: str, clock: Callable[[], float] = monotonic_time) -> None:
        self._path = Path(path)
        self._clock = clock
        self._token = ""
        self._read_at = float("-inf")

    async def token(self) -> str:
        """Return the token, read at most a minute ago."""
        now = self._clock()
        if now - self._read_at >= TOKEN_FILE_PERIOD:
            try:
                self._token = self._path.read_text().strip()
            except OSError as error:
                if not self._token:
                    raise CredentialsError(f"cannot read token file {self._path}: {error.strerror}") from None
            self._read_at = now
        return self._token

    def invalidate(self) -> bool:
        """Read the file again for the next request."""
        self._read_at = float("-inf")
        return True


class Credentials:
    """The credentials of a `ClusterConfig`, renewed when they change."""

    def __init__(self, config: ClusterConfig, clock: Callable[[], float] = monotonic_time) -> None:
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
        """Return authorization and impersonation headers for one request; the caller can add to them."""
        headers = self._fixed.copy()
        if self._source is not None:
            token = await self._source.token()
            if token:
                headers["Authorization"] = f"Bearer {token}"
        return headers

    def invalidate(self) -> bool:
        """Discard credentials that the server rejected; return whether a retry can succeed."""
        self._checked_at = float("-inf")
        return self._source.invalidate() if self._source is not None else False

    async def ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS context, renewed when a certificate changes; `None` for an http server."""
        config = self._config
        if not config.server.startswith("https://"):
            return None
        plugin_certificate = await self._exec.certificate() if self._exec is not None else None
        now = self._clock()
        recent = now - self._checked_at < FILE_CHECK_PERIOD and self._stamp[-1:] == (plugin_certificate,)
        if self._context is not None and recent:
            return self._context
        stamp = (
            _stamp(config.ca),
            _stamp(config.client_certificate),
            _stamp(config.client_key),
            plugin_certificate,
        )
        self._checked_at = now
        if self._context is None or stamp != self._stamp:
            try:
                self._context = make_context(config, plugin_certificate)
                self._stamp = stamp
            except ConfigError as error:
                if self._context is None:
                    raise
                # Files are replaced one by one; use the previous context until they match.
                logger.warning("certificates not reloaded", extra={"error": str(error)})
        return self._context


def make_context(config: ClusterConfig, plugin_certificate: tuple[str, str] | None = None) -> ssl.SSLContext:
    """Return a TLS context; `plugin_certificate` is a certificate and key from an exec plug-in."""
    try:
        authorities = config.ca.read().decode() if config.ca is not None else None
        if authorities is not None and not authorities.strip():
            # The ssl module would trust the CAs of the system instead.
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
    if plugin_certificate is not None:
        _load_pair(context, plugin_certificate[0].encode(), plugin_certificate[1].encode(), config.source)
    elif config.client_certificate is not None and config.client_key is not None:
        _load_pair(context, config.client_certificate.read(), config.client_key.read(), config.source)
    return context


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes, source: str) -> None:
    """Load a certificate and key through a temporary private file; OpenSSL only reads files."""
    handle, path = tempfile.mkstemp(prefix="kubewright-", suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(certificate.rstrip() + b"\n" + key)
        context.load_cert_chain(path)
    except ssl.SSLError as error:
        raise ConfigError(f"{source}: the client certificate and key do not match: {error.reason}") from None
    finally:
        os.unlink(path)


def _stamp(pem: PEMData | None) -> object:
    """Return a value that changes with the file, whether it is rewritten or its link is replaced."""
    if pem is None or pem.file is None:
        return None
    try:
        stat = os.stat(pem.file)
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
        headers += [(f"Impersonate-Extra-{escape_key(key)}", value) for value in values]
    return headers
