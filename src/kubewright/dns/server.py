"""A DNS server over UDP and TCP for a `Resolver`, with other servers for all other names.

Only standard queries for one name of the class IN receive records. Responses over UDP are limited to the
size that the client accepts, at most 1232 bytes; larger ones are truncated, and clients repeat the query over
TCP. The number of queries that are resolved at the same time is limited; others are dropped, as by a full
network.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable
from typing import cast

import dns.exception
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset
from dns.message import Message, QueryMessage
from dns.name import Name
from dns.rrset import RRset

from .resolver import TTL, Lookup, Record, Resolver
from .upstream import Upstream

logger = logging.getLogger(__name__)

RECORDS = dns.message.ANSWER  # quotation: dnspython
DENIED = dns.rcode.REFUSED  # quotation: RFC 1035
MAX_UDP_BYTES = 1232
MIN_UDP_BYTES = 512
MAX_ALIASES = 8
MAX_QUERIES = 1000
MAX_CONNECTIONS = 200
IDLE_TIMEOUT = 30.0


class DNSServer:
    """Serves DNS until it is stopped."""

    def __init__(
        self, resolver: Resolver, *, host: str, port: int = 53, upstream: Upstream | None = None
    ) -> None:
        self._resolver = resolver
        self._upstream = upstream
        self.host = host
        self.port = port
        """The port; after `start`, the chosen one."""
        self._transport: asyncio.DatagramTransport | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen on UDP and TCP; raises `OSError`."""
        self._server = await asyncio.start_server(self._accept, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        loop = asyncio.get_running_loop()
        try:
            self._transport, _ = await loop.create_datagram_endpoint(
                lambda: _Datagrams(self), local_addr=(self.host, self.port)
            )
        except OSError:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop listening, and end what is under way."""
        if self._transport is not None:
            self._transport.close()
        if self._server is not None:
            self._server.close()
        tasks = [*self._tasks, *self._connections]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def datagram(self, transport: asyncio.DatagramTransport, wire: bytes, address: tuple[str, int]) -> None:
        """Respond to a query that was received over UDP."""

        async def respond() -> None:
            response = await self.respond(wire, limit=MAX_UDP_BYTES)
            if response is not None and not transport.is_closing():
                transport.sendto(response, address)

        if len(self._tasks) < MAX_QUERIES:
            self._spawn(respond(), self._tasks)

    def _spawn(self, work: Awaitable[None], tasks: set[asyncio.Task[None]]) -> None:
        task = asyncio.ensure_future(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:
            writer.close()
            return
        self._spawn(self._serve(reader, writer), self._connections)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Respond to the queries of a TCP connection in order."""
        try:
            while True:
                async with asyncio.timeout(IDLE_TIMEOUT):
                    (size,) = struct.unpack("!H", await reader.readexactly(2))
                    wire = await reader.readexactly(size)
                response = await self.respond(wire)
                if response is None:
                    return
                writer.write(struct.pack("!H", len(response)) + response)
                await writer.drain()
        except (OSError, EOFError, TimeoutError):
            return
        finally:
            writer.close()

    async def respond(self, wire: bytes, *, limit: int = 0) -> bytes | None:
        """Return the response for a query; `None` for what is not one. `limit` is the size over UDP."""
        try:
            query = dns.message.from_wire(wire)
        except dns.exception.DNSException:
            return _format_error(wire)
        if not isinstance(query, QueryMessage) or query.flags & dns.flags.QR:
            return (
                None if query.flags & dns.flags.QR else _encode(_error(query, dns.rcode.NOTIMP), query, limit)
            )
        try:
            response = await self._resolve(query)
        except Exception as error:
            logger.error("cannot resolve DNS query", extra={"error": repr(error)})
            response = _error(query, dns.rcode.SERVFAIL)
        return _encode(response, query, limit)

    async def _resolve(self, query: QueryMessage) -> Message:
        if len(query.question) != 1:
            return _error(query, dns.rcode.FORMERR)
        question = query.question[0]
        if question.rdclass != dns.rdataclass.IN:
            return _error(query, DENIED)
        found = await self._resolver.resolve(question.name, question.rdtype)
        if found is None:
            return await self._forward(query)
        response = dns.message.make_response(query, recursion_available=self._upstream is not None)
        response.flags |= dns.flags.AA
        if not found.exists:
            response.set_rcode(dns.rcode.NXDOMAIN)
        response.sections[RECORDS] = _record_sets(found.records)
        response.additional = _record_sets(found.additional)
        await self._follow(response, found, question)
        if not response.sections[RECORDS]:
            response.authority = _record_sets([self._resolver.soa()])
        return response

    async def _follow(self, response: Message, found: Lookup, question: RRset) -> None:
        """Add the records of the target of an alias."""
        alias = found.alias
        for _ in range(MAX_ALIASES):
            if alias is None:
                return
            target = await self._resolver.resolve(alias, question.rdtype)
            if target is None:
                response.sections[RECORDS] += await self._ask(alias, question.rdtype)
                return
            response.sections[RECORDS] += _record_sets(target.records)
            alias = target.alias

    async def _ask(self, name: Name, kind: dns.rdatatype.RdataType) -> list[RRset]:
        if self._upstream is None:
            return []
        found = await self._upstream.resolve(dns.message.make_query(name, kind))
        return list(found.sections[RECORDS]) if found is not None else []

    async def _forward(self, query: QueryMessage) -> Message:
        found = await self._upstream.resolve(query) if self._upstream is not None else None
        if found is None:
            rcode = dns.rcode.SERVFAIL if self._upstream is not None else DENIED
            return _error(query, rcode)
        return found


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, server: DNSServer) -> None:
        self._server = server
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        assert self._transport is not None
        self._server.datagram(self._transport, data, addr)


def _record_sets(records: list[Record]) -> list[RRset]:
    sets: dict[tuple[Name, dns.rdatatype.RdataType], RRset] = {}
    for name, data in records:
        key = (name, data.rdtype)
        if key not in sets:
            sets[key] = RRset(name, dns.rdataclass.IN, data.rdtype)
        sets[key].add(data, TTL)
    return list(sets.values())


def _error(query: Message, rcode: dns.rcode.Rcode) -> Message:
    response = dns.message.make_response(query, recursion_available=True)
    response.set_rcode(rcode)
    return response


def _encode(response: Message, query: Message, limit: int) -> bytes:
    if limit:
        limit = min(limit, max(query.payload, MIN_UDP_BYTES)) if query.edns >= 0 else MIN_UDP_BYTES
        return response.to_wire(max_size=limit, prefer_truncation=True)
    return response.to_wire(max_size=65535, prefer_truncation=True)


def _format_error(wire: bytes) -> bytes | None:
    """Return a response to a malformed query; `None` if it has no header, or is itself a response."""
    if len(wire) < 12 or wire[2] & 0x80:
        return None
    response = dns.message.Message(id=struct.unpack("!H", wire[:2])[0])
    response.flags |= dns.flags.QR
    response.set_rcode(dns.rcode.FORMERR)
    return response.to_wire()
