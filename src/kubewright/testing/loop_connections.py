"""Accounting of the bytes that an event loop sends to itself through sockets.

A test often runs both ends of a connection in one event loop: a webhook server and the API server that calls
it, or a TLS test server and its client. The kernel delivers these bytes almost immediately, but not before
the `send` has returned. `LoopConnections` counts the bytes that one end has sent and the other has not yet
received, so that a loop with a simulated clock waits exactly as long as a request or response is in transit,
and not at all while connections are idle.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


class CountedSocket(socket.socket):
    """A connected socket that reports what it sends and receives."""

    def __init__(self, connections: LoopConnections, original: socket.socket) -> None:
        timeout = original.gettimeout()
        super().__init__(original.family, original.type, original.proto, fileno=original.detach())
        self.settimeout(timeout)
        self.connections = connections
        self.local, self.peer = _address(self.getsockname), _address(self.getpeername)

    def send(self, data: ReadableBuffer, flags: int = 0, /) -> int:
        """Send data and count it."""
        return self._sent(super().send(data, flags))

    def sendmsg(self, *args: Any) -> int:
        """Send buffers and count them."""
        return self._sent(super().sendmsg(*args))

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Receive data and count it."""
        data = super().recv(size, flags)
        self._received(len(data))
        return data

    def recv_into(self, buffer: WriteableBuffer, size: int = 0, flags: int = 0) -> int:
        """Receive data into a buffer and count it."""
        count = super().recv_into(buffer, size, flags)
        self._received(count)
        return count

    def _sent(self, count: int) -> int:
        in_transit = self.connections.in_transit
        in_transit[self.local, self.peer] = in_transit.get((self.local, self.peer), 0) + count
        return count

    def _received(self, count: int) -> None:
        in_transit, key = self.connections.in_transit, (self.peer, self.local)
        if count == 0:
            in_transit.pop(key, None)
        elif key in in_transit:
            in_transit[key] -= count


class LoopConnections:
    """The connections of an event loop."""

    def __init__(self) -> None:
        self.listening: WeakSet[Any] = WeakSet()
        """Servers of this loop."""
        self.connecting = 0
        """Number of connections that are being opened."""
        self.in_transit: dict[tuple[object, object], int] = {}
        """Bytes that were sent and not received, by sending and receiving address."""
        self._sockets: WeakSet[CountedSocket] = WeakSet()

    def count(self, connected: socket.socket) -> socket.socket:
        """Return a socket for the same connection that is counted. TCP only; others are returned as is."""
        if connected.family not in (socket.AF_INET, socket.AF_INET6) or connected.type != socket.SOCK_STREAM:
            return connected
        counted = CountedSocket(self, connected)
        self._sockets.add(counted)
        return counted

    def has_bytes_in_transit(self) -> bool:
        """Whether one end of a connection within this loop has to receive bytes."""
        if not self.in_transit:
            return False
        open_sockets = self._open()
        ends = {each.local for each in open_sockets}
        ports = self._ports()
        pending = False
        for (sender, receiver), count in list(self.in_transit.items()):
            if count > 0 and (receiver in ends or _port(receiver) in ports):
                pending = True
            elif count <= 0 or sender not in ends:
                del self.in_transit[sender, receiver]
        return pending

    def forget_bytes_in_transit(self) -> None:
        """Stop waiting for the bytes that are in transit now: their receiver does not read."""
        self.in_transit.clear()

    def has_other_processes(self) -> bool:
        """Whether a connection ends in another process or loop."""
        open_sockets = self._open()
        ends = {each.local for each in open_sockets}
        ports = self._ports()
        return any(each.peer not in ends and _port(each.peer) not in ports for each in open_sockets)

    def _open(self) -> list[CountedSocket]:
        return [each for each in self._sockets if each.fileno() != -1]

    def _ports(self) -> set[int]:
        return {_port(each.getsockname()) for server in self.listening for each in server.sockets}


def _address(read: Any) -> tuple[Any, ...] | None:
    try:
        return tuple(read()[:2])
    except OSError:
        return None


def _port(address: Any) -> int:
    return address[1] if isinstance(address, tuple) and len(address) > 1 else -1
