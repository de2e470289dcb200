"""Proxies between here and the server: which one, and how to get through it.

`proxy-url` of the kubeconfig wins; else `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` count as they do for every
program, and addresses of this machine are never sent to a proxy by them.

A proxy opens a tunnel (`CONNECT`, over TLS where its own URL is https, or SOCKS5), and TLS to the server is
spoken inside it. The proxy never sees the client's credentials. Its certificate is checked against the
authorities of this system and against that of the cluster.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import ssl
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar
from urllib import request
from urllib.parse import unquote, urlsplit

from kubewright.client.config.cluster_config import ClusterConfig
from kubewright.client.errors import ConfigError, ConnectionFailed

P = TypeVar("P", bound=asyncio.Protocol)

_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
_MAX_HEAD = 64 * 1024
_SOCKS_PROBLEMS = {
    1: "it failed",
    2: "its rules forbid it",
    3: "the network is unreachable",
    4: "the host is unreachable",
    5: "the connection was refused",
    6: "it took too long",
}


class ProxyConfig(NamedTuple):
    """A proxy to go through."""

    scheme: str
    host: str
    port: int
    username: str = ""
    password: str = ""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"

    def __repr__(self) -> str:
        return str(self)

    @property
    def authorization(self) -> str:
        """The value of `Proxy-Authorization`, or the empty string."""
        if not self.username:
            return ""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


def proxy_for(config: ClusterConfig, environ: Mapping[str, str]) -> ProxyConfig | None:
    """The proxy that leads to the server of a configuration, if one does."""
    if config.proxy_url:
        return parse_proxy(config.proxy_url, f"{config.source}: proxy-url")
    target = urlsplit(config.server)
    host = target.hostname or ""
    names = {name.lower(): value for name, value in environ.items() if value}
    found = names.get(f"{target.scheme}_proxy", "")
    if not found or is_local(host):
        return None
    if request.proxy_bypass_environment(  # type: ignore[attr-defined]
        host, {"no": names.get("no_proxy", "")}
    ):
        return None
    return parse_proxy(found if "://" in found else f"http://{found}", f"{target.scheme.upper()}_PROXY")


def parse_proxy(url: str, where: str) -> ProxyConfig:
    """Read a proxy URL; `where` says in a complaint where it was found."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else "what it says"
        raise ConfigError(
            f"{where}: {shown} is not a proxy: use http://host:port, https://host:port or socks5://host:port"
        )
    try:
        port = parts.port
    except ValueError:
        raise ConfigError(f"{where}: the proxy {parts.hostname} has no valid port") from None
    return ProxyConfig(
        parts.scheme,
        parts.hostname,
        port or _PORTS[parts.scheme],
        unquote(parts.username or ""),
        unquote(parts.password or ""),
    )


