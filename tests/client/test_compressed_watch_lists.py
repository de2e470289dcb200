"""Watches with initial events that the server compresses with gzip."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from multidict import CIMultiDict

from kubewright.client import ClusterConfig, ConnectionFailed, HTTPTransport, RawWatch
from kubewright.client.transport.gzip_stream import MAX_CHUNK, GzipStream

QUERY = "watch=true&sendInitialEvents=true"


def event(name: str, padding: int = 0) -> bytes:
    metadata = {"name": name, "resourceVersion": "1", "annotations": {"padding": "x" * padding}}
    return json.dumps({"type": "ADDED", "object": {"kind": "Pod", "metadata": metadata}}).encode() + b"\n"


class Chunks:
    """A response stream of fixed chunks."""

    def __init__(self, *chunks: bytes) -> None:
        self.status = 200
        self.headers = CIMultiDict({"Content-Encoding": "gzip"})
        self.closed = False
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk

    async def aclose(self) -> None:
        self.closed = True


@asynccontextmanager
async def compressing_server(
    *, enabled: bool = True, disable_compression: bool = False
) -> AsyncIterator[tuple[HTTPTransport, list[bytes], asyncio.Event]]:
    """A server that sends one event, waits for the test, sends another one and ends the response."""
    requests: list[bytes] = []
    first_received = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        requests.append(head)
        compressed = b"Accept-Encoding: gzip" in head
        encoding = b"Content-Encoding: gzip\r\n" if compressed else b""
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + encoding + b"\r\n")
        compressor = zlib.compressobj(wbits=31)
        for index in range(2):
            data = event(f"pod-{index}")
            if compressed:
                data = compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH)
            writer.write(b"%x\r\n%s\r\n" % (len(data), data))
            await writer.drain()
            if index == 0:
                await first_received.wait()
        if compressed:
            tail = compressor.flush()
            writer.write(b"%x\r\n%s\r\n" % (len(tail), tail))
        writer.write(b"0\r\n\r\n")
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    config = ClusterConfig(
        server=f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}",
        disable_compression=disable_compression,
    )
    transport = HTTPTransport(config, compress_watch_lists=enabled)
    yield transport, requests, first_received
    await transport.aclose()
    listener.close()


@pytest.mark.parametrize(
    ("enabled", "disable_compression", "query", "encoding"),
    [
        (True, False, QUERY, b"gzip"),
        (True, False, "watch=true", b"identity"),
        (True, True, QUERY, b"identity"),
        (False, False, QUERY, b"identity"),
    ],
)
async def test_events_arrive_as_they_are_sent(
    enabled: bool, disable_compression: bool, query: str, encoding: bytes
) -> None:
    server = compressing_server(enabled=enabled, disable_compression=disable_compression)
    async with server as (transport, requests, first_received):
        stream = await transport.stream("GET", "/api/v1/pods", query)
        names = []
        async with RawWatch(stream) as watch:
            async for received in watch:
                names.append(received.header.metadata.name)
                first_received.set()
        assert names == ["pod-0", "pod-1"]
        assert requests[0].count(b"Accept-Encoding") == 1
        assert b"Accept-Encoding: " + encoding + b"\r\n" in requests[0]


async def test_output_is_bounded_and_complete() -> None:
    plain = event("large", padding=20 * MAX_CHUNK)
    chunks = [chunk async for chunk in GzipStream(Chunks(zlib.compress(plain, wbits=31)))]
    assert b"".join(chunks) == plain
    assert max(map(len, chunks)) == MAX_CHUNK


@pytest.mark.parametrize("size", [MAX_CHUNK - 1, MAX_CHUNK, MAX_CHUNK + 1, 2 * MAX_CHUNK])
async def test_sizes_around_the_chunk_limit(size: int) -> None:
    compressed = zlib.compress(b"a" * size, wbits=31)
    pieces = [compressed[start : start + 1] for start in range(len(compressed))]
    assert b"".join([chunk async for chunk in GzipStream(Chunks(*pieces))]) == b"a" * size


async def test_several_gzip_members() -> None:
    members = zlib.compress(b"first\n", wbits=31) + zlib.compress(b"second\n", wbits=31)
    assert [chunk async for chunk in GzipStream(Chunks(members))] == [b"first\n", b"second\n"]


async def test_invalid_gzip_fails() -> None:
    with pytest.raises(ConnectionFailed, match="not valid gzip"):
        _ = [chunk async for chunk in GzipStream(Chunks(b"not gzip"))]


async def test_closing_closes_the_connection() -> None:
    chunks = Chunks()
    stream = GzipStream(chunks)
    assert "Content-Encoding" not in stream.headers
    await stream.aclose()
    assert chunks.closed
