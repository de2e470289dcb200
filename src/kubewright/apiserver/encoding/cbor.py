"""CBOR at the edge of a server: requests and responses are converted, the server itself processes JSON.

    server = APIServer(storage, cbor=True)

Bodies of type `application/cbor` and `application/apply-patch+cbor` become JSON. A client that prefers
`application/cbor` gets objects, lists, Tables and errors as one data item with the self-describing tag, and
watches as a sequence of items (`application/cbor-seq`). kube-apiserver does the same behind the feature gate
CBORServingAndStorage.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

import msgspec
from multidict import CIMultiDict

from kubewright.api.encoding import cbor
from kubewright.api.errors import BadRequest
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse, WrappedStream
from kubewright.text_cache import cache_short

from .negotiation import JSON, PROTOBUF, YAML, encode, parse_accept

if TYPE_CHECKING:
    from kubewright.apiserver.router import HTTPHandler

CBOR: Final = "application/cbor"
SEQUENCE: Final = "application/cbor-seq"
_BODIES: Final = {CBOR: JSON, "application/apply-patch+cbor": "application/apply-patch+yaml"}
"""Media types of bodies in CBOR, and those of the same body in JSON."""


class CBORHandler:
    """Serves requests in CBOR with a handler that knows JSON; other requests cost one look at two headers."""

    def __init__(self, handle: HTTPHandler) -> None:
        self._handle = handle

    async def __call__(self, request: HTTPRequest) -> HTTPResponse:
        """Serve one request."""
        headers = request.headers
        sent = "cbor" in headers.get("Content-Type", "")
        accepted = _accept_json(headers.get("Accept", "")) if "cbor" in headers.get("Accept", "") else None
        if not sent and accepted is None:
            return await self._handle(request)
        changed = CIMultiDict(headers)
        if sent:
            media = headers.get("Content-Type", "").partition(";")[0].strip().lower()
            if media in _BODIES:
                changed["Content-Type"] = _BODIES[media]
                request.convert_body(_to_json)
        if accepted is not None:
            changed["Accept"] = accepted
        request.headers = changed
        response = await self._handle(request)
        return _to_cbor(response) if accepted is not None and request.path.startswith("/api") else response


@cache_short(maxsize=256)
def _accept_json(header: str) -> str | None:
    """Return the Accept header with JSON instead of CBOR; `None` if the client prefers another format."""
    clauses = parse_accept(header)
    known = [clause.media for clause in clauses if clause.media in (CBOR, SEQUENCE, JSON, YAML, PROTOBUF)]
    if not known or known[0] not in (CBOR, SEQUENCE):
        return None
    return header.replace(SEQUENCE, JSON).replace(CBOR, JSON)


def _to_json(body: bytes) -> bytes:
    try:
        return encode(cbor.decode(body))
    except ValueError as error:
        raise BadRequest(f"the body is not an object in CBOR: {error}") from None


def _to_cbor(response: HTTPResponse) -> HTTPResponse:
    if not response.content_type.startswith(JSON):
        return response
    if response.stream is not None:
        response.stream = _Sequence(response.stream)
        response.content_type = SEQUENCE
    elif response.length:
        response.body = cbor.encode(msgspec.json.decode(response.body))
        response.content_type = CBOR
    return response


class _Sequence(WrappedStream):
    """A streamed response whose lines of JSON, in chunks of any size, are converted to data items."""

    def __init__(self, lines: AsyncIterator[bytes]) -> None:
        super().__init__(lines)
        self._buffer = b""

    async def __anext__(self) -> bytes:
        while True:
            chunk = await self._stream.__anext__()
            *complete, self._buffer = (self._buffer + chunk).split(b"\n")
            items = [cbor.encode(msgspec.json.decode(line)) for line in complete if line.strip()]
            if items:
                return b"".join(items)
