"""HTTP/1.1 parsing of responses in arbitrary chunks."""

from __future__ import annotations

import asyncio
import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from kubewright.client import ConnectionFailed
from kubewright.client.transport.http1 import Connection

BODY = b'{"kind":"ConfigMap","data":{"long":"' + b"x" * 300 + b'"}}'


class Wire(asyncio.Transport):
    """The socket's side of a connection."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closed = False
        self.paused = False

    def write(self, data: bytes) -> None:  # type: ignore[override]
        self.sent += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


def connected() -> tuple[Connection, Wire]:
    connection, wire = Connection(), Wire()
    connection.connection_made(wire)
    return connection, wire


def with_length() -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-A: 1\r\nX-a: 2\r\n\r\n%s" % (len(BODY), BODY)


def in_chunks(size: int) -> bytes:
    pieces = [BODY[start : start + size] for start in range(0, len(BODY), size)]
    framed = b"".join(b"%x;note=1\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    head = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + framed + b"0\r\nTrailer: yes\r\n\r\n"


@settings(max_examples=120, deadline=None)
@given(
    st.one_of(st.just(with_length()), st.integers(1, 400).map(in_chunks)),
    st.lists(st.integers(1, 60), max_size=40),
)
def test_response_split_at_any_byte(response: bytes, cuts: list[int]) -> None:
    async def main() -> None:
        connection, _ = connected()
        for _round in range(2):
            waiting = asyncio.ensure_future(connection.send("GET", b""))
            await asyncio.sleep(0)
            rest = response
            for size in cuts:
                connection.data_received(rest[:size]) if rest[:size] else None
                rest = rest[size:]
            if rest:
                connection.data_received(rest)
            found = await waiting
            assert (found.status, found.body) == (200, BODY)
            assert connection.alive

    asyncio.run(main())


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(in_chunks(50)) - 1), st.booleans(), st.binary(max_size=20))
def test_truncated_response_is_always_an_error(end: int, length: bool, junk: bytes) -> None:
    async def main() -> None:
        connection, wire = connected()
        response = with_length() if length else in_chunks(50)
        waiting = asyncio.ensure_future(connection.send("GET", b""))
        await asyncio.sleep(0)
        connection.data_received(
            response[: min(end, len(response) - 1)] + junk
            if junk
            else response[: min(end, len(response) - 1)] or b"H"
        )
        connection.connection_lost(None)
        with contextlib.suppress(ConnectionFailed):
            found = await waiting
            assert found.body[: len(BODY)] == BODY or junk
        assert not connection.alive
        assert wire.closed or junk

    asyncio.run(main())


def test_slow_reader_pauses_the_socket() -> None:
    async def main() -> None:
        connection, wire = connected()
        waiting = asyncio.ensure_future(connection.stream("GET", b""))
        await asyncio.sleep(0)
        connection.data_received(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        stream = await waiting
        piece = b"%x\r\n%s\r\n" % (600_000, b"y" * 600_000)
        connection.data_received(piece)
        assert not wire.paused
        connection.data_received(piece)
        assert wire.paused
        assert len(await anext(stream)) == 1_200_000
        assert not wire.paused

    asyncio.run(main())


async def test_unexpected_data_closes_the_connection() -> None:
    connection, wire = connected()
    connection.data_received(b"HTTP/1.1 408 Timeout\r\n\r\n")
    assert wire.closed
    assert not connection.alive
