"""HTTP/2: requests, bodies, flow control, resets, shutdown and misbehaving clients."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import random
import ssl

import pytest
from h2.errors import ErrorCodes
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from tests.waiting import eventually

from kubewright.apiserver import HTTPResponse, serve
from kubewright.apiserver.http import http2
from kubewright.apiserver.http.http2 import LiteralEncoder

from .http2_client import HTTP2Client
from .test_http import context

BASE = "/apis/example.com/v1/namespaces/default/widgets"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = SettingsFrame(0).serialize()


def widget(name: str, **spec) -> bytes:
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}
    return json.dumps(body).encode()


class Handlers:
    """Paths with a response that a test controls."""

    def __init__(self, server):
        self.started = 0
        self.cancelled = 0
        self.release = asyncio.Event()
        self.size = 1000
        server.add_handler("/wait", self.wait)
        server.add_handler("/long", self.long)
        server.add_handler("/whoami", self.who_am_i)

    async def wait(self, request):
        self.started += 1
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return HTTPResponse(200, b"done")

    async def long(self, request):
        return HTTPResponse(200, b"x" * self.size)

    async def who_am_i(self, request):
        seen = {"user": request.user.name, "headers": dict(request.headers), "path": request.path}
        return HTTPResponse(200, json.dumps(seen).encode())


@pytest.fixture
async def server(new_server):
    return new_server()


@pytest.fixture
async def handlers(server):
    return Handlers(server)


@pytest.fixture
async def front(server, handlers):
    async with serve(server, http2=True, stall_timeout=3600) as front:
        yield front


@pytest.fixture
async def client(front):
    client = await HTTP2Client.connect(front)
    yield client
    client.close()


async def create(client, name, **spec):
    number = client.request("POST", BASE, widget(name, **spec), content_type="application/json")
    reply = await client.reply(number)
    assert reply.status == 201, reply.body
    return reply.json()


async def test_requests_share_one_connection_and_the_pipeline(client, front):
    await create(client, "a", size=1)
    numbers = [client.request("GET", f"{BASE}/a?pretty=false") for _ in range(50)]
    replies = [await client.reply(number) for number in numbers]
    assert {reply.status for reply in replies} == {200}
    assert all(reply.json()["spec"]["size"] == 1 for reply in replies)
    assert replies[0].headers["content-type"] == "application/json"
    assert "audit-id" in replies[0].headers
    assert "connection" not in replies[0].headers
    assert int(replies[0].headers["content-length"]) == len(replies[0].body)
    missing = await client.get(f"{BASE}/missing")
    assert (missing.status, missing.json()["reason"]) == (404, "NotFound")
    head = await client.reply(client.request("HEAD", f"{BASE}/a"))
    assert (head.status, bytes(head.body)) == (200, b"")
    assert len(front.http2_connections) == 1


async def test_clients_without_http2_get_http1(front):
    tls = context(front)
    tls.set_alpn_protocols(["http/1.1"])
    reader, writer = await asyncio.open_connection(front.host, front.port, ssl=tls)
    assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
    writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    writer.close()


async def test_http2_is_not_offered_unless_enabled(new_server):
    async with serve(new_server()) as front:
        tls = context(front)
        tls.set_alpn_protocols(["h2", "http/1.1"])
        _, writer = await asyncio.open_connection(front.host, front.port, ssl=tls)
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        writer.close()


async def test_users_are_authenticated_by_certificate_or_token(client, front):
    seen = (await client.get("/whoami", x_extra="1")).json()
    assert seen["user"] == "tester"
    assert seen["headers"]["Host"] == "localhost"
    assert seen["headers"]["x-extra"] == "1"
    anonymous = await HTTP2Client.connect(front, certificate=False)
    assert (await anonymous.get(f"{BASE}/a")).status == 403
    assert (await anonymous.get(f"{BASE}/a", authorization="Bearer x")).status == 401
    anonymous.close()


async def test_percent_encoded_paths_are_decoded(client):
    assert (await client.get("/who%61mi?x=%2F")).json()["path"] == "/whoami"
    assert (await client.get("whoami")).status == 400


async def test_bodies_arrive_in_pieces_and_within_the_limit(client, server):
    body = widget("big", color="x" * 600_000)
    number = client.request("POST", BASE, content_type="application/json", end=False)
    rest = memoryview(body)
    while rest:
        await client.until(lambda: client.h2.local_flow_control_window(number) > 0)
        size = min(len(rest), client.h2.local_flow_control_window(number), 16384)
        client.h2.send_data(number, bytes(rest[:size]), end_stream=size == len(rest))
        client.flush()
        rest = rest[size:]
    assert (await client.reply(number)).status == 201
    declared = client.request("POST", BASE, end=False, content_length=str(server.body_limit + 1))
    reply = await client.reply(declared)
    assert reply.status == 413
    zipped = client.request(
        "POST", BASE, gzip.compress(widget("z")), content_type="application/json", content_encoding="gzip"
    )
    assert (await client.reply(zipped)).status == 201


async def test_long_bodies_are_rejected_while_they_arrive(new_server):
    async with serve(new_server(body_limit=50_000), http2=True) as front:
        client = await HTTP2Client.connect(front)
        number = client.request("POST", BASE, b"x" * 60_000, end=False, content_type="application/json")
        reply = await client.reply(number)
        assert reply.status == 413
        await client.until(lambda: reply.reset is not None)
        assert reply.reset == ErrorCodes.NO_ERROR
        assert (await client.get("/version")).status == 200
        client.close()


async def test_slow_bodies_time_out(front, client):
    front.body_grace = 0.1
    number = client.request("POST", BASE, b"{", end=False, content_type="application/json")
    assert (await client.reply(number)).status == 408
    assert (await client.get("/version")).status == 200


async def test_a_client_that_expects_it_gets_100_continue(client):
    from h2.events import InformationalResponseReceived

    seen = []
    receive = client.h2.receive_data
    client.h2.receive_data = lambda data: [seen.append(type(each)) or each for each in receive(data)]
    number = client.request("POST", BASE, end=False, content_type="application/json", expect="100-continue")
    await client.until(lambda: InformationalResponseReceived in seen)
    client.h2.send_data(number, widget("expected"), end_stream=True)
    client.flush()
    assert (await client.reply(number)).status == 201


async def test_watches_and_requests_are_multiplexed(client, server):
    watch = client.request("GET", f"{BASE}?watch=1&resourceVersion=0")
    events = client.replies[watch]
    await client.until(lambda: events.status == 200)
    await create(client, "a")
    await client.until(lambda: b'"ADDED"' in events.body)
    client.h2.reset_stream(watch, ErrorCodes.CANCEL)
    client.flush()
    assert (await client.get(f"{BASE}/a")).status == 200
    cache = server.store("example.com", "widgets").watch_cache
    await eventually(lambda: cache.active == 0)


async def test_a_stream_that_is_not_read_does_not_block_others(front, handlers):
    handlers.size = 2_000_000
    client = await HTTP2Client.connect(front, window=100_000, acknowledges=False)
    long = client.request("GET", "/long")
    await client.until(lambda: len(client.replies[long].body) == 100_000)
    assert front.unsent.total == 2_000_000
    for _ in range(3):
        assert (await client.get("/version")).status == 200
    client.h2.increment_flow_control_window(3_000_000, long)
    client.flush()
    assert len((await client.reply(long)).body) == 2_000_000
    await eventually(lambda: front.unsent.total == 0)
    client.close()


async def test_responses_that_are_not_accepted_end_after_the_stall_timeout(front, handlers):
    handlers.size = 300_000
    front.stall_timeout = 0.5
    client = await HTTP2Client.connect(front, window=1000, acknowledges=False)
    reply = await client.reply(client.request("GET", "/long"))
    assert reply.reset == ErrorCodes.CANCEL
    await eventually(lambda: front.unsent.total == 0)
    assert (await client.get("/healthz")).status == 200
    client.close()


async def test_unsent_responses_are_limited(new_server):
    server = new_server()
    handlers = Handlers(server)
    handlers.size = 300_000
    async with serve(server, http2=True, max_unsent_bytes=500_000) as front:
        tls_groups = ("developers",)
        tls = context(front, groups=tls_groups)
        tls.set_alpn_protocols(["h2"])
        reader, writer = await asyncio.open_connection(front.host, front.port, ssl=tls)
        client = HTTP2Client(reader, writer, window=1000, acknowledges=False)
        first = client.request("GET", "/long")
        await client.until(lambda: len(client.replies[first].body) == 1000)
        assert (await client.get("/long")).status == 429
        client.close()


async def test_long_responses_are_compressed(client, handlers):
    handlers.size = 300_000
    reply = await client.get("/long", accept_encoding="gzip")
    assert reply.headers["content-encoding"] == "gzip"
    assert gzip.decompress(reply.body) == b"x" * 300_000


async def test_a_client_that_reads_nothing_is_disconnected(front, handlers):
    handlers.size = 200_000
    client = await HTTP2Client.connect(front)
    await client.get("/version")
    client.writer.transport.pause_reading()
    front.stall_timeout = 0.5
    for _ in range(200):
        client.request("GET", "/long")
    connection = next(iter(front.http2_connections))
    await eventually(lambda: not front.http2_connections)
    assert not connection.is_open
    await eventually(lambda: front.unsent.total == 0)
    client.close()


async def test_a_reset_cancels_the_request(client, handlers):
    number = client.request("GET", "/wait")
    await client.get("/version")
    await eventually(lambda: handlers.started)
    client.h2.reset_stream(number, ErrorCodes.CANCEL)
    client.flush()
    await eventually(lambda: handlers.cancelled)
    assert (handlers.started, handlers.cancelled) == (1, 1)
    assert (await client.get("/version")).status == 200


async def test_a_disconnect_cancels_all_requests(front, client, handlers):
    for _ in range(5):
        client.request("GET", "/wait")
    await eventually(lambda: handlers.started == 5)
    client.writer.transport.abort()
    await eventually(lambda: handlers.cancelled == 5)
    await eventually(lambda: not front.http2_connections)


async def test_rapid_resets_end_the_connection(client, monkeypatch, caplog):
    monkeypatch.setattr(http2, "MAX_RESETS", 50)
    with caplog.at_level(logging.WARNING, "kubewright.apiserver"):
        for _ in range(60):
            number = client.request("GET", "/wait")
            client.h2.reset_stream(number, ErrorCodes.CANCEL)
        client.flush()
        await client.wait_closed()
    assert client.goaway == ErrorCodes.ENHANCE_YOUR_CALM
    logged = [each.getMessage() for each in caplog.records if each.name == "kubewright.apiserver"]
    assert logged == ["closed HTTP/2 connection"]


async def test_concurrent_streams_are_limited(client, handlers, monkeypatch):
    monkeypatch.setattr(http2, "MAX_STREAMS", 3)
    numbers = [client.request("GET", "/wait") for _ in range(4)]
    assert (await client.reply(numbers[3])).reset == http2.NOT_PROCESSED
    handlers.release.set()
    assert [(await client.reply(number)).status for number in numbers[:3]] == [200] * 3


async def test_shutdown_finishes_requests_and_announces_the_end(new_server):
    server = new_server()
    handlers = Handlers(server)
    async with serve(server, http2=True) as front:
        client = await HTTP2Client.connect(front)
        number = client.request("GET", "/wait")
        await client.get("/version")
        stopping = asyncio.create_task(front.stop(60.0))
        reply = client.replies[number]
        client.h2._closed_streams.clear()
        frames = b""
        goaway = GoAwayFrame(0, last_stream_id=number + 2).serialize()
        async with asyncio.timeout(60):
            while goaway not in frames:
                frames += await client.reader.read(65536)
            handlers.release.set()
            while data := await client.reader.read(65536):
                frames += data
        await stopping
        kinds = [type(frame) for frame in parse(frames)]
        assert kinds.index(GoAwayFrame) < kinds.index(DataFrame)
        assert reply.reset is None
        client.close()


async def test_silent_clients_are_pinged_and_then_disconnected(monkeypatch, front, handlers):
    monkeypatch.setattr(http2, "PING_INTERVAL", 3600.0)
    client = await HTTP2Client.connect(front)
    client.request("GET", "/wait")
    await eventually(lambda: handlers.started)
    (connection,) = front.http2_connections
    # The test calls what the timer calls: a client that is only slow to respond must not be disconnected.
    for count in (1, 2):
        connection._bytes_received = False
        connection._check_alive()
        await client.until(lambda count=count: len(client.pings) == count)
        await eventually(lambda: connection._bytes_received)
        connection._check_alive()
    assert front.http2_connections
    client.flush = lambda: None
    client.h2.receive_data = lambda data: []
    monkeypatch.setattr(http2, "PING_INTERVAL", 0.02)
    connection._check_alive()
    await client.wait_closed()
    await eventually(lambda: not front.http2_connections)


async def test_idle_connections_are_closed(monkeypatch, front):
    monkeypatch.setattr(http2, "PING_INTERVAL", 0.02)
    monkeypatch.setattr(http2, "IDLE_TIMEOUT", 0.05)
    client = await HTTP2Client.connect(front)
    await client.get("/version")
    await client.wait_closed()
    assert client.goaway == ErrorCodes.NO_ERROR


async def test_connections_without_a_request_are_closed(new_server):
    async with serve(new_server(), http2=True, header_timeout=0.05) as front:
        client = await HTTP2Client.connect(front)
        await client.wait_closed()
        assert client.goaway == ErrorCodes.NO_ERROR


# Malformed frames.


def parse(data: bytes) -> list[Frame]:
    """Return the frames in received bytes."""
    frames = []
    view = memoryview(data)
    while len(view) >= 9:
        frame, length = Frame.parse_frame_header(view[:9])
        frame.parse_body(view[9 : 9 + length])
        frames.append(frame)
        view = view[9 + length :]
    return frames


async def exchange(front, data: bytes) -> list[Frame]:
    """Send bytes on a new connection; return the frames until the server closes it."""
    tls = context(front)
    tls.set_alpn_protocols(["h2"])
    reader, writer = await asyncio.open_connection(front.host, front.port, ssl=tls)
    writer.write(data)
    received = b""
    try:
        async with asyncio.timeout(60):
            while more := await reader.read(65536):
                received += more
    except (ConnectionError, ssl.SSLError):
        pass
    writer.close()
    return parse(received)


def headers(number: int, fields: list[tuple[str, str]], *flags: str) -> bytes:
    block = LiteralEncoder().encode([(name.encode(), value.encode()) for name, value in fields])
    return HeadersFrame(number, block, flags=flags).serialize()


GET = [(":method", "GET"), (":path", "/version"), (":scheme", "https"), (":authority", "x")]

MALFORMED = {
    "no preface": (b"GET / HTTP/1.1\r\n\r\n" + b"\0" * 30, ErrorCodes.PROTOCOL_ERROR),
    "data without a stream": (PREFACE + SETTINGS + DataFrame(1, b"x").serialize(), ErrorCodes.PROTOCOL_ERROR),
    "data on stream 0": (
        PREFACE + SETTINGS + b"\0\0\1\0\0\0\0\0\0x",
        ErrorCodes.PROTOCOL_ERROR,
    ),
    "even stream": (PREFACE + SETTINGS + headers(2, GET, "END_HEADERS"), ErrorCodes.PROTOCOL_ERROR),
    "frame too large": (PREFACE + SETTINGS + b"\xff\xff\xff\0\0\0\0\0\1", ErrorCodes.FRAME_SIZE_ERROR),
    "ping of 7 bytes": (PREFACE + SETTINGS + b"\0\0\7\6\0\0\0\0\0" + b"x" * 7, ErrorCodes.FRAME_SIZE_ERROR),
    "header block that is not HPACK": (
        PREFACE + SETTINGS + HeadersFrame(1, b"\xff" * 30, flags=("END_HEADERS",)).serialize(),
        ErrorCodes.PROTOCOL_ERROR,
    ),
    "upper-case header": (
        PREFACE + SETTINGS + headers(1, [*GET, ("X-A", "b")], "END_HEADERS", "END_STREAM"),
        ErrorCodes.PROTOCOL_ERROR,
    ),
    "connection header": (
        PREFACE + SETTINGS + headers(1, [*GET, ("connection", "close")], "END_HEADERS", "END_STREAM"),
        ErrorCodes.PROTOCOL_ERROR,
    ),
    "no method": (
        PREFACE + SETTINGS + headers(1, GET[1:], "END_HEADERS", "END_STREAM"),
        ErrorCodes.PROTOCOL_ERROR,
    ),
    "window overflow": (
        PREFACE + SETTINGS + WindowUpdateFrame(0, 2**31 - 1).serialize() * 2,
        ErrorCodes.FLOW_CONTROL_ERROR,
    ),
    "reset of an idle stream": (
        PREFACE + SETTINGS + RstStreamFrame(1, 8).serialize(),
        ErrorCodes.PROTOCOL_ERROR,
    ),
    "headers over the limit": (
        PREFACE
        + SETTINGS
        + headers(1, GET)
        + b"".join(
            ContinuationFrame(1, LiteralEncoder().encode([(b"x-%d" % number, b"y" * 16000)])[1:]).serialize()
            for number in range(57)
        )
        + ContinuationFrame(
            1,
            b"".join(LiteralEncoder().encode([(b"z", b"y" * 2000)])[1:] for _ in range(8)),
            flags=(),
        ).serialize()
        * 3
        + ContinuationFrame(
            1,
            b"".join(LiteralEncoder().encode([(b"z", b"")])[1:] for _ in range(3000)),
            flags=("END_HEADERS",),
        ).serialize(),
        ErrorCodes.ENHANCE_YOUR_CALM,
    ),
    "continuation flood": (
        PREFACE + SETTINGS + headers(1, GET) + ContinuationFrame(1, b"").serialize() * 100,
        ErrorCodes.PROTOCOL_ERROR,
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_malformed_frames_end_the_connection(front, name, caplog):
    data, code = MALFORMED[name]
    with caplog.at_level(logging.INFO):
        frames = await exchange(front, data)
    ends = [frame for frame in frames if isinstance(frame, GoAwayFrame)]
    assert [ErrorCodes(frame.error_code) for frame in ends] == [code]
    assert not [record for record in caplog.records if record.name.startswith(("kubewright", "asyncio"))]


def random_frame(rng: random.Random) -> bytes:
    """Return a frame whose type is valid and whose content is often not."""
    number = rng.choice((0, 1, 1, 1, 2, 3, 5, 2**31 - 1))
    stream = max(number, 1)
    junk = rng.randbytes(rng.randrange(40))
    fields = rng.sample(GET, rng.randrange(5)) + [("x", "y")] * rng.randrange(3)
    made = (
        lambda: headers(stream, fields, *rng.sample(("END_HEADERS", "END_STREAM"), rng.randrange(3))),
        lambda: headers(stream, GET, "END_HEADERS", "END_STREAM"),
        lambda: bytes((0, 0, len(junk), rng.randrange(12), rng.randrange(256))) + number.to_bytes(4) + junk,
        lambda: junk,
        lambda: DataFrame(stream, junk).serialize(),
        lambda: SettingsFrame(0, {rng.randrange(9): rng.randrange(2**32)}).serialize(),
        lambda: PingFrame(0, b"12345678").serialize(),
        lambda: WindowUpdateFrame(number, rng.randrange(1, 2**31)).serialize(),
        lambda: RstStreamFrame(stream, rng.randrange(20)).serialize(),
        lambda: PriorityFrame(stream, depends_on=rng.randrange(9)).serialize(),
        lambda: GoAwayFrame(0, error_code=rng.randrange(20)).serialize(),
    )
    return rng.choice(made)()


async def test_random_frames_never_cause_an_exception(new_server, caplog):
    """A connection ends with GOAWAY or goes on; nothing is logged, and no stream or task is left."""
    rng = random.Random(13)
    async with serve(new_server(), http2=True, header_timeout=30) as front:
        tls = context(front)
        tls.set_alpn_protocols(["h2"])
        with caplog.at_level(logging.INFO):
            for _ in range(150):
                reader, writer = await asyncio.open_connection(front.host, front.port, ssl=tls)
                data = b"" if rng.random() < 0.05 else PREFACE + SETTINGS
                data += b"".join(random_frame(rng) for _ in range(rng.randrange(1, 12)))
                writer.write(data)
                writer.write(PingFrame(0, b"complete").serialize())
                received = b""
                try:
                    async with asyncio.timeout(0.05):
                        while more := await reader.read(65536):
                            received += more
                            if b"complete" in received:
                                break
                except (TimeoutError, ConnectionError, ssl.SSLError):
                    pass
                writer.transport.abort()
        probe = await HTTP2Client.connect(front)
        assert (await probe.get("/version")).status == 200
        await eventually(lambda: len(front.http2_connections) == 1)
        probe.close()
    assert not [record for record in caplog.records if record.name.startswith(("kubewright", "asyncio"))]


def test_http2_on_uvloop(new_server):
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        server = new_server()
        handlers = Handlers(server)
        handlers.size = 1_000_000
        async with serve(server, http2=True) as front:
            client = await HTTP2Client.connect(front, window=65535)
            await create(client, "a")
            assert (await client.get(f"{BASE}/a")).status == 200
            assert len((await client.get("/long")).body) == 1_000_000
            client.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
