"""Resolution of names outside of the cluster domain by other servers, those of this machine by default.

A query is sent as it is, with another identifier, to one server after the other until one responds; responses
that UDP truncates are requested again over TCP. Nothing is cached.
"""

from __future__ import annotations

import asyncio
import secrets
import struct
from collections.abc import Sequence
from pathlib import Path

import dns.exception
import dns.flags
import dns.message
from dns.message import Message

TIMEOUT = 2.0
"""Seconds until the next server is tried."""
MAX_UPSTREAMS = 3


def system_servers(path: Path = Path("/etc/resolv.conf")) -> list[str]:
    """Return the addresses of the resolvers of this machine."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return []
    words = [line.split() for line in lines]
    return [each[1] for each in words if len(each) > 1 and each[0] == "nameserver"][:MAX_UPSTREAMS]


class Upstream:
    """Other DNS servers."""

    def __init__(self, servers: Sequence[str], *, port: int = 53, timeout: float = TIMEOUT) -> None:
        self._servers = tuple(servers)
        self._port = port
        self._timeout = timeout

    async def resolve(self, query: Message) -> Message | None:
        """Return the response of the first server that responds; `None` without one."""
        sent = dns.message.from_wire(query.to_wire())
        sent.id = secrets.randbelow(1 << 16)
        for server in self._servers:
            try:
                async with asyncio.timeout(self._timeout):
                    response = await self._ask_udp(server, sent)
                    if response.flags & dns.flags.TC:
                        response = await self._ask_tcp(server, sent)
            except (OSError, TimeoutError, EOFError, dns.exception.DNSException):
                continue
            response.id = query.id
            return response
        return None

    async def _ask_udp(self, server: str, query: Message) -> Message:
        loop = asyncio.get_running_loop()
        received: asyncio.Future[Message] = loop.create_future()

        class Receiver(asyncio.DatagramProtocol):
            def datagram_received(self, data: bytes, addr: object) -> None:
                try:
                    response = dns.message.from_wire(data)
                except dns.exception.DNSException:
                    return
                if not received.done() and query.is_response(response):
                    received.set_result(response)

            def error_received(self, exc: Exception) -> None:
                if not received.done():
                    received.set_exception(exc)

        transport, _ = await loop.create_datagram_endpoint(Receiver, remote_addr=(server, self._port))
        try:
            transport.sendto(query.to_wire())
            return await received
        finally:
            transport.close()

    async def _ask_tcp(self, server: str, query: Message) -> Message:
        reader, writer = await asyncio.open_connection(server, self._port)
        try:
            wire = query.to_wire()
            writer.write(struct.pack("!H", len(wire)) + wire)
            (size,) = struct.unpack("!H", await reader.readexactly(2))
            response = dns.message.from_wire(await reader.readexactly(size))
            if not query.is_response(response):
                raise EOFError("the response does not belong to the query")
            return response
        finally:
            writer.close()
