"""`ExecCredentials`: credentials from an exec plug-in (`client.authentication.k8s.io` v1 and v1beta1).

The program receives `KUBERNETES_EXEC_INFO` and prints an `ExecCredential` with a token or a client
certificate, and an expiry. The result is used until it expires or the server rejects it; concurrent requests
share one run.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from kubewright.api.encoding import codec
from kubewright.api.values.times import parse_time
from kubewright.client.errors import CredentialsError

from .cluster_config import ClusterConfig, ExecPlugin

EARLY = timedelta(seconds=10)
"""How long before its expiry a credential is renewed."""
TIMEOUT = 60.0
"""Timeout of a plug-in without a terminal, in seconds."""
MAX_OUTPUT = 1 << 20


def _utc_now() -> datetime:
    return datetime.now(UTC)


class ExecCredentials:
    """Runs the plug-in when needed and caches its result."""

    def __init__(self, config: ClusterConfig, now: Callable[[], datetime] = _utc_now) -> None:
        assert config.exec is not None
        self._config = config
        self._plugin: ExecPlugin = config.exec
        self._now = now
        self._status: dict[str, Any] | None = None
        self._expires: datetime | None = None
        self._run: asyncio.Task[None] | None = None

    async def token(self) -> str:
        """Return the bearer token; empty if the plug-in provides certificates only."""
        return str((await self._current()).get("token") or "")

    async def certificate(self) -> tuple[str, str] | None:
        """Return the client certificate and key in PEM, if the plug-in provides them."""
        status = await self._current()
        certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
        if not certificate and not key:
            return None
        if not (certificate and key):
            raise self._failure("printed a client certificate without its key, or the reverse")
        return certificate, key

    def invalidate(self) -> bool:
        """Run the plug-in again for the next request."""
        self._status = None
        return True

    async def _current(self) -> dict[str, Any]:
        fresh = self._expires is None or self._now() < self._expires - EARLY
        if self._status is not None and fresh:
            return self._status
        if self._run is None or self._run.done():
            self._run = asyncio.create_task(self._execute())
        # A cancelled request must not cancel the run for the others.
        await asyncio.shield(self._run)
        assert self._status is not None
        return self._status

    def _failure(self, what: str) -> CredentialsError:
        hint = f"\n{self._plugin.install_hint.strip()}" if self._plugin.install_hint else ""
        return CredentialsError(f"{self._config.source}: exec plug-in {self._plugin.command!r} {what}{hint}")

    async def _execute(self) -> None:
        interactive = (
            self._plugin.interactive_mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
        )
        if self._plugin.interactive_mode == "Always" and not interactive:
            raise self._failure("requires a terminal (interactiveMode: Always)")
        environment = {**os.environ, **dict(self._plugin.env)}
        environment["KUBERNETES_EXEC_INFO"] = codec.encode(self._info(interactive)).decode()
        try:
            process = await asyncio.create_subprocess_exec(
                self._plugin.command,
                *self._plugin.args,
                env=environment,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=None,
            )
        except OSError as error:
            raise self._failure(f"could not be started: {error.strerror}") from None
        try:
            async with asyncio.timeout(None if interactive else TIMEOUT):
                output, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise self._failure(f"did not finish within {TIMEOUT:.0f} s") from None
        if process.returncode:
            raise self._failure(f"failed with exit code {process.returncode}")
        self._accept(output)

    def _info(self, interactive: bool) -> dict[str, Any]:
        spec: dict[str, Any] = {"interactive": interactive}
        if self._plugin.provide_cluster_info:
            config = self._config
            cluster: dict[str, Any] = {"server": config.server}
            if config.tls_server_name:
                cluster["tls-server-name"] = config.tls_server_name
            if config.insecure_skip_tls_verify:
                cluster["insecure-skip-tls-verify"] = True
            if config.ca is not None:
                cluster["certificate-authority-data"] = base64.b64encode(config.ca.read()).decode()
            if config.proxy_url:
                cluster["proxy-url"] = config.proxy_url
            if config.disable_compression:
                cluster["disable-compression"] = True
            if config.cluster_extension is not None:
                cluster["config"] = config.cluster_extension
            spec["cluster"] = cluster
        return {"kind": "ExecCredential", "apiVersion": self._plugin.api_version, "spec": spec}

    def _accept(self, output: bytes) -> None:
        if len(output) > MAX_OUTPUT:
            raise self._failure("printed more than 1 MiB")
        try:
            credential = codec.loads(output)
        except codec.DecodeError:
            raise self._failure("did not print JSON") from None
        if not isinstance(credential, dict) or credential.get("kind") != "ExecCredential":
            raise self._failure("did not print an ExecCredential")
        if credential.get("apiVersion") != self._plugin.api_version:
            raise self._failure(
                f"returned apiVersion {credential.get('apiVersion')!r}, not {self._plugin.api_version!r}"
            )
        status = credential.get("status")
        if not isinstance(status, dict) or not (status.get("token") or status.get("clientCertificateData")):
            raise self._failure("printed neither a token nor a client certificate")
        expires = status.get("expirationTimestamp")
        try:
            self._expires = parse_time(expires) if expires else None
        except ValueError:
            raise self._failure(f"printed an invalid expirationTimestamp: {expires!r}") from None
        self._status = status
