"""Connections through a proxy: choose the proxy, and open a tunnel.

`proxy-url` of the kubeconfig has precedence; else `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` apply, except
for addresses of this machine.

The proxy opens a tunnel (`CONNECT`, over TLS for an https proxy, or SOCKS5), and TLS to the server runs
inside it, so the proxy never sees the credentials of the client. The certificate of the proxy is verified
with the CAs of the system and of the cluster.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import ssl
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar, cast
from urllib.parse import unquote, urlsplit

from kubewright.client.config.cluster_config import ClusterConfig
from kubewright.client.errors import ConfigError, ConnectionFailed

from .headers import encode_head

P = TypeVar("P", bound=asyncio.Protocol)

_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
_MAX_HEAD = 64 * 1024
_SOCKS_ERRORS = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "timed out",
}


class ProxyConfig(NamedTuple):
    """The address and credentials of a proxy."""

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
        """The value of `Proxy-Authorization`; empty without credentials."""
        if not self.username:
            return ""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


def proxy_for(config: ClusterConfig, environ: Mapping[str, str]) -> ProxyConfig | None:
    """Return the proxy for the server of a configuration, if any."""
    if config.proxy_url:
        return parse_proxy(config.proxy_url, f"{config.source}: proxy-url")
    target = urlsplit(config.server)
    host = target.hostname or ""
    names = {name.lower(): value for name, value in environ.items() if value}
    found = names.get(f"{target.scheme}_proxy", "")
    if not found or is_local(host):
        return None
    from urllib import request  # imports an HTTP client, which is needed here only

    # typeshed does not declare this function.
    if request.proxy_bypass_environment(  # type: ignore[attr-defined]
        host, {"no": names.get("no_proxy", "")}
    ):
        return None
    return parse_proxy(found if "://" in found else f"http://{found}", f"{target.scheme.upper()}_PROXY")


def parse_proxy(url: str, where: str) -> ProxyConfig:
    """Parse a proxy URL; `where` is its origin, for error messages."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else "the value"
        raise ConfigError(
            f"{where}: {shown} is not a proxy URL; use http://host:port, https://host:port or socks5://host:port"
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
    """Return the TLS context for the proxy itself; `None` for a proxy without TLS."""
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
    proxy: ProxyConfig, factory: Callable[[], P], tls_context: ssl.SSLContext | None
) -> tuple[asyncio.Transport, P]:
    """Open a connection to the proxy itself."""
    name = None if tls_context is None else proxy.host
    try:
        return await asyncio.get_running_loop().create_connection(
            factory, proxy.host, proxy.port, ssl=tls_context, server_hostname=name
        )
    except ssl.SSLCertVerificationError as error:
        raise ConnectionFailed(
            f"the proxy {proxy} has an untrusted certificate: {error.verify_message}; its CA must be"
            " trusted by this system (or in SSL_CERT_FILE) or be the certificate-authority of the cluster",
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
    tls_context: ssl.SSLContext | None,
    context: ssl.SSLContext | None,
    server_hostname: str,
) -> tuple[asyncio.Transport, P]:
    """Open a connection to `host:port` through the proxy.

    `tls_context` is for TLS to the proxy, `context` and `server_hostname` for TLS to the server.
    """
    outer, handshake = await connect_to(proxy, _ProxyHandshake, tls_context)
    try:
        await (_socks if proxy.scheme.startswith("socks5") else _connect)(handshake, proxy, host, port)
        if handshake.received:
            raise ConnectionFailed(f"the proxy {proxy} sent data before the tunnel was open", sent=False)
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
            # Before Python 3.11.8 asyncio raises TypeError for a TLS handshake that fails inside TLS.
            raise error.__context__ from None
        raise
    except BaseException:
        outer.abort()
        raise
    protocol.connection_made(inner)
    return inner, protocol


class _ProxyHandshake(asyncio.Protocol):
    """The exchange with the proxy before the tunnel is open."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.received = b""
        self._closed = False
        self._more: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self.transport = cast(asyncio.Transport, transport)

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

    def write(self, data: bytes) -> None:
        """Send bytes."""
        assert self.transport is not None
        self.transport.write(data)

    async def read(self, proxy: ProxyConfig, count: Callable[[bytes], int]) -> bytes:
        """Return as many of the received bytes as `count` returns, once that is not 0."""
        while not (size := count(self.received)):
            if self._closed or len(self.received) > _MAX_HEAD:
                raise ConnectionFailed(f"the proxy {proxy} closed the connection", sent=False)
            self._more = asyncio.get_running_loop().create_future()
            await self._more
        found, self.received = self.received[:size], self.received[size:]
        return found

    async def read_exactly(self, proxy: ProxyConfig, size: int) -> bytes:
        """Return this number of bytes."""
        return await self.read(proxy, lambda data: size if len(data) >= size else 0)


async def _connect(handshake: _ProxyHandshake, proxy: ProxyConfig, host: str, port: int) -> None:
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    headers = [("Host", target)]
    if proxy.authorization:
        headers.append(("Proxy-Authorization", proxy.authorization))
    handshake.write(encode_head(f"CONNECT {target} HTTP/1.1", headers, escape=False))
    head = await handshake.read(proxy, lambda data: data.find(b"\r\n\r\n") + 4 if b"\r\n\r\n" in data else 0)
    status = head.split(b"\r\n", 1)[0].decode("latin-1")
    if status.split(" ")[1:2] != ["200"]:
        raise ConnectionFailed(f"the proxy {proxy} rejected the connection to {target}: {status}", sent=False)


async def _socks(handshake: _ProxyHandshake, proxy: ProxyConfig, host: str, port: int) -> None:
    user, password = proxy.username.encode(), proxy.password.encode()
    if len(user) > 255 or len(password) > 255:
        raise ConnectionFailed(
            f"the proxy {proxy} accepts names and passwords of up to 255 bytes", sent=False
        )
    handshake.write(b"\x05\x02\x00\x02" if user else b"\x05\x01\x00")
    method = await handshake.read_exactly(proxy, 2)
    if method == b"\x05\x02" and user:
        handshake.write(b"\x01" + bytes([len(user)]) + user + bytes([len(password)]) + password)
        if (await handshake.read_exactly(proxy, 2))[1]:
            raise ConnectionFailed(f"the proxy {proxy} rejected the user name or password", sent=False)
    elif method != b"\x05\x00":
        wants = " (it requires a password)" if method == b"\x05\x02" or not user else ""
        raise ConnectionFailed(f"the proxy {proxy} rejected the authentication method{wants}", sent=False)
    handshake.write(b"\x05\x01\x00" + _socks_address(proxy, host) + port.to_bytes(2, "big"))
    reply = await handshake.read_exactly(proxy, 4)
    if reply[1]:
        why = _SOCKS_ERRORS.get(reply[1], f"error {reply[1]}")
        raise ConnectionFailed(f"the proxy {proxy} could not connect to {host}:{port}: {why}", sent=False)
    length = {1: 4, 4: 16}.get(reply[3]) or (await handshake.read_exactly(proxy, 1))[0]
    await handshake.read_exactly(proxy, length + 2)


def _socks_address(proxy: ProxyConfig, host: str) -> bytes:
    """Return a SOCKS address; the proxy resolves names."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.encode("idna")
        if len(name) > 255:
            raise ConnectionFailed(
                f"the proxy {proxy} accepts host names of up to 255 bytes", sent=False
            ) from None
        return b"\x03" + bytes([len(name)]) + name
    return (b"\x01" if address.version == 4 else b"\x04") + address.packed
