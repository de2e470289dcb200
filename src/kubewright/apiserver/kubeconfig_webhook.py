"""`KubeconfigWebhook`: sends reviews to the URL of a kubeconfig file, with its certificates and credentials.

Authentication and authorization webhooks are configured this way: `server` of the kubeconfig is the complete
URL of the webhook, `user` the credentials of this server.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

if TYPE_CHECKING:
    from kubewright.client.config.cluster_config import ClusterConfig
    from kubewright.client.transport.http import HTTPTransport


class WebhookFailed(Exception):
    """The webhook could not be reached, or its response is not a review."""


class KubeconfigWebhook:
    """Posts JSON objects to one URL. The connection is opened with the first call."""

    def __init__(self, path: str | Path, *, timeout: float = 10.0) -> None:
        """Raises `ValueError` if the file is not a kubeconfig with a server."""
        from kubewright.client.config.cluster_config import load_config
        from kubewright.client.errors import ConfigError

        try:
            self._config: ClusterConfig = load_config(path)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        self._timeout = timeout
        self._transport: HTTPTransport | None = None

    async def review(self, review: dict[str, Any]) -> dict[str, Any]:
        """Send a review and return the completed one; raises `WebhookFailed`."""
        from kubewright.client.errors import ConfigError, ConnectionFailed, CredentialsError
        from kubewright.client.transport.http import HTTPTransport

        path = "" if urlsplit(self._config.server).path.strip("/") else "/"
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        try:
            if self._transport is None:
                self._transport = HTTPTransport(self._config)
            response = await self._transport.send(
                "POST", path, headers=headers, body=msgspec.json.encode(review), timeout=self._timeout
            )
        except (ConfigError, ConnectionFailed, CredentialsError, OSError, TimeoutError) as error:
            raise WebhookFailed(str(error) or type(error).__name__) from None
        if not 200 <= response.status < 300:
            raise WebhookFailed(f"the webhook at {self._config.server} returned {response.status}")
        try:
            completed = msgspec.json.decode(response.body)
        except msgspec.DecodeError as error:
            raise WebhookFailed(f"the webhook at {self._config.server} returned no JSON: {error}") from None
        if not isinstance(completed, dict) or not isinstance(completed.get("status"), dict):
            raise WebhookFailed(f"the webhook at {self._config.server} returned a review without status")
        return completed

    async def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            await self._transport.aclose()
            self._transport = None


__all__ = ["KubeconfigWebhook", "WebhookFailed"]
