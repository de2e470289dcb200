"""WebSockets over the network, for exec, attach and port-forward.

They are rare and long, so aiohttp is used; it is imported on first use.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from multidict import CIMultiDict

from kubewright.api.encoding import codec
from kubewright.api.errors import APIError, from_response
from kubewright.client.errors import ConnectionFailed

from .headers import check_headers, escape_value
from .interface import Headers, read_limited

if TYPE_CHECKING:
    from .http import HTTPTransport

HEARTBEAT = 30.0
MESSAGE_LIMIT = 64 * 1024 * 1024


class _AiohttpWebSocket:
    """A `WebSocketConnection` with its own aiohttp session, which is closed with it."""

    def __init__(self, session: Any, socket: Any) -> None:
        self._session = session
        self._socket = socket
        self.protocol: str = socket.protocol or ""

    async def receive(self) -> bytes | str | None:
        import aiohttp

        message = await self._socket.receive()
        if message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT):
            data: bytes | str = message.data
            return data
        if message.type is aiohttp.WSMsgType.ERROR:
            raise ConnectionFailed(f"connection failed: {self._socket.exception()}")
        return None

    async def send(self, data: bytes | str) -> None:
        try:
            await (self._socket.send_bytes(data) if isinstance(data, bytes) else self._socket.send_str(data))
        except (ConnectionError, RuntimeError) as error:
            raise ConnectionFailed(f"connection closed: {error}") from None

    async def close(self, code: int = 1000, reason: str = "") -> None:
        try:
            await self._socket.close(code=code, message=reason.encode())
        finally:
            await self._session.close()


async def connect(
    transport: HTTPTransport,
    path: str,
    query: str,
    headers: Headers | None,
    protocols: tuple[str, ...],
    timeout: float | None,
) -> _AiohttpWebSocket:
    """Open a WebSocket; raise the `APIError` of a response other than 101."""
    import aiohttp
    from yarl import URL

    all_headers: CIMultiDict[str] = await transport.credentials.headers()
    all_headers.extend(headers or {})
    all_headers.popall("Accept", None)
    url = URL(transport.config.server + path + (f"?{query}" if query else ""), encoded=True)
    options: dict[str, Any] = {}
    context = await transport.credentials.ssl_context()
    if context is not None:
        options["ssl"] = context
        if transport.config.tls_server_name:
            options["server_hostname"] = transport.config.tls_server_name
    rejections: list[bytes] = []

    async def record_rejection(request: Any, proceed: Any) -> Any:
        response = await proceed(request)
        if response.status != 101:
            rejections.append(await read_limited(response.content.iter_any()))
        return response

    limits = aiohttp.ClientTimeout(total=None, connect=timeout)
    connector = _tunnelling(transport) if transport.proxied else None
    session = aiohttp.ClientSession(timeout=limits, connector=connector, middlewares=(record_rejection,))
    try:
        async with asyncio.timeout(timeout):
            socket_or_error = await _handshake(session, url, all_headers, protocols, options, rejections)
            if isinstance(socket_or_error, APIError):
                raise socket_or_error
            return _AiohttpWebSocket(session, socket_or_error)
    except BaseException as error:
        await session.close()
        if isinstance(error, aiohttp.ClientError | OSError) and not isinstance(error, TimeoutError):
            raise ConnectionFailed(
                f"{transport.config.server} cannot be reached: {error}", sent=False
            ) from None
        raise


def _tunnelling(transport: HTTPTransport) -> Any:
    """Return an aiohttp connector that opens connections through the proxy."""
    import aiohttp

    class Tunnels(aiohttp.BaseConnector):
        async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> Any:
            return await transport.tunnel(self._factory)

    return Tunnels(force_close=True)


async def _handshake(
    session: Any,
    url: Any,
    headers: CIMultiDict[str],
    protocols: tuple[str, ...],
    options: dict[str, Any],
    rejections: list[bytes],
) -> Any:
    import aiohttp

    try:
        return await session.ws_connect(
            url,
            headers=CIMultiDict(check_headers(headers.items())),
            protocols=tuple(escape_value(each) for each in protocols),
            heartbeat=HEARTBEAT,
            max_msg_size=MESSAGE_LIMIT,
            **options,
        )
    except aiohttp.WSServerHandshakeError as error:
        body = rejections[0] if rejections else b""
        try:
            status = codec.loads(body)
        except codec.DecodeError:
            status = None
        if isinstance(status, dict) and status.get("kind") == "Status":
            return APIError.from_status(status, error.status)
        return from_response(error.status, body.decode(errors="replace") or error.message, verb="get")
