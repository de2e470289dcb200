"""`PortForward`: forward a local port to a port of a pod.

    async with client.port_forward("web-0", 8080) as forward:
        await fetch(f"http://127.0.0.1:{forward.local_port}/")

Each connection to the local port opens a WebSocket with two channels, data and errors. The first message of
each channel contains the port number.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from kubewright.api.errors import APIError
from kubewright.client.errors import ConnectionFailed
from kubewright.client.transport.interface import WebSocketConnection

logger = logging.getLogger("kubewright.client")

_DATA, _ERROR = 0, 1
_CHUNK = 64 * 1024


class PortForward:
    """A local listener; it is open within `async with`."""

    def __init__(
        self, connect: Callable[[], Awaitable[WebSocketConnection]], port: int, local_port: int, address: str
    ) -> None:
        self.port = port
        self.local_port = local_port
        """The local port; chosen when the listener starts if it was 0."""
        self._connect = connect
        self._address = address
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> PortForward:
        try:
            self._server = await asyncio.start_server(self._accept, self._address, self.local_port)
        except OSError as error:
            raise OSError(
                error.errno,
                f"cannot listen on {self._address}:{self.local_port}: {error.strerror}; "
                "choose another local_port",
            ) from None
        self.local_port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._forward(reader, writer)
        except (ConnectionFailed, APIError, OSError) as error:
            logger.warning("port forwarding failed", extra={"port": self.port, "error": str(error)})
        except asyncio.CancelledError:
            pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        socket = await self._connect()

        async def upstream() -> None:
            while data := await reader.read(_CHUNK):
                await socket.send(bytes([_DATA]) + data)

        async def downstream() -> None:
            started: set[int] = set()
            while (message := await socket.receive()) is not None:
                data = message.encode() if isinstance(message, str) else message
                if not data:
                    continue
                channel, payload = data[0], data[1:]
                if channel not in started:
                    started.add(channel)
                    payload = payload[2:]
                if channel == _ERROR and payload:
                    raise ConnectionFailed(payload.decode(errors="replace"))
                if channel == _DATA and payload:
                    writer.write(payload)
                    await writer.drain()

        up, down = asyncio.create_task(upstream()), asyncio.create_task(downstream())
        try:
            # The local side may have closed its half only; the connection ends when the pod closes it.
            await down
        finally:
            for each in (up, down):
                each.cancel()
                with suppress(asyncio.CancelledError, ConnectionFailed, OSError):
                    await each
            await socket.close()
