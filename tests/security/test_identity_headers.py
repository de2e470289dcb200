"""Hostile identities: whatever a user is called, exactly one request with exactly these headers arrives.

Every hop that writes headers is run with generated names, groups, keys and values: the aggregator (plain,
WebSocket, SPDY), the client, the pod proxy of kubelets, HTTP probes, and the responses of the server.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from aiohttp.http import HttpRequestParser
from aiohttp.http_exceptions import HttpProcessingError
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.security.examples import examples

from kubewright.api.errors import ServiceUnavailable
from kubewright.apiserver import APIServer, HTTPRequest, HTTPResponse
from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.http.responses import response_head
from kubewright.apiserver.in_process import InProcessTransport
from kubewright.client.config.cluster_config import ClusterConfig
from kubewright.client.transport.http import HTTPTransport
from kubewright.controlplane.aggregation.proxy import Proxy
from kubewright.controlplane.aggregation.remote import Remote, Service
from kubewright.storage.memory import MemoryStorage
from kubewright.tls.certificates import CertificateAuthority, KeyPair, server_context
from kubewright.workloads.nodes.kubelet_api.pod_proxy import send_to_pod
from kubewright.workloads.nodes.processes.handlers import _http_get

SMUGGLED = (
    "x\r\nHost: h\r\n\r\nDELETE /apis/s.io/v1/pizzas/a HTTP/1.1\r\nX-Remote-Group: system:masters\r\n\r\n"
)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"

texts = st.one_of(
    st.text(st.sampled_from("ab:\r\n\t \0\x01\x7f\x85\xa0\u2028\udcff\ud800é%_-/"), min_size=1, max_size=12),
    st.text(min_size=1, max_size=8),
    st.sampled_from([SMUGGLED, "system:masters\n", "\tsystem:masters", "system:mast\udcffers"]),
)
users = st.builds(
    User,
    texts,
    st.lists(texts, max_size=3).map(tuple),
    st.one_of(st.just(""), texts),
    st.dictionaries(texts, st.lists(texts, min_size=1, max_size=2).map(tuple), max_size=2),
)


class Recorder:
    """A server that records the bytes of each connection and responds with `OK`."""

    def __init__(self) -> None:
        self.received: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        position = len(self.received)
        self.received.append(b"")
        try:
            while data := await reader.read(65536):
                self.received[position] += data
                if b"\r\n\r\n" in self.received[position]:
                    writer.write(OK)
                    writer.close()
        except OSError:
            pass

    def requests(self) -> list[Any]:
        """Return the requests that a server finds in the received bytes, and forget them."""
        found: list[Any] = []
        for data in self.received:
            found += parse(data)
        self.received.clear()
        return found


def parse(data: bytes) -> list[Any]:
    """Return the requests in received bytes; fails if they are not valid HTTP."""
    loop = asyncio.new_event_loop()
    try:
        parser = HttpRequestParser(_Protocol(), loop, 2**16, max_field_size=2**16, max_line_size=2**16)
        messages, _, rest = parser.feed_data(data)
    except HttpProcessingError as error:
        raise AssertionError(f"invalid request {data!r}: {error}") from None
    finally:
        loop.close()
    assert not rest
    return [message for message, _ in messages]


class _Protocol:
    _reading_paused = False

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority.create()


@pytest.fixture(scope="module")
def front_proxy(authority: CertificateAuthority) -> KeyPair:
    return authority.issue("front-proxy")


@pytest.fixture(scope="module")
def tls(authority: CertificateAuthority) -> ssl.SSLContext:
    return server_context(authority.issue("server", hosts=("127.0.0.1",), server=True))


def escaped(value: str) -> str:
    """Return what arrives of a value: control characters are spaces, what cannot be encoded is U+FFFD."""
    control = dict.fromkeys((*range(9), *range(10, 32), 127), " ")
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in value.translate(control))


def identity(headers: Any) -> tuple[Any, ...]:
    """Return the user that an extension API server reads from headers."""
    extra: dict[str, list[str]] = {}
    for name, value in headers.items():
        if name.lower().startswith("x-remote-extra-"):
            extra.setdefault(unquote(name.lower().removeprefix("x-remote-extra-")), []).append(value)
    return (
        headers.getall("X-Remote-User"),
        headers.getall("X-Remote-Group", []),
        headers.getall("X-Remote-Uid", []),
        extra,
    )


def expected(user: User) -> tuple[Any, ...]:
    extra: dict[str, list[str]] = {}
    for key, values in user.extra.items():
        # The names of headers have no case; Kubernetes requires lower-case keys.
        lowered = "".join(char.lower() if char.isascii() else char for char in escaped_key(key))
        extra.setdefault(lowered, []).extend(escaped(value) for value in values)
    groups = [escaped(group) for group in user.groups]
    return ([escaped(user.name)], groups, [escaped(user.uid)] if user.uid else [], extra)


def escaped_key(key: str) -> str:
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in key)


def is_sendable(user: User) -> bool:
    """Whether no value has space at its ends, which HTTP would remove."""
    values = [user.name, user.uid, *user.groups, *(each for one in user.extra.values() for each in one)]
    return all(escaped(value).strip(" \t") == escaped(value) for value in values)


UPGRADES: dict[str, dict[str, str]] = {
    "plain": {},
    "spdy": {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"},
    "websocket": {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    },
}


@pytest.mark.parametrize("upgrade", UPGRADES)
@settings(max_examples=examples(60))
@example(user=User("jane", ("dev",), "1", {"team": (SMUGGLED,)}))
@example(user=User("jane", ("dev",), "1", {SMUGGLED: ("a",)}))
@example(user=User("jane", ("system:mast\udcffers",)))
@example(user=User("jane", ("system:masters\r\n",)))
@given(user=users)
def test_the_aggregator_forwards_one_request_with_the_identity(
    upgrade: str, user: User, front_proxy: KeyPair, tls: ssl.SSLContext
) -> None:
    async def scenario() -> None:
        recorder = Recorder()
        server = await asyncio.start_server(recorder.serve, "127.0.0.1", 0, ssl=tls)

        async def resolve(namespace: str, name: str, port: int) -> tuple[str, int]:
            return server.sockets[0].getsockname()[:2]  # type: ignore[no-any-return]

        remote = Remote(resolve, lambda: front_proxy)
        proxy = Proxy(remote, Service("default", "s", 443, "", True))
        proxy.available = True
        request = HTTPRequest("GET", "/apis/s.io/v1/pizzas", headers=UPGRADES[upgrade], user=user)
        request.audit_id = "1"
        try:
            response = await proxy(request)
        except ServiceUnavailable as error:
            assert "invalid header field value" in error.message  # noqa: PT017
            assert not is_sendable(user)
        else:
            assert response.status == 200
            assert is_sendable(user)
        finally:
            await remote.close()
            server.close()
            await server.wait_closed()
        found = recorder.requests()
        if is_sendable(user):
            # A rejected WebSocket handshake is repeated without an upgrade, for the body of the response.
            assert len(found) == (2 if upgrade == "websocket" else 1)
        for each in found:
            assert (each.method, each.path) == ("GET", "/apis/s.io/v1/pizzas")
            assert identity(each.headers) == expected(user)
            assert each.headers.getall("Audit-Id") == ["1"]

    run(scenario)


@settings(max_examples=examples(60))
@example(user="jane\r\nX-Other: yes", value="a")
@given(user=texts, value=texts)
def test_the_client_sends_one_request_or_rejects_the_header(user: str, value: str) -> None:
    async def scenario() -> None:
        recorder = Recorder()
        server = await asyncio.start_server(recorder.serve, "127.0.0.1", 0)
        transport = HTTPTransport(
            ClusterConfig(server=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"), environ={}
        )
        headers = {"Impersonate-User": user, "X-Value": value}
        is_clean = all(escaped(each) == escaped_key(each) for each in (user, value))
        try:
            await transport.send("GET", "/version", headers=headers)
        except ValueError as error:
            assert "invalid header field value" in str(error)  # noqa: PT017
            assert not is_clean
        else:
            assert is_clean
        await transport.aclose()
        server.close()
        await server.wait_closed()
        found = recorder.requests()
        assert len(found) == (1 if is_clean else 0)
        for each in found:
            assert each.headers.getall("Impersonate-User") == [escaped(user).strip(" \t")]
            assert each.headers.getall("X-Value") == [escaped(value).strip(" \t")]

    run(scenario)


class _Runtime:
    """A runtime whose pods record what is forwarded to a port."""

    def __init__(self) -> None:
        self.received = b""

    async def port_forward(self, pod: Any, port: int, stream: Any) -> None:
        self.received = await stream.receive()
        await stream.send(OK)


@settings(max_examples=examples(60))
@example(value=SMUGGLED)
@given(value=texts)
def test_a_pod_receives_one_request(value: str) -> None:
    runtime: Any = _Runtime()

    async def scenario() -> None:
        pod = {"status": {"podIP": value}}
        response = await send_to_pod(runtime, pod, 80, "GET", "/a", [("X-Value", value)], b"")
        assert response.status == 200

    run(scenario)
    (found,) = parse(runtime.received)
    assert found.path == "/a"
    assert found.headers.getall("X-Value") == [escaped(value).strip(" \t")]
    assert set(found.headers) == {"Host", "Connection", "X-Value"}


@settings(max_examples=examples(40))
@example(value=SMUGGLED, name="x")
@example(value="a", name=SMUGGLED)
@given(value=texts, name=texts)
def test_an_http_probe_sends_one_request_or_fails(value: str, name: str) -> None:
    async def scenario() -> None:
        recorder = Recorder()
        server = await asyncio.start_server(recorder.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        probe = {"port": port, "path": "/healthz", "httpHeaders": [{"name": name, "value": value}]}
        result = await _http_get(probe, {})
        server.close()
        await server.wait_closed()
        found = recorder.requests()
        assert len(found) == (1 if result.succeeded else 0)
        if not result.succeeded:
            assert "invalid header field" in result.output
        for each in found:
            assert each.path == "/healthz"
            assert name in each.headers

    run(scenario)


@settings(max_examples=examples(100))
@given(value=texts)
def test_a_response_has_no_more_headers_than_it_was_given(value: str) -> None:
    response = HTTPResponse(200, b"ok", content_type=value, headers={"X-Value": value, "X-All": [value, "b"]})
    head = response_head(response, 2, close=True)
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    assert first == b"HTTP/1.1 200 OK"
    sent = escaped(value).strip(" \t").encode()
    fields = [line.split(b":", 1) for line in lines if not line.startswith(b"Date")]
    assert [(name, field.strip(b" \t")) for name, field in fields] == [
        (b"Content-Type", sent),
        (b"Content-Length", b"2"),
        (b"X-Value", sent),
        (b"X-All", sent),
        (b"X-All", b"b"),
        (b"Connection", b"close"),
    ]
    assert b"\n" not in head.replace(b"\r\n", b"")


class _Claims:
    """Authenticates every request as one user."""

    def __init__(self, user: User) -> None:
        self._user = user

    async def authenticate(self, request: HTTPRequest) -> User | None:
        return self._user


@pytest.mark.parametrize("headers", [{}, UPGRADES["spdy"]], ids=["plain", "spdy"])
async def test_an_identity_that_cannot_be_sent_is_no_internal_error(
    headers: dict[str, str],
    front_proxy: KeyPair,
    tls: ssl.SSLContext,
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorder = Recorder()
    listener = await asyncio.start_server(recorder.serve, "127.0.0.1", 0, ssl=tls)

    async def resolve(namespace: str, name: str, port: int) -> tuple[str, int]:
        return listener.sockets[0].getsockname()[:2]  # type: ignore[no-any-return]

    remote = Remote(resolve, lambda: front_proxy)
    proxy = Proxy(remote, Service("default", "s", 443, "", True))
    proxy.available = True
    for group, status in (("system:masters\n", 503), ("a\r\nb", 200), ("a\0b", 200)):
        server = APIServer(
            MemoryStorage(), authenticator=_Claims(User("jane", ("system:authenticated", group)))
        )
        server.add_prefix_handler("/apis/s.io/", proxy)
        async with server:
            with caplog.at_level(logging.ERROR):
                response = await server.handle(HTTPRequest("GET", "/apis/s.io/v1/pizzas", headers=headers))
        assert response.status == status, response.body
    assert not [record for record in caplog.records if record.exc_info]
    assert len(recorder.requests()) == 2
    await remote.close()
    listener.close()
    await listener.wait_closed()


@pytest.mark.parametrize("http2", [False, True])
async def test_undecodable_bytes_in_headers_are_no_internal_error(
    http2: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`Impersonate-User: \\xff` is a user that does not exist, not a failure of the server."""
    from kubewright.apiserver import serve

    server = APIServer(MemoryStorage())
    async with serve(server, http2=http2) as front, asyncio.timeout(60):
        assert front.authority is not None
        front.authority.issue("admin", groups=("system:masters",)).write(tmp_path / "c", tmp_path / "k")
        context = ssl.create_default_context(cadata=front.authority_pem.decode())
        context.load_cert_chain(tmp_path / "c", tmp_path / "k")
        if http2:
            context.set_alpn_protocols(["h2"])
        for name in ("Impersonate-User", "Impersonate-Group", "User-Agent", "Audit-ID", "Accept"):
            reader, writer = await asyncio.open_connection("127.0.0.1", front.port, ssl=context)
            if http2:
                status = await _request_http2(reader, writer, name.lower().encode())
            else:
                head = b"GET /api/unknown HTTP/1.1\r\nHost: h\r\n%s: \xff\r\nConnection: close\r\n\r\n"
                writer.write(head % name.encode())
                status = int((await reader.read()).split(b" ", 2)[1])
            writer.close()
            assert 400 <= status < 500, (name, status)
    assert not [record for record in caplog.records if record.exc_info]


