"""The HTTP server on a TLS port: requests, limits, malformed input, shutdown."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import resource
import ssl
import zlib

import aiohttp
import pytest

from kubewright.apiserver import HTTPResponse, Resource, Subresource, Version, serve
from kubewright.apiserver.http.server import run

BIG = 3 * 1024 * 1024


@pytest.fixture
async def front(new_server):
    server = new_server()

    async def echo(asked):
        async def handle(socket):
            while (message := await socket.receive()) is not None:
                await socket.send(message)

        return HTTPResponse(101, websocket=handle, protocols=("echo.example.com",))

    async def ticks(asked):
        async def stream():
            for number in range(3):
                yield f"{number}\n".encode()

        return HTTPResponse(200, content_type="text/plain", stream=stream())

    version = Version(
        name="v1",
        subresources={
            "echo": Subresource(handler=echo, connects=True),
            "ticks": Subresource(handler=ticks, connects=True),
        },
    )
    server.add(Resource(group="s.io", kind="Session", plural="sessions", versions=[version]))
    async with serve(server) as front:
        yield front


def context(front, *, client=True, groups=("system:masters",)) -> ssl.SSLContext:
    made = ssl.create_default_context(cadata=front.authority_pem.decode())
    if client:
        import tempfile
        from pathlib import Path

        with tempfile.TemporaryDirectory() as directory:
            pair = front.authority.issue("tester", groups=groups)
            pair.write(Path(directory, "c"), Path(directory, "k"))
            made.load_cert_chain(Path(directory, "c"), Path(directory, "k"))
    return made


@pytest.fixture
async def session(front):
    connector = aiohttp.TCPConnector(ssl=context(front), limit=0)
    async with aiohttp.ClientSession(front.url, connector=connector) as session:
        yield session


async def raw(front, data: bytes, *, wait: float = 60.0) -> bytes:
    """Send bytes; read until the response is complete or the server closes the connection."""
    reader, writer = await asyncio.open_connection(front.host, front.port, ssl=context(front))
    writer.write(data)
    try:
        async with asyncio.timeout(wait):
            return await reader.read(65536)
    finally:
        writer.close()


async def test_verbs_over_tls(session, widget, base):
    async with session.post(base, json=widget("a", spec={"size": 1})) as response:
        assert response.status == 201
        assert response.headers["Content-Type"] == "application/json"
        assert response.headers["Cache-Control"] == "no-cache, private"
        assert len(response.headers["Audit-Id"]) == 36
    async with session.get(f"{base}/a") as response:
        assert (await response.json())["spec"]["size"] == 1
    async with session.head(f"{base}/a") as response:
        assert response.status == 200
    async with session.post(base, json=widget("b", spec={"x": 1})) as response:
        assert response.headers.getall("Warning") == ['299 - "unknown field \\"spec.x\\""']
    async with session.get("/apis/example.com/v1/namespaces/a%2Fb/widgets") as response:
        assert response.status in (200, 404)


async def test_anonymous_users_can_only_read_health(front, base):
    connector = aiohttp.TCPConnector(ssl=context(front, client=False))
    async with aiohttp.ClientSession(front.url, connector=connector) as session:
        async with session.get("/healthz") as response:
            assert await response.text() == "ok"
        async with session.get(base) as response:
            assert response.status == 403
        async with session.get(base, headers={"Authorization": "Bearer x"}) as response:
            assert response.status == 401


async def test_watch_over_tls(front, session, widget, base):
    async with session.get(f"{base}?watch=1") as watch:
        assert watch.status == 200
        async with session.post(base, json=widget("a")):
            pass
        event = json.loads(await watch.content.readline())
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")
    hub = front.server.store("example.com", "widgets").watch_cache
    async with asyncio.timeout(60):
        while hub.active:
            await asyncio.sleep(0.01)
    async with session.get(f"{base}?watch=1&timeoutSeconds=1") as watch:
        assert (await watch.content.read()).count(b"\n") == 1


async def test_compression_and_long_lists(session, widget, base):
    for number in range(30):
        async with session.post(base, json=widget(f"w{number}", metadata={"annotations": {"a": "x" * 9000}})):
            pass
    async with session.get(base, headers={"Accept-Encoding": "gzip"}) as response:
        assert response.headers["Content-Encoding"] == "gzip"
        packed = await response.json()
    async with session.get(base, headers={"Accept-Encoding": "identity"}) as response:
        assert "Content-Encoding" not in response.headers
        plain = await response.json()
    assert packed == plain
    assert len(plain["items"]) == 30


async def test_bodies_over_the_limit(front, session, base):
    # Otherwise the connection is reset when the rest of a body is not read for five seconds.
    front._listener._kwargs["lingering_time"] = 60.0
    for size, status in ((BIG, 400), (BIG + 1, 413)):
        async with session.post(
            base, data=b" " * size, headers={"Content-Type": "application/json"}
        ) as response:
            assert response.status == status
            if status == 413:
                assert (await response.json())["message"] == f"Request entity too large: limit is {BIG}"

    async def endless():
        for _ in range(64):
            yield b" " * 65536

    async with session.post(base, data=endless(), headers={"Content-Type": "application/json"}) as response:
        assert response.status == 413
    async with session.get("/healthz") as response:
        assert response.status == 200


async def test_garbage(front, session):
    assert b" 400 " in (await raw(front, b"\x00\x01\x02 garbage\r\n\r\n")).split(b"\r\n")[0]
    assert b" 400 " in (await raw(front, b"GET / HTTP/1.1\r\nbad header\r\n\r\n")).split(b"\r\n")[0]
    assert b" 400 " in (await raw(front, b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n")).split(b"\r\n")[0]
    async with session.get("/healthz") as response:
        assert response.status == 200


async def test_unknown_methods(front, base):
    post = b"POST /version HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"
    line = f"FROB {base} HTTP/1.1\r\nHost: x\r\n".encode()
    end = b"Connection: close\r\n\r\n"
    # The body of the previous request can be in the same segment.
    for pieces, count in (([line + end], 1), ([post, b"{}" + line, end], 2), ([post + b"{}", line + end], 2)):
        reader, writer = await asyncio.open_connection(front.host, front.port, ssl=context(front))
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.02)
        received = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        assert received.count(b"HTTP/1.1 405 ") == count, received


async def test_a_truncated_body(front, base):
    head = (
        f"POST {base} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    )
    _, writer = await asyncio.open_connection(front.host, front.port, ssl=context(front))
    writer.write(head.encode())
    await writer.drain()
    writer.close()
    front.server.request_timeout = 0.2
    response = await raw(front, head.encode())
    assert b" 504 " in response.split(b"\r\n")[0]


async def test_slow_headers_time_out(new_server):
    async with serve(new_server(), header_timeout=0.3) as front:
        assert await raw(front, b"GET / HTTP/1.1\r\nHost:") == b""


class Resuming(ssl.SSLContext):
    """A client's settings that shorten handshakes with the first connection's session."""

    session = None

    def wrap_bio(self, *args, **options):
        return super().wrap_bio(*args, **options, session=self.session)


CONNECTIONS = int(os.environ.get("KUBEWRIGHT_CONNECTIONS", "1500"))
"""Number of concurrent connections; the supported limit is 10,000, which takes long to test."""


def test_many_connections(new_server):
    count = CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        count = min(count, (hard - 200) // 2)  # both ends of every connection are files of this process
    if soft < 2 * count + 200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (2 * count + 200, hard))
    run(lambda: many_connections(new_server(), count))


async def many_connections(server, count):
    async with serve(server) as front:
        settings = Resuming(ssl.PROTOCOL_TLS_CLIENT)
        settings.load_verify_locations(cadata=front.authority_pem.decode())
        gate = asyncio.Semaphore(50)

        async def one():
            async with gate:
                reader, writer = await asyncio.open_connection(front.host, front.port, ssl=settings)
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                return await reader.readline(), writer

        results = [await one()]
        settings.session = results[0][1].get_extra_info("ssl_object").session
        results += await asyncio.gather(*(one() for _ in range(count - 1)))
        assert {line for line, _ in results} == {b"HTTP/1.1 200 OK\r\n"}
        for _, writer in results:
            writer.transport.abort()


async def test_client_that_does_not_read(front, session, widget, base, monkeypatch):
    from kubewright.apiserver.watch import watcher

    monkeypatch.setattr(watcher, "QUEUE_BYTES", 2_000_000)
    reader, writer = await asyncio.open_connection(front.host, front.port, ssl=context(front), limit=1024)
    writer.write(f"GET {base}?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    await reader.readline()
    hub = front.server.store("example.com", "widgets").watch_cache
    for number in range(100):
        body = widget(f"w{number}", metadata={"annotations": {"a": "x" * 200_000}})
        async with session.post(base, json=body) as response:
            assert response.status == 201
        if hub.dropped:
            break
    assert hub.dropped == 1
    writer.close()


async def test_web_sockets_and_streams(session, base, widget):
    path = "/apis/s.io/v1/namespaces/d/sessions/x"
    async with session.ws_connect(f"{path}/echo", protocols=("echo.example.com",)) as socket:
        assert socket.protocol == "echo.example.com"
        await socket.send_bytes(b"hello")
        assert (await socket.receive(60)).data == b"hello"
    async with session.get(f"{path}/ticks") as response:
        assert await response.text() == "0\n1\n2\n"
    async with session.ws_connect(f"{base}?watch=1") as socket:
        async with session.post(base, json=widget("a")):
            pass
        assert json.loads((await socket.receive(60)).data)["type"] == "ADDED"


async def test_stop_closes_watches_and_completes_requests(new_server, base):
    server, entered = new_server(), asyncio.Event()

    async def slow(request):
        entered.set()
        await asyncio.sleep(0.1)
        return HTTPResponse(200, b"{}")

    server.add_handler("/slow", slow)
    async with serve(server) as front:
        connector = aiohttp.TCPConnector(ssl=context(front))
        session = aiohttp.ClientSession(front.url, connector=connector)
        watch = await session.get(f"{base}?watch=1")
        request = asyncio.create_task(session.get("/slow"))
        await entered.wait()
    assert (await request).status == 200
    assert await watch.content.read() == b""
    await session.close()


async def test_port_in_use(front, new_server):
    with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{front.port}"):
        async with serve(new_server(), port=front.port):
            pass


async def test_compressed_bodies_and_decompression_bombs(session, widget, base):
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    packed = gzip.compress(json.dumps(widget("packed")).encode())
    async with session.post(base, data=packed, headers=headers) as response:
        assert response.status == 201, await response.text()
    async with session.post(base, data=packed[:-9], headers=headers) as response:
        assert response.status == 400
    async with session.post(base, data=gzip.compress(b" " * 20_000_000), headers=headers) as response:
        assert response.status == 413
    headers["Content-Encoding"] = "deflate"
    async with session.post(base, data=zlib.compress(b" " * 20_000_000), headers=headers) as response:
        assert response.status == 400


async def test_deeply_nested_body_is_a_bad_request(front, session, base):
    front.server.add(Resource(group="example.com", kind="Any", plural="anys", versions=[Version(name="v1")]))
    base = base.replace("widgets", "anys")
    for depth in (900, 100_000):
        body = b'{"apiVersion":"example.com/v1","kind":"Any","metadata":{"name":"x"},"spec":'
        body += b'{"a":' * depth + b"1" + b"}" * depth + b"}"
        async with session.post(base, data=body, headers={"Content-Type": "application/json"}) as response:
            assert response.status == 400, await response.text()
