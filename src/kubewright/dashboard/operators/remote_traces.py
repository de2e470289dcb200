"""`RemoteTraces`: reads the spans of an operator in another process from its trace endpoint."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, Final

from kubewright.api.encoding.codec import DecodeError, loads
from kubewright.api.errors import APIError
from kubewright.client.backoff import Backoff
from kubewright.client.errors import ConnectionFailed
from kubewright.dashboard.server import DashboardError

from .operator_endpoint import OperatorEndpoint
from .traces import TraceStore

logger = logging.getLogger(__name__)

MAX_LINE: Final = 8 << 20
CONNECT_SECONDS: Final = 10.0


class RemoteTraces:
    """Fills a trace store from `/traces` of an operator, and reconnects when the connection ends."""

    def __init__(
        self, store: TraceStore, endpoint: OperatorEndpoint, token: str, *, backoff: Backoff | None = None
    ) -> None:
        if not token:
            raise DashboardError(
                f"--operator {endpoint} requires the token of the operator; set KUBEWRIGHT_TRACE_TOKEN or "
                "--operator-token-file"
            )
        self._store = store
        self._endpoint = endpoint
        self._token = token
        self._backoff = backoff or Backoff(initial=0.5, maximum=10.0)
        store.message = f"not connected to the operator {endpoint} yet"

    async def run(self, stop: asyncio.Event) -> None:
        """Read until `stop` is set."""
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=30.0)
        async with aiohttp.ClientSession(timeout=timeout, read_bufsize=MAX_LINE) as session:
            while not stop.is_set():
                try:
                    async with self._endpoint.open() as url:
                        await self._read(session, url)
                    self._disconnect("the operator closed the connection")
                except (
                    aiohttp.ClientError,
                    APIError,
                    ConnectionFailed,
                    DecodeError,
                    OSError,
                    TimeoutError,
                    ValueError,
                ) as error:
                    self._disconnect(str(error) or type(error).__name__)
                delay = self._backoff.next_delay(asyncio.get_running_loop().time())
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(delay):
                        await stop.wait()

    async def _read(self, session: Any, url: str) -> None:
        headers = {"Authorization": f"Bearer {self._token}"}
        async with session.get(f"{url}/traces", headers=headers, allow_redirects=False) as response:
            if response.status != 200:
                text = (await response.content.read(500)).decode(errors="replace").strip()
                raise OSError(f"{response.status}: {text}")
            async for line in response.content:
                record = loads(line)
                if record["type"] == "operator":
                    self._store.available = True
                    self._store.operators = [record["data"]["name"]]
                elif record["type"] in ("reconcile", "webhook", "queue"):
                    self._store.add(record["type"], record["data"])

    def _disconnect(self, reason: str) -> None:
        if self._store.available:
            logger.warning(
                "operator disconnected, retrying", extra={"operator": str(self._endpoint), "error": reason}
            )
        self._store.available = False
        self._store.message = f"the operator {self._endpoint} is not connected: {reason}"
