"""`TraceServer`: serves the spans of an operator to a dashboard in another process.

It is off by default. It listens on the loopback interface only, which `kubectl port-forward` reaches, and
every request needs the token of the setting `trace_token`:

    KUBEWRIGHT_TRACE_PORT=8090 KUBEWRIGHT_TRACE_TOKEN=... kubewright run shop
    kubewright dashboard --operator http://127.0.0.1:8090

`GET /traces` returns newline-delimited JSON: `{"type": "operator", "data": {"name": "shop"}}`, then the spans
and queue samples of `TraceFeed`. Spans are recorded only while a client is connected; one that reads too
slowly is disconnected.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from typing import Any, Final

from kubewright.api.encoding.codec import encode
from kubewright.manager.manager import Manager
from kubewright.runnable import BaseRunnable

from .trace_feed import TraceFeed

logger = logging.getLogger(__name__)

HOST: Final = "127.0.0.1"
MAX_PENDING_BYTES: Final = 16 << 20
"""Size of the records that are not sent yet."""
MAX_CLIENTS: Final = 8


class TraceServer(BaseRunnable):
    """Serves `/traces`. A runnable of the manager."""

    needs_leader = False
    group = "http"
    name = "traces"

    def __init__(self, manager: Manager, operator: str, *, port: int, token: str) -> None:
        self.port = port
        self._manager = manager
        self._operator = operator
        self._token = token
        self._streams: set[asyncio.Queue[bytes]] = set()
        self._listening = asyncio.Event()

    async def wait_until_started(self) -> None:
        """Wait until the port is open; `port` is then the actual one."""
        await self._listening.wait()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set."""
        from aiohttp import web

        async def handle(request: Any) -> Any:
            return await self._handle(request, stop)

        server = web.Server(handle, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await runner.setup()
        try:
            try:
                await web.TCPSite(runner, HOST, self.port).start()
            except OSError as error:
                reason = (error.strerror or str(error)).rpartition(": ")[2]
                raise OSError(f"trace server cannot listen on {HOST}:{self.port}: {reason}") from None
            self.port = runner.addresses[0][1]
            self._listening.set()
            logger.info("started trace server", extra={"address": f"{HOST}:{self.port}"})
            await stop.wait()
        finally:
            self._listening.clear()
            for records in self._streams:
                _end(records)
            await runner.cleanup()

    async def _handle(self, request: Any, stop: asyncio.Event) -> Any:
        from aiohttp import web

        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(token.encode(), self._token.encode()):
            return web.Response(
                status=401, text="Unauthorized: the token is that of the setting trace_token\n"
            )
        if request.path != "/traces" or request.method != "GET":
            return web.Response(status=404, text="404 page not found\n")
        if len(self._streams) >= MAX_CLIENTS:
            return web.Response(status=429, text=f"{MAX_CLIENTS} clients are connected already\n")
        records: asyncio.Queue[bytes] = asyncio.Queue()
        self._streams.add(records)
        try:
            return await self._stream(request, records, stop)
        finally:
            self._streams.discard(records)

    async def _stream(self, request: Any, records: asyncio.Queue[bytes], stop: asyncio.Event) -> Any:
        from aiohttp import web

        pending = 0

        def add(type_: str, record: dict[str, Any]) -> None:
            nonlocal pending
            line = _line(type_, record)
            pending += len(line)
            if pending > MAX_PENDING_BYTES:
                _end(records)
            else:
                records.put_nowait(line)

        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        await response.write(_line("operator", {"name": self._operator}))
        feeding = asyncio.create_task(TraceFeed([self._manager], add).run(stop))
        try:
            while line := await records.get():
                pending -= len(line)
                await response.write(line)
        except ConnectionError:
            pass
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
        return response


def _end(records: asyncio.Queue[bytes]) -> None:
    """Let a stream end before the records that it has not sent."""
    while not records.empty():
        records.get_nowait()
    records.put_nowait(b"")


def _line(type_: str, data: dict[str, Any]) -> bytes:
    return encode({"type": type_, "data": data}) + b"\n"
