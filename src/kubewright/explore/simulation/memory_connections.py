"""Connections between two protocols in one event loop, without sockets.

Bytes that one side writes are received by the other in a later callback, in the context of that side: those
of a killed process are dropped, as if its machine had disappeared. TLS is left out, also if the client asks
for it.
"""

from __future__ import annotations

import asyncio
import contextvars
import socket
from typing import Any


class _Socket:
    """What clients look at of a socket: its family, and options that have no effect."""

    family = socket.AF_INET
    type = socket.SOCK_STREAM
    proto = socket.IPPROTO_TCP

    def setsockopt(self, *arguments: Any) -> None:
        """Do nothing."""

    def fileno(self) -> int:
        """Return -1, because the connection has no file descriptor."""
        return -1


class MemoryTransport(asyncio.Transport):
    """One side of a connection."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, context: contextvars.Context, peer_name: tuple[str, int]
    ) -> None:
        super().__init__({"peername": peer_name, "sockname": ("198.18.255.1", 1), "socket": _Socket()})
        self.peer: MemoryTransport
        self._loop = loop
        self._context = context
        self._protocol: Any = None
        self._is_closing = False
        self._is_lost = False
        self._is_paused = False
        self._received: list[bytes | None] = []

    def start(self, protocol: asyncio.BaseProtocol) -> None:
        """Begin to use a protocol."""
        self._protocol = protocol
        self._context.copy().run(protocol.connection_made, self)

    # Transport

    def write(self, data: Any) -> None:
        """Send bytes."""
        if not self._is_closing and data:
            self._to_peer(bytes(data))

    def write_eof(self) -> None:
        """Send the end of the stream."""
        self._to_peer(None)

    def can_write_eof(self) -> bool:
        """Return True."""
        return True

    def _to_peer(self, data: bytes | None) -> None:
        self._loop.call_soon(self.peer._receive, data, context=self.peer._context)

    def close(self) -> None:
        """Close the connection after what was written."""
        if self._is_closing:
            return
        self._is_closing = True
        self._to_peer(None)
        self._loop.call_soon(self._lose, context=self._context)

    def abort(self) -> None:
        """Close the connection."""
        self.close()

    def fail(self, error: Exception) -> None:
        """Do nothing: an unreachable API server does not break connections to other systems."""

    def is_closing(self) -> bool:
        """Whether the connection is closed, or about to be."""
        return self._is_closing

    def pause_reading(self) -> None:
        """Receive nothing until `resume_reading`."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Receive what was sent meanwhile."""
        self._is_paused = False
        waiting, self._received = self._received, []
        for data in waiting:
            self._loop.call_soon(self._receive, data, context=self._context)

    def is_reading(self) -> bool:
        """Whether bytes are received."""
        return not self._is_paused and not self._is_closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Use another protocol."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol."""
        found: asyncio.BaseProtocol = self._protocol
        return found

    def get_write_buffer_size(self) -> int:
        """Return 0: bytes are sent immediately."""
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing."""

    # Callbacks

    def _receive(self, data: bytes | None) -> None:
        if self._is_lost:
            return
        if self._is_paused:
            self._received.append(data)
        elif data is not None:
            self._protocol.data_received(data)
        elif not self._protocol.eof_received():
            self.close()

    def _lose(self) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._protocol.connection_lost(None)


def connect_in_memory(
    loop: asyncio.AbstractEventLoop, factory: Any, server: asyncio.BaseProtocol, address: tuple[str, int]
) -> tuple[MemoryTransport, Any]:
    """Connect a new protocol of the calling process to one of the control plane's context."""
    client = MemoryTransport(loop, contextvars.copy_context(), address)
    other = MemoryTransport(loop, contextvars.Context(), ("198.18.255.1", 1))
    client.peer, other.peer = other, client
    other.start(server)
    protocol = factory()
    client.start(protocol)
    return client, protocol
