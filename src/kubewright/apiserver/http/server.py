"""HTTPS server: HTTP/1.1 over TLS, on aiohttp's low-level server, and HTTP/2 on h2.

    async with serve(server, port=6443) as https:
        https.write_kubeconfig("kubeconfig")

aiohttp's router and middlewares are not used: a connection turns bytes into an `HTTPRequest`, calls
`APIServer.handle` and writes the `HTTPResponse`. Connections without a request within the header timeout are
closed, bodies over the limit are rejected, responses over 128 KiB are compressed if the client accepts gzip.
With `http2`, clients can negotiate HTTP/2, which `HTTP2Connection` serves through the same pipeline.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import importlib.util
import logging
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast
from urllib.parse import unquote

from aiohttp import HttpVersion10, HttpVersion11, web

from kubewright.api.errors import TooManyRequests
from kubewright.apiserver.authentication import AuthenticatorChain
from kubewright.apiserver.authentication.user import MASTERS, User, anonymous
from kubewright.apiserver.authentication.x509 import X509Authenticator
from kubewright.apiserver.encoding.negotiation import status_response, to_yaml
from kubewright.apiserver.priority.limits import FairLimit
from kubewright.apiserver.server import APIServer
from kubewright.background import run_forever
from kubewright.tls.certificates import (
    CertificateAuthority,
    KeyPair,
    is_issued_by,
    load_key_pair,
    server_context,
    write_private,
)
from kubewright.tls.client_certificates import request_client_certificates

from .connection import (
    BODY_GRACE,
    HEADER_TIMEOUT,
    Listener,
    ReceivedRequest,
    WebSocketAdapter,
    body_reader,
    received_headers,
)
from .messages import HTTPRequest, HTTPResponse, quote_target, text
from .ports import explain_listen_error
from .responses import (
    GZIP_MINIMUM,
    PiecewiseResponse,
    StreamedResponse,
    compress_response,
    write_complete,
)
from .upgrade import run_tunnel

if TYPE_CHECKING:
    from .http2 import HTTP2Connection

logger = logging.getLogger("kubewright.apiserver")

KEEPALIVE = 180.0
STALL_TIMEOUT = 60.0
MAX_UNSENT_BYTES = 1024**3
CERTIFICATE_RELOAD_INTERVAL = 10.0
"""Seconds between checks of certificate files for changes."""
_CHUNK = 64 * 1024
_COMPLETE_LIMIT = 256 * 1024
"""Longer responses are written with flow control."""


class HTTPSettings(TypedDict, total=False):
    """Settings of `HTTPServer`."""

    host: str
    port: int
    certificate: KeyPair | None
    authority: CertificateAuthority | None
    hosts: tuple[str, ...]
    client_authorities: tuple[bytes, ...]
    header_timeout: float
    stall_timeout: float
    max_unsent_bytes: int
    http2: bool
    tls_min_version: ssl.TLSVersion
    tls_cipher_suites: Sequence[str]
    reuse_port: bool


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
        body_grace: float = BODY_GRACE,
        stall_timeout: float = STALL_TIMEOUT,
        max_unsent_bytes: int = MAX_UNSENT_BYTES,
        http2: bool = False,
        tls_min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
        tls_cipher_suites: Sequence[str] = (),
        reuse_port: bool = False,
    ) -> None:
        """`body_grace`: seconds after which bodies must arrive at a minimum rate. `stall_timeout`: seconds in
        which a client must read the next part of a long response. `max_unsent_bytes`: limit of all long
        responses that clients have not read yet; above it, requests get 429. `http2`: whether clients can
        negotiate HTTP/2; it needs the extra `kubewright[http2]`. `reuse_port`: whether other processes of
        this user can listen on the port, too (SO_REUSEPORT)."""
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
            # Without authenticators, the certificates that this server issues are accepted.
            chain.authenticators.append(X509Authenticator(self.authority.certificate))
            client_authorities = (*client_authorities, self.authority.certificate)
        self.client_authorities = client_authorities
        self.header_timeout = header_timeout
        self.body_grace = body_grace
        self.stall_timeout = stall_timeout
        self.max_unsent_bytes = max_unsent_bytes
        self.unsent = FairLimit()
        """Bytes of long responses that clients have not read yet."""
        if http2:
            require_http2()
        self.http2 = http2
        self._tls_min_version = tls_min_version
        self._tls_cipher_suites = tuple(tls_cipher_suites)
        self._reuse_port = reuse_port or None
        self.http2_connections: set[HTTP2Connection] = set()
        self._listener: Listener | None = None
        self._context: ssl.SSLContext | None = None
        self._reloading: asyncio.Task[None] | None = None
        self._sockets: asyncio.Server | None = None

    @property
    def authority_pem(self) -> bytes:
        """The certificates that clients verify the server with.

        A certificate that the server's authority did not issue is verified by its own chain, and by `ca.crt`
        beside it.
        """
        if self.authority is not None and is_issued_by(
            self.certificate.certificate, self.authority.certificate
        ):
            return self.authority.certificate
        if self.certificate.files is not None:
            beside = self.certificate.files[0].with_name("ca.crt")
            if beside.exists():
                return beside.read_bytes()
        return self.certificate.certificate

    def reload_certificate(self) -> bool:
        """Load the certificate files again; returns whether they have changed.

        New connections use the new certificate. Files that cannot be loaded are logged and ignored.
        """
        files = self.certificate.files
        if files is None or self._context is None:
            return False
        try:
            pair = KeyPair.from_files(*files)
            if pair == self.certificate:
                return False
            load_key_pair(self._context, pair)
        except (OSError, ValueError) as error:
            logger.error("cannot reload certificate", extra={"file": str(files[0]), "error": str(error)})
            return False
        self.certificate = pair
        logger.info("reloaded certificate", extra={"file": str(files[0])})
        return True

    def use_certificate(self, pair: KeyPair) -> None:
        """Use another certificate for new connections."""
        if self._context is not None:
            load_key_pair(self._context, pair)
        self.certificate = pair

    async def _reload_certificate_regularly(self) -> None:
        while True:
            await asyncio.sleep(CERTIFICATE_RELOAD_INTERVAL)
            self.reload_certificate()

    def trust(self, *authorities: bytes) -> None:
        """Accept client certificates of further authorities (PEM), for new connections."""
        new = tuple(each for each in authorities if each not in self.client_authorities)
        if new:
            self.client_authorities = (*self.client_authorities, *new)
            if self._context is not None:
                request_client_certificates(self._context)

    @property
    def url(self) -> str:
        """The URL of the server."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104
        return f"https://[{host}]:{self.port}" if ":" in host else f"https://{host}:{self.port}"

    async def start(self) -> None:
        """Start to listen."""
        loop = asyncio.get_running_loop()
        if type(loop).__module__.startswith("asyncio"):
            _trim_tls_buffers()
        listener = self._listener = Listener(
            self._handle,
            keepalive_timeout=KEEPALIVE,
            max_line_size=1024 * 1024,
            max_field_size=64 * 1024,
            tcp_keepalive=True,
            lingering_time=5.0,
        )
        listener.header_timeout = self.header_timeout
        if self.http2:
            listener.http2 = self._serve_http2
        context = self._context = server_context(
            self.certificate,
            request_certificates=bool(self.client_authorities),
            http2=self.http2,
            minimum_version=self._tls_min_version,
            cipher_suites=self._tls_cipher_suites,
        )
        try:
            self._sockets = await loop.create_server(
                listener,
                self.host,
                self.port,
                ssl=context,
                backlog=4096,
                ssl_handshake_timeout=30.0,
                reuse_port=self._reuse_port,
            )
        except OSError as error:
            raise explain_listen_error(error, self.host, self.port) from error
        self.port = self._sockets.sockets[0].getsockname()[1]
        if self.certificate.files is not None:
            self._reloading = run_forever(self._reload_certificate_regularly, name="serving certificate")

    async def stop(self, grace: float = 10.0) -> None:
        """Stop to listen and close connections; stop the `APIServer` first, which finishes requests."""
        if self._reloading is not None:
            self._reloading.cancel()
            self._reloading = None
        if self._sockets is not None:
            self._sockets.close()
            self._sockets = None
        if self.http2_connections:
            await asyncio.gather(*(each.shutdown(grace) for each in self.http2_connections))
        if self._listener is not None:
            await self._listener.shutdown(grace)
            self._listener = None

    def stop_listening(self) -> None:
        """Accept no new connections; existing ones stay open."""
        if self._sockets is not None:
            self._sockets.close()

    async def until_stopped(self) -> None:
        """Wait for SIGINT or SIGTERM; the last statement of a server's `main`."""
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
        """Write a kubeconfig (mode 0600) for this server, with a token or a client certificate.

        Without either, the server's certificate authority issues an administrator's certificate.
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

    def _serve_http2(self, transport: asyncio.BaseTransport) -> None:
        """Serve a connection on which the client has negotiated HTTP/2."""
        from .http2 import HTTP2Connection

        connection = HTTP2Connection(self, asyncio.get_running_loop())
        cast(asyncio.Transport, transport).set_protocol(connection)
        connection.connection_made(transport)

    async def _handle(self, received: ReceivedRequest) -> bool:
        """Serve a request; returns whether the connection stays open."""
        connection, message = received.connection, received.message
        if message.version < HttpVersion10:
            response = text(400, "400 Bad Request: unsupported protocol version\n")
            write_complete(connection, response, response.body, close=True)
            return False
        target = message.path
        if not target.isascii():
            target = quote_target(target.encode("utf-8", "surrogateescape"))
        if target[:1] not in ("/", "*"):
            # The absolute form, which proxies send; the authority is not used.
            target = "/" + target.partition("://")[2].partition("/")[2]
        path, _, query = target.partition("?")
        request = HTTPRequest(
            message.method,
            unquote(path) if "%" in path else path,
            query=query,
            headers=received_headers(message),
            body=b"" if received.content.at_eof() else body_reader(received, grace=self.body_grace),
            peer_certificate=connection.peer if connection.peer_known else connection.identify(),
            native=received,
        )
        request.raw_path = path
        response = await self.server.handle(request)
        if response.stream is not None:
            return await self._stream(received, response)
        if response.websocket is not None:
            return await self._run_websocket(received, response)
        if response.tunnel is not None:
            await run_tunnel(connection, response)
            return False
        if response.length > _COMPLETE_LIMIT:
            return await self._write_long(received, request, response)
        return await self._write_short(received, response)

    async def _write_long(
        self, received: ReceivedRequest, request: HTTPRequest, response: HTTPResponse
    ) -> bool:
        """Write a long body; it is counted until the client has read it."""
        try:
            count = self.count_unsent(request, response.length)
        except TooManyRequests as error:
            return await self._write_short(received, status_response(request, error))
        with count:
            if received.accepts_gzip():
                await compress_response(response)
            if response.length <= _COMPLETE_LIMIT:
                return await self._write_short(received, response)
            close = self._closes(received)
            await PiecewiseResponse(response, received.connection, close=close).send(self.stall_timeout)
            return not close

    def count_unsent(self, request: HTTPRequest, length: int) -> contextlib.ExitStack:
        """Count a long response until the end of the returned context.

        Raises `TooManyRequests` at the limit.
        """
        user: User = getattr(request, "user", None) or anonymous()
        limit = 0 if MASTERS in user.groups else self.max_unsent_bytes
        self.unsent.acquire(user.name, length, limit=limit)
        released = contextlib.ExitStack()
        released.callback(self.unsent.release, user.name, length)
        return released

    async def _write_short(self, received: ReceivedRequest, response: HTTPResponse) -> bool:
        body = response.body
        if (
            len(body) > GZIP_MINIMUM
            and "Content-Encoding" not in response.headers
            and received.accepts_gzip()
        ):
            await compress_response(response)
            body = response.body
        connection, close = received.connection, self._closes(received)
        write_complete(connection, response, body, close=close)
        if connection.writing_paused:
            # A client that sends requests and does not read the responses.
            await connection.drain(self.stall_timeout)
        return not close

    def _closes(self, received: ReceivedRequest) -> bool:
        """Whether the connection is closed after a response."""
        return self.server.stopping or not received.keeps_alive or received.version < HttpVersion11

    async def _stream(self, received: ReceivedRequest, response: HTTPResponse) -> bool:
        stream, connection = response.stream, received.connection
        assert stream is not None
        close = self._closes(received)
        result = StreamedResponse(response, connection, close=close)
        connection.streaming = asyncio.current_task()
        transport = connection.transport
        if transport is not None and hasattr(stream, "abort"):
            stream.abort = transport.abort
        try:
            await result.start(chunked=received.version >= HttpVersion11)
            async for chunk in stream:
                if not chunk:
                    continue
                initial = getattr(stream, "sending_initial_events", False)
                await result.send(chunk, self.stall_timeout if initial else None)
            await result.end()
        except asyncio.CancelledError:
            if connection.transport:
                return False
            raise
        finally:
            connection.streaming = None
            aclose = getattr(stream, "aclose", None)
            if aclose is not None:
                await aclose()
        return not close

    async def _run_websocket(self, received: ReceivedRequest, response: HTTPResponse) -> bool:
        assert response.websocket is not None
        result = web.WebSocketResponse(protocols=response.protocols, heartbeat=30.0)
        try:
            await result.prepare(received.base_request())
        except web.HTTPException as error:  # the handshake is not valid
            rejection = text(error.status, f"{error.text or error.reason}\n")
            write_complete(received.connection, rejection, rejection.body, close=True)
            return False
        socket_ = WebSocketAdapter(result)
        try:
            await response.websocket(socket_)
        finally:
            await result.close()
        return False


def require_http2() -> None:
    """Raise `ValueError` if the library for HTTP/2 is not installed."""
    if importlib.util.find_spec("h2") is None:
        raise ValueError("HTTP/2 needs the h2 library: pip install 'kubewright[http2]'")


def _trim_tls_buffers() -> None:
    """Reduce asyncio's read buffer per TLS connection from 256 KiB; requests need less."""
    from asyncio import sslproto

    protocol = getattr(sslproto, "SSLProtocol", None)
    if protocol is not None and isinstance(getattr(protocol, "max_size", None), int):
        protocol.max_size = 16 * 1024


@contextlib.asynccontextmanager
async def serve(server: APIServer, **settings: Unpack[HTTPSettings]) -> AsyncIterator[HTTPServer]:
    """Start a server and serve it on a port; `settings` are those of `HTTPServer`. Stops both at the end."""
    https = HTTPServer(server, **settings)
    await server.start()
    try:
        await https.start()
        yield https
    finally:
        https.stop_listening()
        await server.stop()
        await https.stop(1.0)


def run(main: Callable[[], Any]) -> None:
    """Run an async main function, on uvloop if it is installed."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(main())
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
