"""HTTPS server: HTTP/1.1 over TLS, on aiohttp's low-level server.

    async with serve(server, port=6443) as https:
        https.write_kubeconfig("kubeconfig")

aiohttp's router and middlewares are not used: a connection turns bytes into an `HTTPRequest`, calls
`APIServer.handle` and writes the `HTTPResponse`. Connections without a request within the header timeout are
closed, bodies over the limit are rejected, responses over 128 KiB are compressed if the client accepts gzip.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import re
import signal
import socket
import time
import zlib
from collections.abc import AsyncIterator, Callable
from email.utils import formatdate
from http import HTTPStatus
from pathlib import Path
from typing import Any

from aiohttp import HttpVersion11, WSMsgType, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_exceptions import BadHttpMethod
from aiohttp.web_protocol import RequestHandler

from kubewright.apiserver.authentication import AuthenticatorChain
from kubewright.apiserver.authentication.user import MASTERS
from kubewright.apiserver.authentication.x509 import PeerCertificate, X509Authenticator
from kubewright.apiserver.encoding.negotiation import encode, to_yaml
from kubewright.apiserver.rest.endpoint import no_such_method
from kubewright.apiserver.server import APIServer

from .messages import HTTPRequest, HTTPResponse, too_large
from .tls import CertificateAuthority, KeyPair, server_context, write_private
from .upgrade import converse

logger = logging.getLogger("kubewright.apiserver")

GZIP_MINIMUM = 128 * 1024
HEADER_TIMEOUT = 30.0
KEEPALIVE = 180.0
_METHOD_LINE = re.compile(r"b'[A-Z]+ /")
_READ = 64 * 1024
_WHOLE = 256 * 1024
"""Longer answers wait for the client to keep up."""


class ServerConnection(RequestHandler):
    """One client connection: keeps the peer's certificate and closes when no request comes."""

    __slots__ = ("_impatience", "peer", "peer_known", "streaming")

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.peer: PeerCertificate | None = None
        self.peer_known = False
        self.streaming: asyncio.Task[Any] | None = None
        self._impatience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start waiting for the first request."""
        super().connection_made(transport)
        timeout = self._manager.header_timeout if self._manager is not None else HEADER_TIMEOUT  # type: ignore[attr-defined]
        self._impatience = self._loop.call_later(timeout, transport.close)

    def patient(self) -> None:
        """A whole request has come."""
        if self._impatience is not None:
            self._impatience.cancel()
            self._impatience = None

    def connection_lost(self, exc: BaseException | None) -> None:
        """End what is being streamed to a client that has gone."""
        self.patient()
        streaming, self.streaming = self.streaming, None
        if streaming is not None:
            streaming.cancel()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what could not be read as a request: the client's mistake, not worth a traceback."""
        if status >= 500:
            return super().handle_error(request, status, exc, message)
        logger.debug("a request could not be read: %s", exc)
        if isinstance(exc, BadHttpMethod) and _METHOD_LINE.search(str(exc)):
            body = encode(no_such_method().to_status())
            answer = web.Response(status=405, body=body, content_type="application/json")
        else:
            answer = web.Response(status=status, text=f"{status} Bad Request: {message or exc}\n")
        answer.force_close()
        return answer

    def identify(self) -> PeerCertificate | None:
        """The client's certificate, if it has shown one."""
        if not self.peer_known:
            self.peer_known = True
            tls = self.transport.get_extra_info("ssl_object") if self.transport is not None else None
            der = tls.getpeercert(True) if tls is not None else None
            self.peer = PeerCertificate(der) if der else None
        return self.peer


class _Listener(web.Server):
    """Makes connections of our own kind."""

    header_timeout = HEADER_TIMEOUT

    def __call__(self) -> RequestHandler:
        return ServerConnection(self, loop=self._loop, **self._kwargs)