def is_local(host: str) -> bool:
    """Whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def proxy_context(proxy: ProxyConfig, config: ClusterConfig) -> ssl.SSLContext | None:
    """How TLS to the proxy itself is checked; `None` if it does not speak TLS."""
    if proxy.scheme != "https":
        return None
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if config.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif config.ca is not None:
        context.load_verify_locations(cadata=config.ca.read().decode())
    return context


async def connect_to(
    proxy: ProxyConfig, factory: Callable[[], P], trust: ssl.SSLContext | None
) -> tuple[asyncio.Transport, P]:
    """A connection to the proxy itself."""
    name = None if trust is None else proxy.host
    try:
        return await asyncio.get_running_loop().create_connection(
            factory, proxy.host, proxy.port, ssl=trust, server_hostname=name
        )
    except ssl.SSLCertVerificationError as error:
        raise ConnectionFailed(
            f"the proxy {proxy} is not trusted: {error.verify_message}; its authority has to be one of this"
            " system's (or of SSL_CERT_FILE) or the certificate-authority of the cluster",
            sent=False,
        ) from None
    except ssl.SSLError as error:
        raise ConnectionFailed(
            f"the proxy {proxy}: TLS failed: {error.reason or error}", sent=False
        ) from None
    except TimeoutError:
        raise
    except OSError as error:
        raise ConnectionFailed(f"the proxy {proxy} cannot be reached: {error}", sent=False) from None


async def connect_through(
    proxy: ProxyConfig,
    host: str,
    port: int,
    factory: Callable[[], P],
    *,
    trust: ssl.SSLContext | None,
    context: ssl.SSLContext | None,
    server_hostname: str,
) -> tuple[asyncio.Transport, P]:
    """A connection, through the proxy, to `host:port`.

    `trust` is for TLS to the proxy, `context` and `server_hostname` for TLS to the server.
    """
    outer, talk = await connect_to(proxy, _Conversation, trust)
    try:
        await (_socks if proxy.scheme.startswith("socks5") else _connect)(talk, proxy, host, port)
        if talk.received:
            raise ConnectionFailed(f"the proxy {proxy} speaks before it is spoken to", sent=False)
        protocol = factory()
        inner: asyncio.Transport | None = outer
        if context is None:
            outer.set_protocol(protocol)
        else:
            inner = await asyncio.get_running_loop().start_tls(
                outer, protocol, context, server_hostname=server_hostname
            )
        if inner is None:
            raise ConnectionFailed(f"the proxy {proxy} closed the connection", sent=False)
    except TypeError as error:
        outer.abort()
        if isinstance(error.__context__, ssl.SSLError):
            # Before Python 3.11.8 asyncio stumbles over a handshake that fails inside of TLS.
            raise error.__context__ from None
        raise
    except BaseException:
        outer.abort()
        raise
    protocol.connection_made(inner)
    return inner, protocol


class _Conversation(asyncio.Protocol):
    """What is said with the proxy before the tunnel is open."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.received = b""
        self._closed = False
        self._more: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self.received += data
        self._wake()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Called by the loop."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    def say(self, data: bytes) -> None:
        """Write."""
        assert self.transport is not None
        self.transport.write(data)

    async def hear(self, proxy: ProxyConfig, count: Callable[[bytes], int]) -> bytes:
        """As many bytes as `count` finds in what has arrived, once it is not 0."""
        while not (size := count(self.received)):
            if self._closed or len(self.received) > _MAX_HEAD:
                raise ConnectionFailed(f"the proxy {proxy} closed the connection", sent=False)
            self._more = asyncio.get_running_loop().create_future()
            await self._more
        found, self.received = self.received[:size], self.received[size:]
        return found

    async def exactly(self, proxy: ProxyConfig, size: int) -> bytes:
        """So many bytes."""
        return await self.hear(proxy, lambda data: size if len(data) >= size else 0)


async def _connect(talk: _Conversation, proxy: ProxyConfig, host: str, port: int) -> None:
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    talk.say(("\r\n".join(lines) + "\r\n\r\n").encode())
    head = await talk.hear(proxy, lambda data: data.find(b"\r\n\r\n") + 4 if b"\r\n\r\n" in data else 0)
    status = head.split(b"\r\n", 1)[0].decode("latin-1")
    if status.split(" ")[1:2] != ["200"]:
        raise ConnectionFailed(f"the proxy {proxy} refused to connect to {target}: {status}", sent=False)


async def _socks(talk: _Conversation, proxy: ProxyConfig, host: str, port: int) -> None:
    user, password = proxy.username.encode(), proxy.password.encode()
    if len(user) > 255 or len(password) > 255:
        raise ConnectionFailed(f"the proxy {proxy} takes names and passwords of up to 255 bytes", sent=False)
    talk.say(b"\x05\x02\x00\x02" if user else b"\x05\x01\x00")
    method = await talk.exactly(proxy, 2)
    if method == b"\x05\x02" and user:
        talk.say(b"\x01" + bytes([len(user)]) + user + bytes([len(password)]) + password)
        if (await talk.exactly(proxy, 2))[1]:
            raise ConnectionFailed(f"the proxy {proxy} refused the name or the password", sent=False)
    elif method != b"\x05\x00":
        wants = " (it asks for a password)" if method == b"\x05\x02" or not user else ""
        raise ConnectionFailed(f"the proxy {proxy} refused the way to log in{wants}", sent=False)
    talk.say(b"\x05\x01\x00" + _socks_address(proxy, host) + port.to_bytes(2, "big"))
    answer = await talk.exactly(proxy, 4)
    if answer[1]:
        why = _SOCKS_PROBLEMS.get(answer[1], f"problem {answer[1]}")
        raise ConnectionFailed(f"the proxy {proxy} could not connect to {host}:{port}: {why}", sent=False)
    length = {1: 4, 4: 16}.get(answer[3]) or (await talk.exactly(proxy, 1))[0]
    await talk.exactly(proxy, length + 2)


def _socks_address(proxy: ProxyConfig, host: str) -> bytes:
    """Names are looked up by the proxy."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.encode("idna")
        if len(name) > 255:
            raise ConnectionFailed(f"the proxy {proxy} takes hosts of up to 255 bytes", sent=False) from None
        return b"\x03" + bytes([len(name)]) + name
    return (b"\x01" if address.version == 4 else b"\x04") + address.packed


__all__ = [
    "ProxyConfig",
    "connect_through",
    "connect_to",
    "is_local",
    "parse_proxy",
    "proxy_context",
    "proxy_for",
]
