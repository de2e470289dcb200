"""`HTTPTransport`: a pool of HTTP/1.1 connections to one server.

Connections are opened when they are needed, carry one request at a time, and stay open when idle. TLS
contexts come from the credentials: connections with an old certificate are not reused. The server can close
an idle connection while a request is being sent; reads are then sent again on a new connection.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from kubewright.api.values.times import monotonic_time
from kubewright.client.config.cluster_config import ClusterConfig
from kubewright.client.config.credentials import Credentials
from kubewright.client.errors import ConfigError, ConnectionFailed

from .headers import encode_head
from .http1 import Connection
from .interface import MAX_RESPONSE_BYTES, APIResponse, Headers, ResponseStream, WebSocketConnection
from .proxy import P, ProxyConfig, connect_through, connect_to, is_local, proxy_context, proxy_for

CONNECT_TIMEOUT: Final = 30.0
IDLE_TIMEOUT: Final = 90.0
MAX_IDLE: Final = 256
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 3))
_T = TypeVar("_T")
_SAFE: Final = ("GET", "HEAD")


class HTTPTransport:
    """A `Transport` over the network."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        credentials: Credentials | None = None,
        connect_timeout: float = CONNECT_TIMEOUT,
        idle_timeout: float = IDLE_TIMEOUT,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        compress_watch_lists: bool = False,
        environ: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = monotonic_time,
    ) -> None:
        self.config = config
        self.credentials = credentials or Credentials(config)
        target = urlsplit(config.server)
        try:
            port = target.port
        except ValueError:
            raise ConfigError(f"{config.source}: server {config.server!r} has no valid port") from None
        if not target.hostname:
            raise ConfigError(f"{config.source}: server {config.server!r} has no host")
        self._tls = target.scheme == "https"
        self._host = target.hostname
        self._port = port or (443 if self._tls else 80)
        self._prefix = target.path.rstrip("/")
        self._proxy = proxy_for(config, environ)
        plain_proxy = self._proxy is not None and self._proxy.scheme in ("http", "https") and not self._tls
        self._absolute = f"http://{target.netloc}" if plain_proxy else ""
        # Compression costs more than it saves on the loopback interface.
        compressed = not config.disable_compression and not is_local(self._host)
        self._host_header = ("Host", target.netloc.rpartition("@")[2])
        self._compresses = compressed
        self._compress_watch_lists = compress_watch_lists and not config.disable_compression
        self._proxy_contexts: tuple[ssl.SSLContext | None, ssl.SSLContext | None] | None = None
        self._connect_timeout = connect_timeout
        self._idle_timeout = idle_timeout
        self._max_response_bytes = max_response_bytes
        self._clock = clock
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._closed = False

    async def send(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Headers | None = None,
        body: bytes = b"",
        timeout: float | None = None,
    ) -> APIResponse:
        """Send a request and return the complete response."""
        request = await self._request(method, path, query, headers, body, gzip=self._compresses)
        async with asyncio.timeout(timeout):
            connection, response = await self._exchange(Connection.send, method, request)
        self._release(connection)
        return response

    async def stream(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Headers | None = None,
        body: bytes = b"",
        timeout: float | None = None,
        idle_timeout: float | None = None,
    ) -> ResponseStream:
        """Send a request with a streamed response."""
        compressed = self._compress_watch_lists and "sendInitialEvents=true" in query
        request = await self._request(method, path, query, headers, body, gzip=compressed)
        async with asyncio.timeout(timeout):
            connection, stream = await self._exchange(Connection.stream, method, request)
        stream.idle_timeout = idle_timeout
        stream.on_close = lambda: self._release(connection)
        if compressed and stream.headers.get("Content-Encoding") == "gzip":
            from .gzip_stream import GzipStream

            return GzipStream(stream)
        return stream

    async def _exchange(
        self, exchange: Callable[[Connection, str, bytes], Awaitable[_T]], method: str, request: bytes
    ) -> tuple[Connection, _T]:
        """Send a request on a connection, and again if an idle connection turns out to be closed."""
        while True:
            connection = await self._acquire()
            reused = connection.used
            try:
                return connection, await exchange(connection, method, request)
            except ConnectionFailed:
                self._discard(connection)
                if not reused or connection.received or method not in _SAFE:
                    raise
            except BaseException:
                self._discard(connection)
                raise

    async def websocket(
        self,
        path: str,
        query: str = "",
        headers: Headers | None = None,
        protocols: tuple[str, ...] = (),
        timeout: float | None = None,
    ) -> WebSocketConnection:
        """Open a WebSocket."""
        from .websocket import connect

        return await connect(self, path, query, headers, protocols, timeout)

    @property
    def proxied(self) -> bool:
        """Whether connections use a proxy."""
        return self._proxy is not None

    def invalidate_credentials(self) -> bool:
        """Discard credentials that the server rejected."""
        return self.credentials.invalidate()

    async def aclose(self) -> None:
        """Close all connections."""
        self._closed = True
        loop = asyncio.get_running_loop()
        for connection in (*self._idle, *self._busy):
            if connection.loop is loop:
                connection.abort()
        self._idle.clear()
        self._busy.clear()
        # The loop closes the sockets in callbacks; let them run.
        await asyncio.sleep(0)

    async def _request(
        self, method: str, path: str, query: str, headers: Headers | None, body: bytes, *, gzip: bool
    ) -> bytes:
        target = f"{self._prefix}{path}?{query}" if query else f"{self._prefix}{path}"
        if not target.isascii() or not target.isprintable() or " " in target:
            raise ValueError(f"invalid URL path: {target!r}")
        pairs = [self._host_header, ("Accept-Encoding", "gzip" if gzip else "identity")]
        impersonates = headers is not None and "Impersonate-User" in headers
        for name, value in (await self.credentials.headers()).items():
            if not (impersonates and name.startswith("Impersonate-")):
                pairs.append((name, value))
        if self._absolute and self._proxy is not None and self._proxy.authorization:
            pairs.append(("Proxy-Authorization", self._proxy.authorization))
        if headers:
            pairs += headers.items()
        if body or method in ("POST", "PUT", "PATCH"):
            pairs.append(("Content-Length", str(len(body))))
        return encode_head(f"{method} {self._absolute}{target} HTTP/1.1", pairs, escape=False) + body

    async def _acquire(self) -> Connection:
        if self._closed:
            raise ConnectionFailed("the client is closed", sent=False)
        context = await self.credentials.ssl_context()
        now = self._clock()
        loop = asyncio.get_running_loop()
        while self._idle:
            connection = self._idle.pop()
            if connection.loop is not loop:
                # Of an event loop that has ended, as when asyncio.run is called twice.
                continue
            fresh = connection.context is context and now - connection.idle_since < self._idle_timeout
            if fresh and connection.alive:
                self._busy.add(connection)
                return connection
            connection.close()
        connection = await self._connect(context)
        self._busy.add(connection)
        return connection

    def _release(self, connection: Connection) -> None:
        self._busy.discard(connection)
        if connection.alive and len(self._idle) < MAX_IDLE and not self._closed:
            connection.idle_since = self._clock()
            self._idle.append(connection)
        else:
            connection.abort()

    def _discard(self, connection: Connection) -> None:
        self._busy.discard(connection)
        connection.abort()

    async def tunnel(self, factory: Callable[[], P]) -> P:
        """Open a separate connection through the proxy, for another protocol."""
        assert self._proxy is not None
        context = await self.credentials.ssl_context()
        return (await self._connect_through_proxy(self._proxy, factory, context))[1]

    async def _connect_through_proxy(
        self, proxy: ProxyConfig, factory: Callable[[], P], context: ssl.SSLContext | None
    ) -> tuple[asyncio.Transport, P]:
        return await connect_through(
            proxy,
            self._host,
            self._port,
            factory,
            tls_context=self._proxy_context(proxy, context),
            context=context,
            server_hostname=self.config.tls_server_name or self._host,
        )

    def _proxy_context(self, proxy: ProxyConfig, context: ssl.SSLContext | None) -> ssl.SSLContext | None:
        """Return the TLS context for the proxy; it is renewed with that of the server."""
        if self._proxy_contexts is None or self._proxy_contexts[0] is not context:
            self._proxy_contexts = (context, proxy_context(proxy, self.config))
        return self._proxy_contexts[1]

    def _new_connection(self) -> Connection:
        return Connection(self._max_response_bytes)

    async def _connect(self, context: ssl.SSLContext | None) -> Connection:
        where = self.config.server
        try:
            async with asyncio.timeout(self._connect_timeout):
                if self._absolute and self._proxy is not None:
                    tls_context = self._proxy_context(self._proxy, context)
                    transport, connection = await connect_to(self._proxy, self._new_connection, tls_context)
                elif self._proxy is not None:
                    transport, connection = await self._connect_through_proxy(
                        self._proxy, self._new_connection, context
                    )
                else:
                    options: dict[str, Any] = {}
                    if context is not None:
                        name = self.config.tls_server_name or self._host
                        options = {"ssl": context, "server_hostname": name}
                    transport, connection = await asyncio.get_running_loop().create_connection(
                        self._new_connection, self._host, self._port, **options
                    )
        except TimeoutError:
            raise ConnectionFailed(
                f"{where} did not accept a connection within {self._connect_timeout:.0f} s", sent=False
            ) from None
        except ssl.SSLCertVerificationError as error:
            raise ConnectionFailed(
                f"{where} has an untrusted certificate: {error.verify_message}; check certificate-authority"
                f" and tls-server-name in {self.config.source or 'the configuration'}",
                sent=False,
            ) from None
        except ssl.SSLError as error:
            raise ConnectionFailed(f"{where}: TLS failed: {error.reason or error}", sent=False) from None
        except OSError as error:
            raise ConnectionFailed(
                f"{where} cannot be reached: {error.strerror or error}", sent=False
            ) from None
        connection.context = context
        _keep_alive(transport.get_extra_info("socket"))
        return connection


def _keep_alive(connected: Any) -> None:
    """Let the operating system detect a dead peer on an idle connection."""
    if connected is None or connected.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
