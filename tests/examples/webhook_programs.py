"""Running the endpoints of a webhook example over TLS, and posting to them as an API server does."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from kubewright.webhook import SelfSignedCertificates, WebhookServer


@dataclass
class RunningWebhooks:
    """A server on a free port, and its CA."""

    url: str
    ca_bundle: bytes

    @property
    def context(self) -> ssl.SSLContext:
        """TLS context of a client that trusts the CA."""
        return ssl.create_default_context(cadata=self.ca_bundle.decode())

    def write_kubeconfig(self, path: Path, endpoint: str) -> Path:
        """Write the file with which an API server is configured to call an endpoint."""
        ca = base64.b64encode(self.ca_bundle).decode()
        cluster = {"server": self.url + endpoint, "certificate-authority-data": ca}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "webhook", "cluster": cluster}],
            "contexts": [{"name": "webhook", "context": {"cluster": "webhook", "user": ""}}],
            "current-context": "webhook",
        }
        path.write_text(json.dumps(config))
        return path

    def post(self, path: str) -> Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]:
        """Return a function that posts a review and returns the response."""

        async def send(body: dict[str, Any]) -> dict[str, Any]:
            async with aiohttp.ClientSession() as session:
                response = await session.post(self.url + path, json=body, ssl=self.context)
                assert response.status == 200, await response.text()
                completed: dict[str, Any] = json.loads(await response.read())
                return completed

        return send


@asynccontextmanager
async def running_webhooks(add_endpoints: Callable[[WebhookServer], None]) -> AsyncIterator[RunningWebhooks]:
    """Serve endpoints until the block ends."""
    certificates = SelfSignedCertificates()
    server = WebhookServer(certificates, host="127.0.0.1", port=0)
    add_endpoints(server)
    stop = asyncio.Event()
    task = asyncio.create_task(server.run(stop))
    await server.wait_until_started()
    try:
        yield RunningWebhooks(f"https://127.0.0.1:{server.port}", certificates.ca_bundle)
    finally:
        stop.set()
        await task
