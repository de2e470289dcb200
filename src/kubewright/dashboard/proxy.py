"""`/k8s/`: the Kubernetes API with the credentials of the server.

A request is sent through the transport of the client, which adds credentials; only `Accept` and
`Content-Type` of the browser are forwarded. Bodies are streamed in both directions of a WebSocket and from
the API server: a browser that reads slowly pauses the connection to the API server.

Responses are data, never pages: they have a policy that disables scripts, and the `proxy` subresource, whose
responses are written by pods, is rejected.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote

from multidict import CIMultiDict

from kubewright.api.errors import APIError
from kubewright.client.errors import ConnectionFailed, CredentialsError
from kubewright.client.transport.headers import escape_value

from .responses import DATA_HEADERS, RequestError, json_response, status_object
from .sessions import PROTOCOL, SAFE_METHODS

if TYPE_CHECKING:
    from aiohttp import web

    from kubewright.client import Client
    from kubewright.client.transport.interface import ResponseStream, WebSocketConnection

MAX_BODY: Final = 8 << 20
HEADERS_TIMEOUT: Final = 60.0
_ROOTS: Final = ("api", "apis", "openapi", "version", "readyz", "livez", "healthz")
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_STREAMING_SUBRESOURCES: Final = ("exec", "attach", "portforward")
_FORWARDED: Final = ("Accept", "Content-Type")
_RETURNED: Final = ("Content-Type", "Warning", "Retry-After", "Audit-Id", "ETag", "Last-Modified")
_PROXY: Final = re.compile(r"^/api/[^/]+/((namespaces/[^/]+/(pods|services)|nodes)/[^/]+/proxy|proxy)(/|$)")
_NON_TEXT: Final = re.compile(r"^(application/(json|yaml|vnd\.|apply-patch)|text/plain)", re.IGNORECASE)


class KubernetesProxy:
    """Forwards requests to the API server."""

    def __init__(self, client: Client, *, read_only: bool, user_agent: str) -> None:
        self._client = client
        self._read_only = read_only
        self._user_agent = user_agent

    async def handle(self, request: Any, *, websocket: bool) -> web.StreamResponse:
        """Forward a request whose path begins with `/k8s`."""
        path = request.rel_url.raw_path.removeprefix("/k8s")
        query = request.rel_url.raw_query_string
        subresource = self._check(request.method, path)
        if websocket:
            if subresource not in _STREAMING_SUBRESOURCES:
                raise RequestError(
                    400, f"{path} is not served over WebSockets; use exec, attach or portforward"
                )
            return await self._websocket(request, path, query)
        return await self._http(request, path, query)

    def _check(self, method: str, path: str) -> str:
        """Reject what is not part of the API; return the subresource of a pod, if any."""
        segments = [unquote(each) for each in path.split("/")[1:]]
        if not segments or segments[0] not in _ROOTS:
            raise RequestError(
                404, f"{path}: expected a path below {', '.join('/' + each for each in _ROOTS)}"
            )
        if any(each in (".", "..") or "/" in each or "\\" in each for each in segments):
            raise RequestError(400, f"{path}: path segments must not be '.', '..' or contain slashes")
        decoded = "/" + "/".join(segments)
        if _PROXY.match(decoded):
            raise RequestError(403, "the proxy subresource is not available here; use port-forward")
        if method not in _METHODS:
            raise RequestError(405, f"the method {method} is not supported")
        is_pod = len(segments) == 7 and segments[4] == "pods"
        subresource = segments[6] if is_pod else ""
        if self._read_only and (method not in SAFE_METHODS or subresource in _STREAMING_SUBRESOURCES):
            raise RequestError(
                403, "the dashboard is read-only; start it without --read-only to change objects"
            )
        return subresource

    def _headers(self, request: Any) -> CIMultiDict[str]:
        headers: CIMultiDict[str] = CIMultiDict({"User-Agent": self._user_agent})
        for name in _FORWARDED:
            if name in request.headers:
                headers[name] = escape_value(request.headers[name])
        return headers

    async def _http(self, request: Any, path: str, query: str) -> web.StreamResponse:
        body = await read_body(request)
        try:
            stream = await self._open(request.method, path, query, self._headers(request), body)
        except (ConnectionFailed, CredentialsError) as error:
            return json_response(status_object(502, str(error), "ServiceUnavailable"), 502)
        except TimeoutError:
            return json_response(
                status_object(504, f"no response of the API server within {HEADERS_TIMEOUT:g} s", "Timeout"),
                504,
            )
        try:
            return await self._forward(request, stream)
        finally:
            await stream.aclose()

    async def _open(
        self, method: str, path: str, query: str, headers: CIMultiDict[str], body: bytes
    ) -> ResponseStream:
        transport = self._client.rest.transport
        for attempt in (1, 2):
            stream = await transport.stream(method, path, query, headers, body, HEADERS_TIMEOUT, None)
            if stream.status != 401 or attempt == 2 or not transport.invalidate_credentials():
                break
            await stream.aclose()
        return stream

    async def _forward(self, request: Any, stream: ResponseStream) -> web.StreamResponse:
        from aiohttp import web

        headers: CIMultiDict[str] = CIMultiDict(DATA_HEADERS)
        for name in _RETURNED:
            for value in stream.headers.getall(name, ()):
                headers.add(name, escape_value(value))
        if not _NON_TEXT.match(headers.get("Content-Type", "")):
            headers["Content-Type"] = "text/plain; charset=utf-8"
        response = web.StreamResponse(status=stream.status, headers=headers)
        await response.prepare(request)
        try:
            if request.method != "HEAD":
                async for chunk in stream:
                    await response.write(chunk)
            await response.write_eof()
        except (ConnectionFailed, ConnectionError):
            # The status is sent already; an incomplete chunked body shows the browser that it was cut.
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _websocket(self, request: Any, path: str, query: str) -> web.StreamResponse:
        from aiohttp import web

        offered = tuple(
            each.strip()
            for each in request.headers.get("Sec-WebSocket-Protocol", "").split(",")
            if each.strip()
        )
        # A browser cannot send headers with a WebSocket, and Kubernetes has tokens as subprotocols.
        protocols = tuple(each for each in offered if not each.startswith(("base64url.", PROTOCOL)))
        pairs = parse_qsl(query, keep_blank_values=True)
        if any(name.lower().startswith("impersonate") for name, _ in pairs):
            raise RequestError(400, "impersonation is not available here")
        headers: CIMultiDict[str] = CIMultiDict({"User-Agent": self._user_agent})
        try:
            upstream = await self._client.rest.transport.websocket(
                path, query, headers, protocols, HEADERS_TIMEOUT
            )
        except APIError as error:
            return json_response(error.to_status(), error.status_code)
        except (ConnectionFailed, CredentialsError, TimeoutError) as error:
            return json_response(status_object(502, str(error), "ServiceUnavailable"), 502)
        try:
            socket = web.WebSocketResponse(
                protocols=(upstream.protocol,) if upstream.protocol else (),
                heartbeat=30.0,
                max_msg_size=MAX_BODY,
            )
            await socket.prepare(request)
            await _pump(socket, upstream)
            return socket
        finally:
            await upstream.close()


async def _pump(socket: Any, upstream: WebSocketConnection) -> None:
    """Forward messages in both directions until one end closes."""
    from aiohttp import WSMsgType

    async def to_server() -> None:
        async for message in socket:
            if message.type in (WSMsgType.BINARY, WSMsgType.TEXT):
                await upstream.send(message.data)

    async def to_browser() -> None:
        while (data := await upstream.receive()) is not None:
            await (socket.send_bytes(data) if isinstance(data, bytes) else socket.send_str(data))

    tasks = [asyncio.create_task(to_server()), asyncio.create_task(to_browser())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        failed = any(isinstance(each, ConnectionFailed) for each in results)
        with contextlib.suppress(ConnectionError, RuntimeError):
            await socket.close(code=1011 if failed else 1000)


async def read_body(request: Any) -> bytes:
    """Return the body of a request; raises `RequestError` if it is too large."""
    if (request.content_length or 0) > MAX_BODY:
        raise RequestError(413, f"the body exceeds {MAX_BODY >> 20} MiB")
    parts, length = [], 0
    async for chunk in request.content.iter_any():
        length += len(chunk)
        if length > MAX_BODY:
            raise RequestError(413, f"the body exceeds {MAX_BODY >> 20} MiB")
        parts.append(chunk)
    return b"".join(parts)
