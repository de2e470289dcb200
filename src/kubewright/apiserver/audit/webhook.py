"""Sends audit events to a webhook: `EventList` objects, to the server of a kubeconfig."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kubewright.apiserver.kubeconfig_webhook import KubeconfigWebhook, WebhookFailed

from .event import API_VERSION, AuditEvent

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
        try:
            self._webhook = KubeconfigWebhook(config_file, timeout=_TIMEOUT)
        except ValueError as error:
            raise ValueError(f"audit webhook config: {error}") from None
        self._initial_backoff = initial_backoff

    async def start(self) -> None:
        """Create the connection pool; nothing is sent."""
        try:
            self._webhook.connect()
        except ValueError as error:
            raise ValueError(f"audit webhook config: {error}") from None

    async def stop(self) -> None:
        """Close the connections."""
        await self._webhook.close()

    async def process(self, events: Sequence[AuditEvent]) -> bool:
        """Send events as one list; false if the webhook did not accept them."""
        body = _HEAD + b",".join(event.encode() for event in events) + b"]}"
        delay, problem = self._initial_backoff, ""
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(delay * (1 + random.random() * _JITTER))  # noqa: S311 - jitter
                delay *= _FACTOR
            try:
                response = await self._webhook.post(body)
            except WebhookFailed as error:
                problem = str(error)
                continue
            if response.is_success:
                return True
            problem = f"{response.status} {response.body[:200].decode(errors='replace')}".strip()
            if 300 <= response.status < 500 and response.status != 429:
                break
        logger.error("audit webhook failed", extra={"events": len(events), "error": problem})
        return False
