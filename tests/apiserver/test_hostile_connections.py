"""Connections of clients that do not behave: trailers, odd request lines, clients that disconnect."""

from __future__ import annotations

import asyncio
import json
import re

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
        self.writer.write(data)
        await self.writer.drain()

    async def response(self) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of the next response; raises at the end of the connection."""
        async with asyncio.timeout(10):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            status = int(head.split(" ", 2)[1])
            headers = {name.lower(): value for name, value in re.findall(r"([\w-]+): (.*)\r\n", head)}
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
            return status, headers, body

    async def closed(self) -> bool:
        async with asyncio.timeout(10):
            return await self.reader.read(1) == b""


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
