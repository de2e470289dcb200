"""Size limits of responses, logs and kubeconfigs."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubewright.api.errors import APIError
from kubewright.client import (
    Client,
    ClusterConfig,
    ConfigError,
    ConnectionFailed,
    ResponseTooLarge,
    RetryPolicy,
)
from kubewright.client.config import kubeconfig as limits
from kubewright.client.config.kubeconfig import Kubeconfig
from kubewright.client.streams.pod_log import MAX_LINE
from kubewright.client.transport.interface import MAX_SHORT_BODY

Writer = Callable[[asyncio.StreamWriter], None]


@asynccontextmanager
async def responding_server(
    write: Writer, *, retries: RetryPolicy | None = None
) -> AsyncIterator[tuple[Client, list[bytes]]]:
    """A client of a server that always returns the same response, and the requests it received."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                asked.append(await reader.readuntil(b"\r\n\r\n"))
                write(writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    config = ClusterConfig(server=f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    async with Client.connect(config, metrics=False, max_response_bytes=1000, retries=retries) as client:
        yield client, asked
    listener.close()


def whole(body: bytes, status: str = "200 OK", extra: str = "") -> Writer:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{extra}\r\n".encode()
    return lambda writer: writer.write(head + body)


def chunked(*chunks: bytes, status: str = "200 OK") -> Writer:
    head = f"HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return lambda writer: writer.write(head + body + b"0\r\n\r\n")


def document(length: int) -> bytes:
    return b'{"major": "' + b"1" * (length - 13) + b'"}'


@pytest.mark.parametrize(
    "write",
    [
        whole(document(1001)),
        chunked(document(1001)),
        chunked(*[document(1001)[start : start + 100] for start in range(0, 1001, 100)]),
        whole(gzip.compress(document(1001)), extra="Content-Encoding: gzip\r\n"),
        whole(gzip.compress(document(10_000_000)), extra="Content-Encoding: gzip\r\n"),
        lambda writer: writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"),
    ],
)
async def test_response_size_limit(write: Writer) -> None:
    async with responding_server(write) as (client, asked):
        with pytest.raises(ResponseTooLarge, match="longer than 1000 bytes; narrow the request"):
            await client.version()
        assert len(asked) == 1


@pytest.mark.parametrize(
    "write",
    [
        whole(document(1000)),
        chunked(document(1000)),
        whole(gzip.compress(document(1000)), extra="Content-Encoding: gzip\r\n"),
    ],
)
async def test_response_of_maximum_size(write: Writer) -> None:
    async with responding_server(write) as (client, _):
        assert len((await client.version())["major"]) == 987


@pytest.mark.parametrize("size", [b"-5", b"+5", b"1_0", b"", b"f" * 17, b"0x5"])
async def test_invalid_chunk_sizes(size: bytes) -> None:
    def write(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + size + b"\r\nhello\r\n")

    async with responding_server(write, retries=RetryPolicy(transient_attempts=0)) as (client, _):
        with pytest.raises(ConnectionFailed, match="invalid HTTP response"):
            await client.version()


async def test_streams_are_not_limited() -> None:
    async with responding_server(chunked(b"x" * 600, b"y" * 600 + b"\n", b"z")) as (client, _):
        assert await client.log("p", namespace="ns") == "x" * 600 + "y" * 600 + "\nz\n"


async def test_log_line_size_limit() -> None:
    async with responding_server(whole(b"a\n" + b"x" * (MAX_LINE + 1))) as (client, _):
        with pytest.raises(ResponseTooLarge, match="a line of more than 64 MiB"):
            await client.log("p", namespace="ns")


async def test_long_error_response_is_truncated() -> None:
    async with responding_server(chunked(*[b"x" * 65536] * 64, status="403 Forbidden")) as (client, _):
        with pytest.raises(APIError) as excinfo:
            await client.log("p", namespace="ns")
    assert excinfo.value.status_code == 403
    assert len(excinfo.value.message) <= MAX_SHORT_BODY + 1000


def entries(extra: str) -> str:
    return f"clusters: [{{name: c, cluster: {{server: 'https://x'}}}}]\n{extra}\n"


def test_kubeconfig_with_aliases_within_limits() -> None:
    text = entries("users:\n- &a {name: a, user: {token: t}}\n- {name: b, user: &u {token: u}}\n- *a")
    assert Kubeconfig.parse(text).users.keys() == {"a", "b"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (entries("x: " + "[" * 65 + "]" * 65), "<kubeconfig>:2: nested more than 64 levels deep"),
        ("[" * 1_000_000, "<kubeconfig>:1: nested more than 64 levels deep"),
        (entries("x: &a [1, *a]"), "<kubeconfig>:2: .a is part of the value it refers to"),
        (
            entries(
                "\n".join(
                    f"x{number}: &x{number} [{', '.join([f'*x{number - 1}' if number else 'lol'] * 10)}]"
                    for number in range(12)
                )
            ),
            "more than 500000 values, those of aliases included",
        ),
        ("x: 2024-99-99", "<kubeconfig>: month must be in"),
    ],
)
def test_hostile_kubeconfigs(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Kubeconfig.parse(text)


def test_kubeconfig_size_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_SIZE", 1 << 20)
    path = tmp_path / "config"
    path.write_text(entries("x: " + "y" * (1 << 20)))
    with pytest.raises(ConfigError, match=r"config: larger than 1 MiB; not a kubeconfig"):
        Kubeconfig.load([path])
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        Kubeconfig.load(["/dev/zero"])