async def _request_http2(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: bytes) -> int:
    from h2.config import H2Configuration
    from h2.connection import H2Connection
    from h2.events import ResponseReceived

    connection = H2Connection(H2Configuration(validate_outbound_headers=False))
    connection.initiate_connection()
    pseudo = [(b":method", b"GET"), (b":path", b"/api/\xff"), (b":scheme", b"https"), (b":authority", b"h")]
    connection.send_headers(1, [*pseudo, (name, b"\xff")], end_stream=True)
    writer.write(connection.data_to_send())
    while data := await reader.read(65536):
        for event in connection.receive_data(data):
            if isinstance(event, ResponseReceived):
                fields = dict(event.headers or ())
                return int(fields.get(b":status") or fields[":status"])  # type: ignore[call-overload]
    raise AssertionError("no response")


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Iterator[None]:
    """Broken connections of the recorder are part of the tests."""
    logger = logging.getLogger("asyncio")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


async def test_an_encoded_question_mark_does_not_begin_a_query() -> None:
    """The query decides what a request does (`?timeout=`, `?dryRun=`): only a plain `?` begins it."""
    server = APIServer(MemoryStorage())
    seen: list[tuple[str, str]] = []

    async def record(request: HTTPRequest) -> HTTPResponse:
        seen.append((request.path, request.query.raw))
        return HTTPResponse(200)

    server.add_prefix_handler("/a/", record)

    async with server:
        transport = InProcessTransport(server, user=User("jane", ("system:masters", "system:authenticated")))
        await transport.send("GET", "/a/b%3Fc=d", "e=f")
        await transport.send("GET", "/a/b%3Fc=d")
    assert seen == [("/a/b?c=d", "e=f"), ("/a/b?c=d", "")]
