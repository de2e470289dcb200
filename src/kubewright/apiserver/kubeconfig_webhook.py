"""`KubeconfigWebhook`: posts JSON to the URL of a kubeconfig file, with its certificates and credentials.

Authentication, authorization and audit webhooks are configured this way: `server` of the kubeconfig is the
complete URL of the webhook, `user` the credentials of this server.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

if TYPE_CHECKING:
    from kubewright.client.config.cluster_config import ClusterConfig
    from kubewright.client.transport.http import HTTPTransport

_HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}


class WebhookFailed(Exception):
    """The webhook could not be reached, or its response is not a review."""


class WebhookResponse(NamedTuple):
    """Status and body of a response."""

    status: int
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


class KubeconfigWebhook:
    """Posts JSON to one URL. The connection is opened with the first call."""

    def __init__(self, path: str | Path, *, timeout: float = 10.0) -> None:
        """Raises `ValueError` if the file is not a kubeconfig with a server."""
        from kubewright.client.config.cluster_config import load_config
        from kubewright.client.errors import ConfigError

        try:
            self._config: ClusterConfig = load_config(path)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        self._path = "" if urlsplit(self._config.server).path.strip("/") else "/"
        self._timeout = timeout
        self._transport: HTTPTransport | None = None

    def connect(self) -> HTTPTransport:
        """Return the connection pool; raises `ValueError` if a certificate or key is not valid."""
        from kubewright.client.errors import ConfigError
        from kubewright.client.transport.http import HTTPTransport

        if self._transport is None:
            try:
                self._transport = HTTPTransport(self._config)
            except ConfigError as error:
                raise ValueError(str(error)) from None
        return self._transport

    async def post(self, body: bytes) -> WebhookResponse:
        """Send a body and return the response, whatever its status; raises `WebhookFailed` without one."""
        from kubewright.client.errors import ConnectionFailed, CredentialsError

        try:
            transport = self.connect()
        except ValueError as error:
            raise WebhookFailed(str(error)) from None
        try:
            response = await transport.send(
                "POST", self._path, headers=_HEADERS, body=body, timeout=self._timeout
            )
        except (ConnectionFailed, CredentialsError, OSError, TimeoutError) as error:
            raise WebhookFailed(str(error) or type(error).__name__) from None
        return WebhookResponse(response.status, response.body)

    async def review(self, review: dict[str, Any]) -> dict[str, Any]:
        """Send a review and return the completed one; raises `WebhookFailed`."""
        response = await self.post(msgspec.json.encode(review))
        server = self._config.server
        if not response.is_success:
            raise WebhookFailed(f"the webhook at {server} returned {response.status}")
        try:
            completed = msgspec.json.decode(response.body)
        except msgspec.DecodeError as error:
            raise WebhookFailed(f"the webhook at {server} returned no JSON: {error}") from None
        if not isinstance(completed, dict) or not isinstance(completed.get("status"), dict):
            raise WebhookFailed(f"the webhook at {server} returned a review without status")
        return completed

    async def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            await self._transport.aclose()
            self._transport = None
