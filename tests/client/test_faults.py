"""Network and server faults, from a scripted server."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import random
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kubewright.api import Expired, NotFound, ServiceUnavailable, TooManyRequests
from kubewright.api.core.v1 import ConfigMap
from kubewright.client import (
    Backoff,
    Client,
    ClusterConfig,
    ConnectionFailed,
    HTTPTransport,
    RetryPolicy,
    TokenBucket,
    merge_patch,
)

Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]
OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "5"}}


def reply(body: Any, status: int = 200, **headers: str) -> Reply:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(data)}", "Content-Type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + data)

    return write


def status(code: int, reason: str, message: str = "no") -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


def cut(data: bytes) -> Reply:
    """Send some bytes, then close the connection."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        writer.transport.abort()

    return write


def chunks(*pieces: bytes, end: bool = True) -> Reply:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in pieces:
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        if end:
            writer.write(b"0\r\n\r\n")

    return write


async def silence(writer: asyncio.StreamWriter) -> None:
    """Never respond."""


class Scripted:
    """Returns its replies in order, the last one repeatedly; records the requests."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.connections = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head[1:] if line)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                self.requests.append((head[0], headers, body))
                await (self.replies.pop(0) if len(self.replies) > 1 else self.replies[0])(writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncIterator[Client]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self.slept: list[float] = []

        async def sleep(seconds: float) -> None:
            self.slept.append(seconds)
            await asyncio.sleep(0)

        config = options.pop("config", {})
        transport = HTTPTransport(ClusterConfig(server=f"http://127.0.0.1:{self.port}", **config))
        try:
            yield Client.from_transport(
                transport, server="the test server", sleep=sleep, rng=random.Random(1), **options
            )
        finally:
            await transport.aclose()
            server.close()


async def test_retry_after_of_429_is_respected(caplog: pytest.LogCaptureFixture) -> None:
    busy = reply(status(429, "TooManyRequests", "slow down"), 429, Retry_After="3")
    server = Scripted(busy, busy, busy, reply(OBJECT))
    with caplog.at_level(logging.INFO, "kubewright.client"):
        async with server.running() as client:
            assert (await client.get(ConfigMap, "a")).metadata.name == "a"
    assert len(server.requests) == 4
    assert len(server.slept) == 3
    assert all(3 <= each <= 4.5 for each in server.slept)
    records = [record for record in caplog.records if record.name.startswith("kubewright.")]
    assert [record.levelname for record in records] == ["WARNING", "INFO"]
    outage = records[0]
    assert (outage.server, outage.error, outage.retry_after) == ("the test server", "429: slow down", 3.0)


async def test_retry_after_attempts_are_limited() -> None:
    server = Scripted(reply(status(429, "TooManyRequests"), 429, Retry_After="1"))
    async with server.running(retries=RetryPolicy(retry_after_attempts=3)) as client:
        with pytest.raises(TooManyRequests):
            await client.patch(ConfigMap, "a", merge_patch({}))
    assert len(server.requests) == 4


async def test_writes_are_not_retried_without_retry_after() -> None:
    server = Scripted(reply(status(503, "ServiceUnavailable"), 503))
    async with server.running() as client:
        with pytest.raises(ServiceUnavailable):
            await client.delete(ConfigMap, "a")
        assert len(server.requests) == 1
        with pytest.raises(ServiceUnavailable):
            await client.get(ConfigMap, "a")
        assert len(server.requests) == 1 + 5
    server = Scripted(cut(b"HTTP/1.1 200 OK\r\nContent-Le"), reply(OBJECT))
    async with server.running() as client:
        with pytest.raises(ConnectionFailed, match="closed by the server"):
            await client.patch(ConfigMap, "a", merge_patch({}))
    assert len(server.requests) == 1


@pytest.mark.parametrize("broken", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", b"HTTP/1.1 2"])
async def test_reads_are_retried_after_connection_failure(broken: bytes) -> None:
    server = Scripted(cut(broken), cut(broken), reply(OBJECT))
    async with server.running() as client:
        assert (await client.get(ConfigMap, "a")).metadata.name == "a"
    assert len(server.requests) == 3
    assert len(server.slept) == 2


async def test_closed_idle_connection_is_replaced_without_backoff() -> None:
    async def reply_and_close(writer: asyncio.StreamWriter) -> None:
        await reply(OBJECT)(writer)

    server = Scripted(reply_and_close, cut(b""), reply(OBJECT))
    async with server.running() as client:
        await client.get(ConfigMap, "a")
        await client.get(ConfigMap, "a")
    assert server.slept == []
    assert server.connections == 2


async def test_outage_is_logged_once_with_its_end(
    caplog: pytest.LogCaptureFixture, reserved_port: int
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    gone = Client.from_transport(
        HTTPTransport(ClusterConfig(server=f"http://127.0.0.1:{reserved_port}")), sleep=sleep
    )
    with pytest.raises(ConnectionFailed, match="cannot be reached"):
        await gone.delete(ConfigMap, "a")
    assert len(slept) == 4
    assert slept == sorted(slept)
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len([record for record in warnings if record.name.startswith("kubewright.")]) == 1


async def test_timeout_error_names_the_request() -> None:
    async with Scripted(silence).running() as client:
        with pytest.raises(
            TimeoutError, match=r"GET /api/v1/namespaces/default/configmaps/a: no response within 0.05 s"
        ):
            await client.with_timeout(0.05).get(ConfigMap, "a")


async def test_token_is_renewed_once_after_401(tmp_path: Any) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    async def judge(writer: asyncio.StreamWriter) -> None:
        good = server.requests[-1][1]["authorization"] == "Bearer new"
        token.write_text("new")
        await (reply(OBJECT) if good else reply(status(401, "Unauthorized"), 401))(writer)

    server = Scripted(judge)
    async with server.running(config={"token_file": str(token)}) as client:
        await client.get(ConfigMap, "a")
        await client.get(ConfigMap, "a")
    assert [each[1]["authorization"] for each in server.requests] == [
        "Bearer old",
        "Bearer new",
        "Bearer new",
    ]


async def test_chunked_and_gzip_responses() -> None:
    body = json.dumps(OBJECT).encode()
    packed = gzip.compress(body)
    server = Scripted(
        chunks(*(body[n : n + 1] for n in range(len(body)))),
        reply(packed, Content_Encoding="gzip"),
        reply(packed[:-9], Content_Encoding="gzip"),
    )
    async with server.running() as client:
        assert (await client.get(ConfigMap, "a")).metadata.name == "a"
        assert (await client.get(ConfigMap, "a")).metadata.name == "a"
        with pytest.raises(ConnectionFailed, match="truncated"):
            await client.delete(ConfigMap, "a")


async def test_invalid_http_and_json_errors() -> None:
    server = Scripted(cut(b"SSH-2.0-hello\r\n\r\n"), reply(b"<html>gone", 404), reply(b"nonsense"))
    async with server.running() as client:
        with pytest.raises(ConnectionFailed, match="invalid HTTP response"):
            await client.delete(ConfigMap, "a")
        with pytest.raises(NotFound, match=r"could not find the requested resource .*configmaps a"):
            await client.get(ConfigMap, "a")
        with pytest.raises(ValueError, match="does not match class ConfigMap"):
            await client.get(ConfigMap, "a")


async def test_warning_is_logged_once() -> None:
    warned: list[str] = []
    server = Scripted(reply(OBJECT, Warning='299 - "v1 is \\"old\\"", 299 - "two"'))
    async with server.running(on_warning=warned.append) as client:
        await client.get(ConfigMap, "a")
        await client.get(ConfigMap, "a")
    assert warned == ['v1 is "old"', "two"]


async def test_header_injection_is_rejected() -> None:
    server = Scripted(reply(OBJECT))
    async with server.running() as client:
        with pytest.raises(ValueError, match="line break"):
            await client.with_impersonation("jane\r\nX-Other: yes").get(ConfigMap, "a")
        await client.get(ConfigMap, "a/../../b?x=1 HTTP/1.1\r\n")
    assert server.requests[0][0].startswith("GET /api/v1/namespaces/default/configmaps/a%2F..%2F..%2Fb%3Fx")


async def test_rate_limit_delays_requests() -> None:
    now = [0.0]

    async def sleep(seconds: float) -> None:
        now[0] += seconds

    bucket = TokenBucket(10, 2, clock=lambda: now[0], sleep=sleep)
    for _ in range(12):
        await bucket.acquire()
    assert now[0] == pytest.approx(1.0)


def event(kind: str, version: int, **more: Any) -> bytes:
    item = {**OBJECT, "metadata": {"name": "a", "resourceVersion": str(version)}, **more}
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


def error_event(code: int, reason: str, message: str = "no") -> bytes:
    return json.dumps({"type": "ERROR", "object": status(code, reason, message)}).encode() + b"\n"


async def test_watch_resumes_after_failures(caplog: pytest.LogCaptureFixture) -> None:
    whole = event("ADDED", 6) + event("MODIFIED", 7)
    server = Scripted(
        chunks(whole[:40], whole[40:] + event("BOOKMARK", 9)),
        chunks(event("MODIFIED", 10), event("MODIFIED", 11)[:30], end=True),
        cut(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"),
        chunks(event("MODIFIED", 11)),
        chunks(event("MODIFIED", 12) + error_event(500, "InternalError")),
        chunks(event("MODIFIED", 13) + error_event(410, "Expired", "too old")),
    )
    async with server.running() as client:
        seen = []
        watch = client.watch(ConfigMap, namespace="default", resource_version="5")
        watch._backoff = Backoff(initial=0.001)
        with pytest.raises(Expired, match="too old"):
            async for each in watch:
                seen.append(each.object.metadata.resource_version)
    assert seen == ["6", "7", "10", "11", "12", "13"]
    asked = [
        dict(part.split("=") for part in each[0].split(" ")[1].split("?")[1].split("&"))
        for each in server.requests
    ]
    assert [each["resourceVersion"] for each in asked] == ["5", "9", "10", "10", "11", "12"]


async def test_watch_backs_off_when_requests_end_immediately() -> None:
    server = Scripted(chunks())
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 6:
            raise asyncio.CancelledError

    async with server.running() as client:
        watch = client.watch(ConfigMap, resource_version="5")
        watch._backoff, watch._sleep = Backoff(rng=random.Random(1)), sleep
        with pytest.raises(asyncio.CancelledError):
            await anext(watch)
    assert len(server.requests) == 6
    assert all(0.8 * 2**n <= each <= 1.6 * 2**n for n, each in enumerate(slept[:5]))


async def test_idle_watch_times_out() -> None:
    server = Scripted(chunks(event("ADDED", 6), end=False))
    async with server.running() as client:
        watch = await client.watch_raw(ConfigMap, idle_timeout=0.05)
        events = aiter(watch)
        assert (await anext(events)).type == "ADDED"
        with pytest.raises(ConnectionFailed, match="no data received"):
            await anext(events)


async def test_expired_continue_token_restarts_the_list() -> None:
    def page(*names: str, token: str = "") -> dict[str, Any]:
        items = [{"metadata": {"name": name}} for name in names]
        meta = {"resourceVersion": "9", "continue": token}
        return {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": meta, "items": items}

    replies = (
        reply(page("a", "b", token="t")),
        reply(status(410, "Expired"), 410),
        reply(page("a", "b", "c")),
    )
    async with Scripted(*replies).running() as client:
        assert [each.metadata.name for each in await client.list(ConfigMap)] == ["a", "b", "c"]
    async with Scripted(*replies).running() as client:
        assert [each.metadata.name async for each in client.list(ConfigMap)] == ["a", "b", "c"]


def test_client_works_in_a_second_event_loop() -> None:
    server, listening, over = Scripted(reply(OBJECT)), threading.Event(), threading.Event()

    async def listen() -> None:
        listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        server.port = listener.sockets[0].getsockname()[1]
        listening.set()
        await asyncio.to_thread(over.wait)
        listener.close()  # without waiting for the connections, which no event loop of the client closes

    thread = threading.Thread(target=asyncio.run, args=(listen(),))
    thread.start()
    listening.wait()
    client = Client.from_transport(HTTPTransport(ClusterConfig(server=f"http://127.0.0.1:{server.port}")))

    async def name() -> str | None:
        return (await client.get(ConfigMap, "a")).metadata.name

    assert [asyncio.run(name()) for _ in range(2)] == ["a", "a"]
    over.set()
    thread.join()


async def test_fully_read_stream_releases_its_connection() -> None:
    server = Scripted(chunks(event("ADDED", 6)), reply(OBJECT))
    async with server.running() as client:
        assert [each.type async for each in await client.watch_raw(ConfigMap)] == ["ADDED"]
        await client.get(ConfigMap, "a")
    assert server.connections == 1