class _Whole(web.StreamResponse):
    """A short answer, written in one go: most of what aiohttp does for a response is not needed here."""

    def __init__(self, response: HTTPResponse, body: bytes, *, close: bool) -> None:
        super().__init__(status=response.status)
        self._bytes = _head(response, len(body), close) + body
        self._keep_alive = not close

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Write head and body."""
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client has gone")
        transport.write(self._bytes)
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Everything is written already."""


_REASONS = {status.value: status.phrase for status in HTTPStatus}
_LINE_BREAKS = str.maketrans({"\r": " ", "\n": " "})
_WITHOUT_BODY = (204, 304)
_date: tuple[int, str] = (0, "")


def _head(response: HTTPResponse, length: int, close: bool) -> bytes:
    """Status line and headers."""
    global _date
    now = int(time.time())
    if _date[0] != now:
        _date = (now, formatdate(now, usegmt=True))
    status = response.status
    lines = [
        f"HTTP/1.1 {status} {_REASONS.get(status, '')}\r\n"
        f"Content-Type: {response.content_type}\r\nContent-Length: {length}\r\nDate: {_date[1]}\r\n"
        if status not in _WITHOUT_BODY
        else f"HTTP/1.1 {status} {_REASONS.get(status, '')}\r\nDate: {_date[1]}\r\n"
    ]
    for name, value in response.headers.items():
        for each in (value,) if isinstance(value, str) else value:
            lines.append(f"{name}: {each.translate(_LINE_BREAKS)}\r\n")
    lines.append("Connection: close\r\n\r\n" if close else "\r\n")
    return "".join(lines).encode("utf-8", "replace")


class _Socket:
    """A WebSocket conversation over aiohttp."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self.protocol = socket.ws_protocol or ""

    async def receive(self) -> bytes | str | None:
        """The next message."""
        message = await self._socket.receive()
        if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
            data: bytes | str = message.data
            return data
        return None

    async def send(self, data: bytes | str) -> None:
        """Send one message."""
        if isinstance(data, str):
            await self._socket.send_str(data)
        else:
            await self._socket.send_bytes(data)

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close."""
        await self._socket.close(code=code, message=reason.encode())


