"""`CBORTransport`: negotiate CBOR with the server; the client above it sends and receives JSON.

Responses are decoded by their Content-Type (`application/cbor`, for watches `application/cbor-seq`). Bodies
of POST and PUT are sent as CBOR after the first response in CBOR, and as JSON again after a 415.
Patches are always JSON.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Final

from multidict import CIMultiDict

from kubewright.api.encoding import cbor, codec
from kubewright.client.errors import ConnectionFailed

from .interface import APIResponse, Headers, ResponseStream, Transport, WebSocketConnection

MAX_EVENT_BYTES: Final = 64 << 20
_JSON: Final = "application/json"
_CBOR: Final = "application/cbor"


class CBORTransport:
    """A `Transport` that uses CBOR on another transport where the server offers it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._server_sends_cbor = False
        self._server_rejects_cbor = False

    async def send(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Headers | None = None,
        body: bytes = b"",
        timeout: float | None = None,
    ) -> APIResponse:
        """Send a request and return the complete response, in JSON."""
        accepting = _accepting_cbor(headers)
        encoded = self._encode(method, accepting, body)
        if encoded is not None:
            encoded_headers = accepting.copy()
            encoded_headers["Content-Type"] = _CBOR
            response = await self._transport.send(method, path, query, encoded_headers, encoded, timeout)
            if response.status != 415:
                return self._to_json(response)
            self._server_rejects_cbor = True
        return self._to_json(await self._transport.send(method, path, query, accepting, body, timeout))

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
        """Send a request with a streamed response; the items of a CBOR sequence become lines of JSON."""
        stream = await self._transport.stream(
            method, path, query, _accepting_cbor(headers), body, timeout, idle_timeout
        )
        if not _is_cbor(stream.headers):
            return stream
        self._server_sends_cbor = True
        return _CBORStream(stream)

    async def websocket(
        self,
        path: str,
        query: str = "",
        headers: Headers | None = None,
        protocols: tuple[str, ...] = (),
        timeout: float | None = None,
    ) -> WebSocketConnection:
        """Open a WebSocket."""
        return await self._transport.websocket(path, query, headers, protocols, timeout)

    def invalidate_credentials(self) -> bool:
        """Discard credentials that the server rejected."""
        return self._transport.invalidate_credentials()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    def _encode(self, method: str, headers: CIMultiDict[str], body: bytes) -> bytes | None:
        """Return the body as CBOR; `None` to send it as it is."""
        if not self._server_sends_cbor or self._server_rejects_cbor or method not in ("POST", "PUT"):
            return None
        if headers.get("Content-Type") != _JSON:
            return None
        try:
            return cbor.encode(codec.loads(body))
        except ValueError:
            # An integer beyond 64 bits, for example; the server reports what it does not accept.
            return None

    def _to_json(self, response: APIResponse) -> APIResponse:
        if not _is_cbor(response.headers):
            return response
        self._server_sends_cbor = True
        try:
            body = codec.encode(cbor.decode(response.body)) if response.body else b""
        except codec.DecodeError as error:
            raise ConnectionFailed(f"cannot decode the response: {error}") from None
        return APIResponse(response.status, _json_headers(response.headers), body)


class _CBORStream:
    """A `ResponseStream` with a line of JSON for each item of a CBOR sequence."""

    def __init__(self, stream: ResponseStream) -> None:
        self.status = stream.status
        self.headers = _json_headers(stream.headers)
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        decoder = cbor.SequenceDecoder(MAX_EVENT_BYTES)
        async for chunk in self._stream:
            try:
                items = decoder.feed(chunk)
            except codec.DecodeError as error:
                raise ConnectionFailed(f"cannot decode a watch event: {error}") from None
            if items:
                yield b"".join([codec.encode(item) + b"\n" for item in items])
        if decoder.incomplete:
            raise ConnectionFailed("the connection was closed within an event")

    async def aclose(self) -> None:
        """Stop reading and close the connection."""
        await self._stream.aclose()


def _is_cbor(headers: CIMultiDict[str]) -> bool:
    return headers.get("Content-Type", "").startswith(_CBOR)


def _json_headers(headers: CIMultiDict[str]) -> CIMultiDict[str]:
    converted = headers.copy()
    content_type = converted["Content-Type"]
    _, separator, parameters = content_type.partition(";")
    converted["Content-Type"] = _JSON + separator + parameters
    converted.popall("Content-Length", None)
    return converted


def _accepting_cbor(headers: Headers | None) -> CIMultiDict[str]:
    accepting = CIMultiDict(headers or {})
    accept = accepting.get("Accept", "")
    if _JSON in accept:
        accepting["Accept"] = _prefer_cbor(accept)
    return accepting


@lru_cache(maxsize=32)
def _prefer_cbor(accept: str) -> str:
    """Return an Accept header with CBOR before JSON in each clause."""
    clauses: list[str] = []
    for clause in map(str.strip, accept.split(",")):
        if clause.startswith(_JSON):
            clauses.append(_CBOR + clause.removeprefix(_JSON))
        clauses.append(clause)
    return ", ".join(clauses)
