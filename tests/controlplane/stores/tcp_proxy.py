"""A TCP proxy that can be cut, to separate a server from its etcd."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self


class TCPProxy:
    """Forwards connections to a target until `cut`, and again after `restore`."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_cut = False
        self._server: asyncio.Server
        self.address = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self._server.close()

    def cut(self) -> None:
        """Close all connections and reset new ones."""
        self._is_cut = True
        for writer in list(self._writers):
            writer.transport.abort()

    def restore(self) -> None:
        """Forward new connections again."""
        self._is_cut = False

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        to_reader, to_writer = await asyncio.open_connection(*self._target)
        self._writers |= {writer, to_writer}
        with suppress(asyncio.CancelledError):
            await asyncio.gather(_copy(reader, to_writer), _copy(to_reader, writer))
        self._writers -= {writer, to_writer}


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()
