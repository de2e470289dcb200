"""HTTP, HTTPS and SOCKS5 proxies, with and without a password."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kubewright.apiserver import APIServer, HTTPRequest, HTTPResponse, serve
from kubewright.client import Client, ClusterConfig, ConnectionFailed, HTTPTransport, PEMData
from kubewright.storage import MemoryStorage
from kubewright.tls.certificates import CertificateAuthority

AUTHORITY = CertificateAuthority.create()
"""Of the server and, unless a test says otherwise, of the proxy."""


class Proxy:
    """A proxy that connects every host name to this machine."""

    def __init__(self, scheme: str, login: str = "") -> None:
        self.scheme = scheme
        self.login = login
        self.port = 0
        self.asked: list[str] = []
        self.response = b"HTTP/1.1 200 Connection established\r\n\r\n"
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(
        self, folder: Path, authority: CertificateAuthority = AUTHORITY
    ) -> AsyncIterator[Proxy]:
        context = None
        if self.scheme == "https":
            pair = authority.issue("proxy", hosts=["localhost"], server=True)
            (folder / "proxy.pem").write_bytes(pair.certificate + pair.key)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(folder / "proxy.pem")
        listener = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=context)
        self.port = listener.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            listener.close()
            for task in self._tasks:
                task.cancel()

    @property
    def url(self) -> str:
        login = f"{self.login}@" if self.login else ""
        return f"{self.scheme}://{login}localhost:{self.port}"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            port = await (self._socks if self.scheme == "socks5" else self._http)(reader, writer)
            if port:
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
                await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        except (asyncio.CancelledError, asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    async def _http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        wanted = base64.b64encode(self.login.encode()).decode()
        if self.login and f"Proxy-Authorization: Basic {wanted}\r\n" not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            return 0
        method, target, _ = head.split(" ", 2)
        self.asked.append(f"{method} {target}")
        if method != "CONNECT":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n" + b'{"major": "7"}')
            return 0
        writer.write(self.response)
        return int(target.rsplit(":", 1)[1])

    async def _socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        version, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        assert version == 5
        method = 2 if self.login else 0
        writer.write(bytes([5, method if method in methods else 255]))
        if method not in methods:
            return 0
        if self.login:
            _, size = await reader.readexactly(2)
            name = (await reader.readexactly(size)).decode()
            password = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
            writer.write(bytes([1, f"{name}:{password}" != self.login]))
            if f"{name}:{password}" != self.login:
                return 0
        _, command, _, kind = await reader.readexactly(4)
        assert command == 1
        size = {1: 4, 4: 16}.get(kind) or (await reader.readexactly(1))[0]
        host = await reader.readexactly(size)
        port = int.from_bytes(await reader.readexactly(2), "big")
        self.asked.append(f"{kind} {host.decode() if kind == 3 else host.hex()}:{port}")
        known = host in (b"api.example.com", b"\x7f\0\0\1")
        writer.write(bytes([5, 0 if known else 4, 0, 3, 1]) + b"x\0\0")
        return port if known else 0


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        sink.write(data)
        await sink.drain()
    sink.close()


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """The port of a server that is known as api.example.com."""
    server = APIServer(MemoryStorage())

    async def echo(request: HTTPRequest) -> HTTPResponse:
        async def handle(socket: Any) -> None:
            await socket.send(b"heard " + await socket.receive())

        return HTTPResponse(101, websocket=handle, protocols=("v5.channel.k8s.io",))

    server.add_handler("/echo", echo)
    async with serve(server, hosts=("api.example.com",), authority=AUTHORITY) as front:
        yield front.port


async def failure(settings: ClusterConfig) -> ConnectionFailed:
    """Return the error of the transport; a `Client` would retry."""
    transport = HTTPTransport(settings)
    with pytest.raises(ConnectionFailed) as excinfo:
        await transport.send("GET", "/version")
    await transport.aclose()
    assert not excinfo.value.sent
    return excinfo.value


def config(port: int, proxy: Proxy, host: str = "api.example.com", **more: Any) -> ClusterConfig:
    pair = AUTHORITY.issue("admin", groups=["system:masters"])
    settings = {
        "server": f"https://{host}:{port}",
        "ca": PEMData(data=AUTHORITY.certificate),
        "client_certificate": PEMData(data=pair.certificate),
        "client_key": PEMData(data=pair.key),
        "proxy_url": proxy.url,
    }
    return ClusterConfig(**{**settings, **more})


@pytest.mark.parametrize("login", ["", "me:secret"])
@pytest.mark.parametrize("scheme", ["http", "https", "socks5"])
async def test_requests_through_proxy(scheme: str, login: str, port: int, tmp_path: Path) -> None:
    async with Proxy(scheme, login).running(tmp_path) as proxy:
        async with Client.connect(config(port, proxy), metrics=False) as client:
            assert (await client.version())["major"]
            assert (await client.version())["major"]
        assert len(proxy.asked) == 1
        assert proxy.asked[0].endswith(f" api.example.com:{port}")


@pytest.mark.parametrize("login", ["", "me:secret"])
@pytest.mark.parametrize("scheme", ["http", "https", "socks5"])
async def test_websockets_through_proxy(scheme: str, login: str, port: int, tmp_path: Path) -> None:
    async with Proxy(scheme, login).running(tmp_path) as proxy:
        transport = HTTPTransport(config(port, proxy))
        socket = await transport.websocket("/echo", protocols=("v5.channel.k8s.io",), timeout=60)
        message = b"x" * 200_000
        await socket.send(message)
        assert await socket.receive() == b"heard " + message
        await socket.close()
        await transport.aclose()
        assert proxy.asked[0].endswith(f" api.example.com:{port}")


@pytest.mark.parametrize("scheme", ["http", "https", "socks5"])
async def test_wrong_proxy_password_error(scheme: str, port: int, tmp_path: Path) -> None:
    async with Proxy(scheme, "me:secret").running(tmp_path) as proxy:
        for login in ("me:wrong@", ""):
            url = f"{scheme}://{login}localhost:{proxy.port}"
            message = str(await failure(config(port, proxy, proxy_url=url)))
            assert message.startswith(f"the proxy {scheme}://localhost:{proxy.port} rejected")
            assert "wrong" not in message


async def test_untrusted_proxy_certificate(port: int, tmp_path: Path) -> None:
    async with Proxy("https").running(tmp_path, CertificateAuthority.create()) as proxy:
        message = str(await failure(config(port, proxy)))
        assert message.startswith(f"the proxy https://localhost:{proxy.port} has an untrusted certificate")
        assert not proxy.asked
        careless = config(port, proxy, ca=None, insecure_skip_tls_verify=True)
        async with Client.connect(careless, metrics=False) as client:
            assert (await client.version())["major"]


async def test_untrusted_server_certificate_behind_proxy(port: int, tmp_path: Path) -> None:
    async with Proxy("https").running(tmp_path) as proxy:
        message = str(await failure(config(port, proxy, host="other.example.com")))
        assert message.startswith(
            f"https://other.example.com:{port} has an untrusted certificate: Hostname mismatch"
        )


async def test_http_server_through_proxy_uses_absolute_url(tmp_path: Path) -> None:
    for scheme in ("http", "https"):
        async with Proxy(scheme).running(tmp_path) as proxy:
            plain = config(
                0, proxy, server="http://api.example.com", client_certificate=None, client_key=None
            )
            async with Client.connect(plain, metrics=False) as client:
                assert (await client.version())["major"] == "7"
            assert proxy.asked == ["GET http://api.example.com/version"]


async def test_socks_proxy_resolves_host_names(port: int, tmp_path: Path) -> None:
    async with Proxy("socks5").running(tmp_path) as proxy:
        async with Client.connect(config(port, proxy, host="127.0.0.1"), metrics=False) as client:
            assert (await client.version())["major"]
        assert proxy.asked == [f"1 7f000001:{port}"]
        message = str(await failure(config(port, proxy, host="nowhere.example.com")))
        assert message.endswith(f"could not connect to nowhere.example.com:{port}: host unreachable")


async def test_invalid_proxy_responses(port: int, tmp_path: Path) -> None:
    for response, complaint in (
        (b"HTTP/1.1 200 OK\r\n\r\nhello", "sent data before the tunnel was open"),
        (
            b"HTTP/1.1 503 Full\r\n\r\n",
            f"rejected the connection to api.example.com:{port}: HTTP/1.1 503 Full",
        ),
        (b"x" * 200_000, "closed the connection"),
    ):
        async with Proxy("http").running(tmp_path) as proxy:
            proxy.response = response
            assert complaint in str(await failure(config(port, proxy)))


async def test_proxy_from_environment(port: int, tmp_path: Path) -> None:
    async with Proxy("https").running(tmp_path) as proxy:
        transport = HTTPTransport(config(port, proxy, proxy_url=""), environ={"HTTPS_PROXY": proxy.url})
        response = await transport.send("GET", "/version")
        await transport.aclose()
        assert response.status == 200
        assert proxy.asked == [f"CONNECT api.example.com:{port}"]
