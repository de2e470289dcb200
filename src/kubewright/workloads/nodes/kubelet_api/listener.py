"""`KubeletListener`: a port that is open from the start, and served after the first connection.

Certificates, TLS and the HTTP server cost more than an idle cluster should; they are set up when a client
connects.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)


class KubeletListener:
    """A listening socket on localhost."""

    def __init__(self, port: int = 0) -> None:
        """`port` 0 chooses a free port."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", port))
        except OSError as error:
            self._socket.close()
            raise OSError(error.errno, f"cannot listen on 127.0.0.1:{port}: {error.strerror}") from None
        self._socket.listen(128)
        self._socket.setblocking(False)
        self._serve: Callable[[socket.socket], Awaitable[None]] | None = None
        self._connected = False
        self._starting: asyncio.Task[None] | None = None
        self.on_connection: Callable[[], object] | None = None
        """Called with the first connection, while nothing serves it yet."""
        asyncio.get_running_loop().add_reader(self._socket, self._first_connection)

    @property
    def port(self) -> int:
        """The port."""
        number: int = self._socket.getsockname()[1]
        return number

    def serve_with(self, serve: Callable[[socket.socket], Awaitable[None]]) -> None:
        """Call `serve` with the socket as soon as a client has connected."""
        self._serve = serve
        if self._connected:
            self._start()

    def _first_connection(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        self._connected = True
        if self._serve is not None:
            self._start()
        elif self.on_connection is not None:
            self.on_connection()

    def _start(self) -> None:
        assert self._serve is not None
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._serve(self._socket))
            self._starting.add_done_callback(_log_failure)

    async def stop(self) -> None:
        """Close the socket."""
        if not self._connected:
            asyncio.get_running_loop().remove_reader(self._socket)
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        self._socket.close()


def _log_failure(task: asyncio.Future[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("could not serve the kubelet API", exc_info=error)
