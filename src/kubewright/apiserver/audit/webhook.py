"""Sends audit events to a webhook: `EventList` objects, to the server of a kubeconfig."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from .event import API_VERSION, AuditEvent

if TYPE_CHECKING:
    from kubewright.client.transport.http import HTTPTransport

logger = logging.getLogger("kubewright.apiserver.audit")

ATTEMPTS: Final = 5
_FACTOR: Final = 1.5
_JITTER: Final = 0.2
_TIMEOUT: Final = 30.0
_HEAD = f'{{"kind":"EventList","apiVersion":"{API_VERSION}","metadata":{{}},"items":['.encode()


class WebhookBackend:
    """Posts events to the URL in a kubeconfig, with its credentials; repeats failed requests.

    Connection errors, 429 and 5xx are repeated up to 5 times, with increasing delays.
    """

    name = "webhook"

    def __init__(self, config_file: str | Path, *, initial_backoff: float = 10.0) -> None:
        """Raises `ValueError` if the file is not a kubeconfig with a server."""
        from kubewright.client.config.cluster_config import load_config
        from kubewright.client.errors import ConfigError

        try:
            self._config = load_config(config_file)
        except ConfigError as error:
            raise ValueError(f"audit webhook config: {error}") from None
        self._initial_backoff = initial_backoff
        self._transport: HTTPTransport | None = None

    async def start(self) -> None:
        """Create the connection pool; nothing is sent."""
        from kubewright.client.errors import ConfigError
        from kubewright.client.transport.http import HTTPTransport

        try:
            self._transport = HTTPTransport(self._config)
        except ConfigError as error:
            raise ValueError(f"audit webhook config: {error}") from None

    async def stop(self) -> None:
        """Close the connections."""
        if self._transport is not None:
            await self._transport.aclose()
            self._transport = None

    async def process(self, events: Sequence[AuditEvent]) -> bool:
        """Send events as one list; false if the webhook did not accept them."""
        body = _HEAD + b",".join(event.encode() for event in events) + b"]}"
        delay, problem = self._initial_backoff, ""
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(delay * (1 + random.random() * _JITTER))  # noqa: S311 - jitter
                delay *= _FACTOR
            status, problem = await self._post(body)
            if 200 <= status < 300:
                return True
            if 300 <= status < 500 and status != 429:
                break
        logger.error("audit webhook failed", extra={"events": len(events), "error": problem})
        return False

    async def _post(self, body: bytes) -> tuple[int, str]:
        """Send a body; return the status, 0 without a response, and the error."""
        from kubewright.client.errors import ConnectionFailed, CredentialsError

        assert self._transport is not None
        path = "" if urlsplit(self._config.server).path.strip("/") else "/"
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        try:
            response = await self._transport.send("POST", path, headers=headers, body=body, timeout=_TIMEOUT)
        except (ConnectionFailed, CredentialsError, OSError, TimeoutError) as error:
            return 0, str(error) or type(error).__name__
        return response.status, f"{response.status} {response.body[:200].decode(errors='replace')}".strip()