class HTTPServer:
    """An `APIServer` on a TLS port."""

    def __init__(
        self,
        server: APIServer,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        certificate: KeyPair | None = None,
        authority: CertificateAuthority | None = None,
        hosts: tuple[str, ...] = (),
        client_authorities: tuple[bytes, ...] = (),
        header_timeout: float = HEADER_TIMEOUT,
    ) -> None:
        self.server = server
        self.host = host
        self.port = port
        self.authority = authority
        if certificate is None:
            self.authority = authority or CertificateAuthority.create()
            names = dict.fromkeys((host, "localhost", "127.0.0.1", "::1", *hosts))
            names.pop("0.0.0.0", None)  # noqa: S104
            names.pop("::", None)
            certificate = self.authority.issue("kubewright-apiserver", hosts=names, server=True)
        self.certificate = certificate
        chain = server.authenticator
        if self.authority is not None and isinstance(chain, AuthenticatorChain) and not chain.authenticators:
            # Nobody has said who may come in: those to whom this server gives a certificate.
            chain.authenticators.append(X509Authenticator(self.authority.certificate))
            client_authorities = (*client_authorities, self.authority.certificate)
        self.client_authorities = client_authorities
        self.header_timeout = header_timeout
        self._listener: _Listener | None = None
        self._sockets: asyncio.Server | None = None

    @property
    def authority_pem(self) -> bytes:
        """What clients verify the server with."""
        return self.authority.certificate if self.authority is not None else self.certificate.certificate

    @property
    def url(self) -> str:
        """Where the server is."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104
        return f"https://[{host}]:{self.port}" if ":" in host else f"https://{host}:{self.port}"

    async def start(self) -> None:
        """Listen."""
        loop = asyncio.get_running_loop()
        if type(loop).__module__.startswith("asyncio"):
            _trim_tls_buffers()
        listener = self._listener = _Listener(
            self._handle,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=KEEPALIVE,
            max_line_size=16 * 1024,
            max_field_size=64 * 1024,
            tcp_keepalive=True,
            lingering_time=5.0,
        )
        listener.header_timeout = self.header_timeout
        context = server_context(self.certificate, self.client_authorities)
        try:
            self._sockets = await loop.create_server(
                listener, self.host, self.port, ssl=context, backlog=4096, ssl_handshake_timeout=30.0
            )
        except OSError as error:
            # asyncio repeats the address before the reason
            why = (error.strerror or str(error)).rpartition(": ")[2]
            raise OSError(error.errno, f"cannot listen on {self.host}:{self.port}: {why}") from error
        self.port = self._sockets.sockets[0].getsockname()[1]

    async def stop(self, grace: float = 10.0) -> None:
        """Stop listening and close connections; stop the `APIServer` first, so that requests are done."""
        if self._sockets is not None:
            self._sockets.close()
            self._sockets = None
        if self._listener is not None:
            await self._listener.shutdown(grace)
            self._listener = None

    async def until_stopped(self) -> None:
        """Wait for SIGINT or SIGTERM; the last line of a server's `main`."""
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        wanted = (signal.SIGINT, signal.SIGTERM)
        for number in wanted:
            loop.add_signal_handler(number, stop.set)
        try:
            await stop.wait()
        finally:
            for number in wanted:
                loop.remove_signal_handler(number)

    def write_kubeconfig(
        self, path: str | Path, *, token: str = "", client: KeyPair | None = None, name: str = "kubewright"
    ) -> None:
        """Write a kubeconfig (mode 0600) that reaches this server with a token or a client certificate.

        Without either, the server's own authority issues a certificate for an administrator.
        """
        user: dict[str, Any] = {}
        if not token and client is None and self.authority is not None:
            client = self.authority.issue("kubernetes-admin", groups=(MASTERS,))
        if token:
            user["token"] = token
        if client is not None:
            user["client-certificate-data"] = base64.b64encode(client.certificate).decode()
            user["client-key-data"] = base64.b64encode(client.key).decode()
        authority = base64.b64encode(self.authority_pem).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": name, "cluster": {"server": self.url, "certificate-authority-data": authority}}
            ],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
        write_private(Path(path), to_yaml(config))

    async def _handle(self, native: web.BaseRequest) -> web.StreamResponse:
        connection = native.protocol
        assert isinstance(connection, ServerConnection)
        connection.patient()
        path, _, query = native.raw_path.partition("?")
        request = HTTPRequest(
            native.method,
            native.path if "%" in path else path,
            query=query,
            headers=native.headers,
            body=b"" if not native.can_read_body else _reader(native),
            peer_certificate=connection.peer if connection.peer_known else connection.identify(),
            native=native,
        )
        request.raw_path = path
        response = await self.server.handle(request)
        if response.stream is not None:
            return await self._stream(native, response, connection)
        if response.websocket is not None:
            return await self._converse(native, response)
        if response.tunnel is not None:
            return await converse(connection, response)
        if response.pieces is not None:
            length = response.length
            if length > _READ and not (
                length > GZIP_MINIMUM and "gzip" in native.headers.get("Accept-Encoding", "")
            ):
                return await self._write_pieces(native, response, length)
        body = response.body
        if len(body) > GZIP_MINIMUM and "gzip" in native.headers.get("Accept-Encoding", ""):
            body = await asyncio.get_running_loop().run_in_executor(None, _gzip, body)
            response.headers["Content-Encoding"] = "gzip"
            response.headers["Vary"] = "Accept-Encoding"
        if len(body) <= _WHOLE and native.version == HttpVersion11:
            return _Whole(response, body, close=self.server.stopping or not native.keep_alive)
        answer = web.Response(body=body, status=response.status, headers=_headers(response))
        if self.server.stopping:
            answer.force_close()
        return answer

    async def _write_pieces(
        self, native: web.BaseRequest, response: HTTPResponse, length: int
    ) -> web.StreamResponse:
        """Write a long body bit by bit: it never exists in one piece."""
        answer = web.StreamResponse(status=response.status, headers=_headers(response))
        answer.content_length = length
        await answer.prepare(native)
        batch: list[bytes | memoryview] = []
        size = 0
        for piece in response.pieces or ():
            batch.append(piece)
            size += len(piece)
            if size > _READ:
                await answer.write(b"".join(batch))
                batch.clear()
                size = 0
        if batch:
            await answer.write(b"".join(batch))
        await answer.write_eof()
        return answer

    async def _stream(
        self, native: web.BaseRequest, response: HTTPResponse, connection: ServerConnection
    ) -> web.StreamResponse:
        stream = response.stream
        assert stream is not None
        answer = web.StreamResponse(status=response.status, headers=_headers(response))
        connection.streaming = asyncio.current_task()
        transport = native.transport
        if transport is not None and hasattr(stream, "abort"):
            stream.abort = transport.abort
        try:
            await answer.prepare(native)
            async for chunk in stream:
                await answer.write(chunk)
            await answer.write_eof()
        except (ConnectionError, asyncio.CancelledError):
            if not connection.transport:
                raise
        finally:
            connection.streaming = None
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        return answer

    async def _converse(self, native: web.BaseRequest, response: HTTPResponse) -> web.StreamResponse:
        assert response.websocket is not None
        answer = web.WebSocketResponse(protocols=response.protocols, heartbeat=30.0)
        await answer.prepare(native)
        conversation = _Socket(answer)
        try:
            await response.websocket(conversation)
        finally:
            await answer.close()
        return answer


