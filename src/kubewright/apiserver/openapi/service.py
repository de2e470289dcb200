"""OpenAPI over HTTP: index, documents and their cache.

Version 3 has one document per group version; the links of its index contain a hash, so that documents can be
cached without expiry, and an outdated link redirects to the current one. Version 2 is one document. Documents
are built at their first request, in slices, and cached until the resources change, as JSON and protobuf; the
modules that build them are imported then.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.apiserver.encoding.negotiation import JSON, encode, json_response, parse_accept
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.apiserver.slices import run_in_slices

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer

    from .documents import DocumentBuilder

Schema = dict[str, Any]
ENTRIES_PER_SLICE = 64
_PROTOBUF_2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_PROTOBUF_3 = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"


class OpenAPIService:
    """The OpenAPI documents of one server."""

    def __init__(self, server: APIServer) -> None:
        self._server = server
        self._v3: dict[str, tuple[bytes, str]] = {}
        self._v2: tuple[bytes, str] | None = None
        self._protobuf: dict[str, bytes] = {}
        self._builder: DocumentBuilder | None = None
        self._building = asyncio.Lock()
        self._changes = 0
        """Counts changes of the resources; a document that was being built meanwhile is built again."""
        self.external: Callable[[], Mapping[str, str]] = dict
        """Group versions of other servers: path (`apis/g/v`) to a relative URL."""
        self.external_v2: Callable[[], Iterable[Schema]] = tuple
        """Version 2 documents of other servers, which are merged into this server's."""

    def invalidate(self, group: str | None = None) -> None:
        """Discard the documents of a group, or all: resources have changed."""
        self._changes += 1
        home = f"apis/{group}" if group else "api"
        for kept in (self._v3, self._protobuf):
            for path in list(kept):
                if group is None or path == home or path.startswith(home + "/"):
                    del kept[path]
        self._v2 = None
        self._protobuf.pop("", None)

    @property
    def _documents(self) -> DocumentBuilder:
        if self._builder is None:
            from .documents import DocumentBuilder

            self._builder = DocumentBuilder(self._server)
        return self._builder

    async def v3_index(self, request: HTTPRequest) -> HTTPResponse:
        """Serve `/openapi/v3`, the index."""
        paths: dict[str, Any] = {}
        for path in self._documents.paths():
            found = await self._document(path)
            if found is not None:
                paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={found[1]}"}
        for path, url in self.external().items():
            paths[path] = {"serverRelativeURL": url}
        response = json_response({"paths": paths})
        response.headers["ETag"] = f'"{hashlib.sha512(response.body).hexdigest().upper()}"'
        if request.headers.get("If-None-Match") == response.headers["ETag"]:
            return HTTPResponse(304, headers=response.headers)
        return response

    async def _document(self, path: str) -> tuple[bytes, str] | None:
        found = self._v3.get(path)
        while found is None:
            async with self._building:
                found = self._v3.get(path)
                if found is not None:
                    break
                changes = self._changes
                document = await run_in_slices(self._documents.v3(path))
                if document is None:
                    return None
                made = await _encode(document)
                if changes == self._changes:
                    found = self._v3[path] = made
        return found

    async def v3(self, request: HTTPRequest) -> HTTPResponse:
        """Serve `/openapi/v3/<path>`: a group version or a discovery path."""
        path = request.path.removeprefix("/openapi/v3").strip("/")
        found = await self._document(path)
        if found is None:
            return HTTPResponse(404, content_type="")
        media = _negotiate(request, _PROTOBUF_3)
        if not media:
            return _not_acceptable()
        body, digest = found
        headers: dict[str, str | list[str]] = {"ETag": f'"{digest}"', "Vary": "Accept"}
        expected_hash = request.query.get("hash")
        if expected_hash:
            if expected_hash != digest:
                headers["Location"] = f"/openapi/v3/{path}?hash={digest}"
                return HTTPResponse(301, headers=headers)
            headers["Cache-Control"] = "public, immutable"
            headers["Expires"] = _expires_in_a_year()
        if request.headers.get("If-None-Match") == headers["ETag"]:
            return HTTPResponse(304, headers=headers)
        return await self._respond(path, body, media, headers)

    async def v2(self, request: HTTPRequest) -> HTTPResponse:
        """Serve `/openapi/v2`."""
        media = _negotiate(request, _PROTOBUF_2)
        if not media:
            return _not_acceptable()
        made = self._v2
        while made is None:
            async with self._building:
                if self._v2 is None:
                    changes = self._changes
                    document = await run_in_slices(self._documents.v2(self.external_v2()))
                    encoded = await _encode(document)
                    if changes == self._changes:
                        self._v2 = encoded
                made = self._v2
        body, digest = made
        etag = f'"{digest}"'
        headers: dict[str, str | list[str]] = {"ETag": etag, "Vary": "Accept"}
        if request.headers.get("If-None-Match") == etag:
            return HTTPResponse(304, headers=headers)
        return await self._respond("", body, media, headers)

    async def _respond(
        self, path: str, body: bytes, media: str, headers: dict[str, str | list[str]]
    ) -> HTTPResponse:
        """Respond with a document in the accepted format; version 2 has no path."""
        if media == JSON:
            return HTTPResponse(200, body, headers=headers)
        made = self._protobuf.get(path)
        if made is None:
            from .protobuf import V2, V3

            changes = self._changes
            made = await asyncio.to_thread(lambda: (V3 if path else V2).encode(msgspec.json.decode(body)))
            if changes == self._changes:
                self._protobuf[path] = made
        return HTTPResponse(200, made, headers=headers, content_type=media)


async def _encode(document: Schema) -> tuple[bytes, str]:
    """Return a document as JSON, encoded in slices, and its hash, computed in a thread."""
    body = await run_in_slices(encode_in_slices(document))
    return body, await asyncio.to_thread(lambda: hashlib.sha512(body).hexdigest().upper())


def encode_in_slices(document: Schema) -> Generator[None, None, bytes]:
    """Encode a document as JSON; objects at its first levels are encoded entry by entry."""
    parts: list[bytes] = []
    yield from _add_parts(parts, document, 3)
    return b"".join(parts)


def _add_parts(parts: list[bytes], value: Any, levels: int) -> Generator[None]:
    if type(value) is not dict or not levels or not value:
        parts.append(encode(value))
        return
    separator = b"{"
    for position, (name, entry) in enumerate(value.items()):
        parts.append(b"%b%b:" % (separator, encode(name)))
        yield from _add_parts(parts, entry, levels - 1)
        separator = b","
        if position % ENTRIES_PER_SLICE == ENTRIES_PER_SLICE - 1:
            yield
    parts.append(b"}")


def _negotiate(request: HTTPRequest, protobuf: str) -> str:
    """Return JSON or the protobuf type, which some clients spell with an `@`; empty if neither is
    accepted."""
    header = request.headers.get("Accept")
    for clause in parse_accept(header) if header else ():
        if clause.media in (JSON, "application/*", "*/*"):
            return JSON
        if clause.media.replace("@", ".") == protobuf:
            return protobuf
    return "" if header else JSON


def _not_acceptable() -> HTTPResponse:
    return HTTPResponse(406, headers={"Vary": "Accept"}, content_type="")


def _expires_in_a_year() -> str:
    from datetime import UTC, datetime, timedelta
    from email.utils import format_datetime

    return format_datetime(datetime.now(UTC) + timedelta(days=365), usegmt=True)
