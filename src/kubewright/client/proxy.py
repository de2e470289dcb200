"""Proxies between here and the server: which one, and how to get through it.

`proxy-url` of the kubeconfig wins; else `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` count as they do for every
program, and addresses of this machine are never sent to a proxy by them. HTTP proxies open a tunnel
(`CONNECT`), SOCKS5 proxies too.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import socket
from collections.abc import Mapping
from typing import NamedTuple
from urllib import request
from urllib.parse import unquote, urlsplit

from .config import ClusterConfig
from .errors import ConfigError, ConnectionFailed

_PORTS = {"http": 80, "socks5": 1080, "socks5h": 1080}


class Proxy(NamedTuple):
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


def proxy_for(config: ClusterConfig, environ: Mapping[str, str]) -> Proxy | None:
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


def parse_proxy(url: str, where: str) -> Proxy:
    """Read a proxy URL; `where` says in a complaint where it was found."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else "what it says"
        raise ConfigError(f"{where}: {shown} is not a proxy: use http://host:port or socks5://host:port")
    return Proxy(
        parts.scheme,
        parts.hostname,
        parts.port or _PORTS[parts.scheme],
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


async def open_tunnel(proxy: Proxy, host: str, port: int) -> socket.socket:
    """A socket that is connected, through the proxy, to `host:port`."""
    loop = asyncio.get_running_loop()
    try:
        family, kind, protocol, _, address = (
            await loop.getaddrinfo(proxy.host, proxy.port, type=socket.SOCK_STREAM)
        )[0]
        tunnel = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConnectionFailed(f"the proxy {proxy} cannot be found: {error}", sent=False) from None
    try:
        tunnel.setblocking(False)
        await loop.sock_connect(tunnel, address)
        await (
            _connect(tunnel, proxy, host, port)
            if proxy.scheme == "http"
            else _socks(tunnel, proxy, host, port)
        )
    except OSError as error:
        tunnel.close()
        raise ConnectionFailed(f"the proxy {proxy} cannot be reached: {error}", sent=False) from None
    except BaseException:
        tunnel.close()
        raise
    return tunnel


async def _connect(tunnel: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    await loop.sock_sendall(tunnel, ("\r\n".join(lines) + "\r\n\r\n").encode())
    head = b""
    # Byte by byte at the end would be exact; proxies say nothing more until the client speaks.
    while b"\r\n\r\n" not in head:
        more = await loop.sock_recv(tunnel, 4096)
        if not more or len(head) > 65536:
            raise ConnectionFailed(f"the proxy {proxy} closed the connection", sent=False)
        head += more
    status = head.split(b"\r\n", 1)[0].decode("latin-1")
    if status.split(" ")[1:2] != ["200"]:
        raise ConnectionFailed(f"the proxy {proxy} refused to connect to {target}: {status}", sent=False)


async def _socks(tunnel: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    loop = asyncio.get_running_loop()

    async def exactly(count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = await loop.sock_recv(tunnel, count - len(data))
            if not more:
                raise ConnectionFailed(f"the proxy {proxy} closed the connection", sent=False)
            data += more
        return data

    methods = b"\x02" if proxy.username else b"\x00"
    await loop.sock_sendall(tunnel, b"\x05\x01" + methods)
    if await exactly(2) != b"\x05" + methods:
        raise ConnectionFailed(f"the proxy {proxy} refused the way to log in", sent=False)
    if proxy.username:
        user, password = proxy.username.encode(), proxy.password.encode()
        await loop.sock_sendall(
            tunnel, b"\x01" + bytes([len(user)]) + user + bytes([len(password)]) + password
        )
        if (await exactly(2))[1]:
            raise ConnectionFailed(f"the proxy {proxy} refused the password", sent=False)
    name = host.encode("idna")
    await loop.sock_sendall(tunnel, b"\x05\x01\x00\x03" + bytes([len(name)]) + name + port.to_bytes(2, "big"))
    answer = await exactly(4)
    if answer[1]:
        raise ConnectionFailed(
            f"the proxy {proxy} could not connect to {host}:{port} ({answer[1]})", sent=False
        )
    length = {1: 4, 4: 16}.get(answer[3]) or (await exactly(1))[0]
    await exactly(length + 2)


__all__ = ["Proxy", "is_local", "open_tunnel", "parse_proxy", "proxy_for"]