def _reader(native: web.BaseRequest) -> Callable[[int], Any]:
    async def read(limit: int) -> bytes:
        length = native.content_length
        if length is not None and length > limit:
            raise too_large(limit)
        content = native.content
        chunks, size = [], 0
        while True:
            chunk = await content.readany()
            if not chunk:
                break
            size += len(chunk)
            if size > limit:
                raise too_large(limit)
            chunks.append(chunk)
        body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        if native.headers.get("Content-Encoding", "").lower() == "gzip":
            body = _gunzip(body, limit)
        return body

    return read


def _gunzip(body: bytes, limit: int) -> bytes:
    from kubewright.api.errors import BadRequest

    reader = zlib.decompressobj(31)
    try:
        plain = reader.decompress(body, limit + 1)
    except zlib.error as error:
        raise BadRequest(f"the body is not gzip: {error}") from None
    if len(plain) > limit:
        raise too_large(limit)
    if not reader.eof:
        raise BadRequest("the body is not gzip: it is cut off")
    return plain


def _gzip(body: bytes) -> bytes:
    writer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return writer.compress(body) + writer.flush()


def _headers(response: HTTPResponse) -> Any:
    pairs: list[tuple[str, str]] = [("Content-Type", response.content_type)]
    for name, value in response.headers.items():
        if isinstance(value, str):
            pairs.append((name, value))
        else:
            pairs.extend((name, each) for each in value)
    from multidict import CIMultiDict

    return CIMultiDict(pairs)


def _trim_tls_buffers() -> None:
    """asyncio keeps a read buffer of 256 KiB for every TLS connection; requests need far less."""
    from asyncio import sslproto

    protocol = getattr(sslproto, "SSLProtocol", None)
    if protocol is not None and isinstance(getattr(protocol, "max_size", None), int):
        protocol.max_size = 16 * 1024


@contextlib.asynccontextmanager
async def serve(server: APIServer, **settings: Any) -> AsyncIterator[HTTPServer]:
    """Start a server and put it on a port; `settings` are those of `HTTPServer`. Stops both at the end."""
    front = HTTPServer(server, **settings)
    await server.start()
    try:
        await front.start()
        yield front
    finally:
        if front._sockets is not None:
            front._sockets.close()
        await server.stop()
        await front.stop(1.0)


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody uses right now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def run(main: Callable[[], Any]) -> None:
    """Run an async main function on uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(main())
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
