"""Misbehaving clients: trailers, malformed request lines, disconnects."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress

import pytest

from kubewright.apiserver import serve

from .test_http import context

CHUNKED = (
    b"POST /apis/example.com/v1/namespaces/default/widgets?dryRun=All HTTP/1.1\r\nHost: x\r\n"
    b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)
BODY = b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"}}'
REVIEW = b"GET /whoami HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
async def front(new_server):
    server = new_server()

    async def who_am_i(request):
        from kubewright.apiserver import HTTPResponse

        seen = {"user": request.user.name, "headers": sorted(request.headers)}
        return HTTPResponse(200, json.dumps(seen).encode())

    server.add_handler("/whoami", who_am_i)
    async with serve(server) as front:
        yield front


class RawClient:
    """A connection that sends bytes as they are and reads responses one by one."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, front, *, groups=("system:masters",)):
        tls = context(front, groups=groups)
        return cls(*await asyncio.open_connection(front.host, front.port, ssl=tls))

    async def send(self, data: bytes) -> None:
        """Send bytes; the server may have closed the connection already."""
        self.writer.write(data)
        with suppress(ConnectionError):
            await self.writer.drain()

    async def response(self) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of the next response; raises at the end of the connection."""
        async with asyncio.timeout(60):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            status = int(head.split(" ", 2)[1])
            headers = {name.lower(): value for name, value in re.findall(r"([\w-]+): (.*)\r\n", head)}
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
            return status, headers, body

    async def closed(self) -> bool:
        async with asyncio.timeout(60):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True  # Bytes were sent after the server had closed the connection.


@pytest.fixture
async def client(front):
    client = await RawClient.connect(front)
    yield client
    client.writer.close()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def test_a_trailer_does_not_reach_the_next_request(client):
    await client.send(CHUNKED + chunk(BODY) + b"0\r\nImpersonate-User: someone\r\n\r\n")
    status, _, _ = await client.response()
    assert status == 201
    await client.send(REVIEW)
    assert await client.closed()


async def test_a_trailer_does_not_reach_a_pipelined_request(client):
    await client.send(CHUNKED + chunk(BODY) + b"0\r\nImpersonate-User: someone\r\n\r\n" + REVIEW)
    status, _, _ = await client.response()
    assert status == 201
    assert await client.closed()


@pytest.mark.parametrize("value", [b"0", b"\t0", b"a\r\nX: 0"])
async def test_a_trailer_that_looks_like_a_last_chunk_closes_the_connection(client, value):
    await client.send(CHUNKED + chunk(BODY))
    await client.send(b"0\r\nImpersonate-User: " + value + b"\r\n\r\n")
    assert (await client.response())[0] == 201
    await client.send(REVIEW)
    assert await client.closed()


@pytest.mark.parametrize("size", [1, 3, 1000])
async def test_chunked_bodies_without_trailers_keep_the_connection(client, size):
    data = CHUNKED + chunk(BODY[:9]) + chunk(BODY[9:]) + b"0\r\n\r\n"
    for _ in range(2):
        for start in range(0, len(data), size):
            await client.send(data[start : start + size])
            await asyncio.sleep(0)
        assert (await client.response())[0] == 201
    await client.send(REVIEW)
    status, _, body = await client.response()
    assert (status, json.loads(body)) == (200, {"user": "tester", "headers": ["Host"]})


async def test_many_pipelined_requests_behind_a_trailer_are_discarded(client):
    hidden = CHUNKED + chunk(BODY) + b"0\r\n\r\n"
    await client.send(CHUNKED + chunk(BODY) + b"0\r\nImpersonate-User: x\r\n\r\n" + hidden * 300)
    assert (await client.response())[0] == 201
    assert await client.closed()


async def test_expect_100_continue_precedes_the_body(client):
    head = CHUNKED.replace(
        b"Transfer-Encoding: chunked", b"Content-Length: %d\r\nExpect: 100-continue" % len(BODY)
    )
    await client.send(head)
    assert (await client.response())[0] == 100
    await client.send(BODY)
    assert (await client.response())[0] == 201


async def test_an_absolute_request_target_is_served(client):
    await client.send(b"GET https://example.com:6443/whoami?x=1 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await client.response())[0] == 200
    await client.send(b"GET http://example.com HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await client.response())[0] == 200


async def test_long_request_lines_are_served_up_to_a_megabyte(client):
    await client.send(b"GET /whoami?x=" + b"y" * 900_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await client.response())[0] == 200
    await client.send(b"GET /whoami?x=" + b"y" * 1_100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await client.response())[0] == 400


@pytest.mark.parametrize("line", [b"GET /whoami\r\n\r\n", b"GET /whoami HTTP/0.9\r\n\r\n"])
async def test_http_0_9_is_rejected(client, line):
    await client.send(line)
    assert (await client.response())[0] == 400
    assert await client.closed()


async def test_a_client_that_disconnects_during_a_list_is_not_logged_as_an_error(
    front, caplog, talk_to, widget, base
):
    talk = talk_to(front.server)
    for number in range(40):
        await talk.ok("POST", base, widget(f"w{number}", spec={"color": "x" * 300_000}))
    caplog.set_level("INFO")
    for accept in ("application/json", "application/json;as=Table;g=meta.k8s.io;v=v1"):
        for suffix in ("", "?includeObject=Object", "?watch=1"):
            client = await RawClient.connect(front)
            await client.send(f"GET {base}{suffix} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n".encode())
            await client.reader.readuntil(b"\r\n\r\n")
            client.writer.transport.abort()
    async with asyncio.timeout(60):
        while front._listener.connections:
            await asyncio.sleep(0.01)
    assert [
        record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")
    ] == []


async def test_a_valid_certificate_succeeds_with_an_invalid_token(client):
    await client.send(REVIEW.replace(b"Host: x\r\n", b"Host: x\r\nAuthorization: Bearer invalid\r\n"))
    status, _, body = await client.response()
    assert (status, json.loads(body)["user"]) == (200, "tester")
