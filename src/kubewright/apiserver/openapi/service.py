"""OpenAPI over HTTP: index, documents and their cache.

Version 3 has one document per group version; the links of its index contain a hash, so that documents can be
cached without expiry, and an outdated link redirects to the current one. Version 2 is one document. Documents
are built at their first request and cached until the resources change, as JSON and protobuf; the modules that
build them are imported then.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.apiserver.encoding.negotiation import JSON, encode, json_response, parse_accept
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer

    from .documents import DocumentBuilder

Schema = dict[str, Any]
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
        self.external: Callable[[], Mapping[str, str]] = dict
        """Group versions of other servers: path (`apis/g/v`) to a relative URL."""
        self.external_v2: Callable[[], Iterable[Schema]] = tuple
        """Version 2 documents of other servers, which are merged into this server's."""

    def invalidate(self, group: str | None = None) -> None:
        """Discard the documents of a group, or all: resources have changed."""
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
            if path not in self._v3:
                # Other requests are served between two documents.
                await asyncio.sleep(0)
            found = self._document(path)
            if found is not None:
                paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={found[1]}"}
        for path, url in self.external().items():
            paths[path] = {"serverRelativeURL": url}
        response = json_response({"paths": paths})
        response.headers["ETag"] = f'"{hashlib.sha512(response.body).hexdigest().upper()}"'
        if request.headers.get("If-None-Match") == response.headers["ETag"]:
            return HTTPResponse(304, headers=response.headers)
        return response

    def _document(self, path: str) -> tuple[bytes, str] | None:
        found = self._v3.get(path)
        if found is None:
            document = self._documents.v3(path)
            if document is not None:
                body = encode(document)
                found = self._v3[path] = (body, hashlib.sha512(body).hexdigest().upper())
        return found

    async def v3(self, request: HTTPRequest) -> HTTPResponse:
        """Serve `/openapi/v3/<path>`: a group version or a discovery path."""
        path = request.path.removeprefix("/openapi/v3").strip("/")
        found = self._document(path)
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
        return self._respond(path, body, media, headers)

    async def v2(self, request: HTTPRequest) -> HTTPResponse:
        """Serve `/openapi/v2`."""
        media = _negotiate(request, _PROTOBUF_2)
        if not media:
            return _not_acceptable()
        if self._v2 is None:
            body = encode(self._documents.v2(self.external_v2()))
            self._v2 = (body, f'"{hashlib.sha512(body).hexdigest().upper()}"')
        body, etag = self._v2
        headers: dict[str, str | list[str]] = {"ETag": etag, "Vary": "Accept"}
        if request.headers.get("If-None-Match") == etag:
            return HTTPResponse(304, headers=headers)
        return self._respond("", body, media, headers)

    def _respond(
        self, path: str, body: bytes, media: str, headers: dict[str, str | list[str]]
    ) -> HTTPResponse:
        """Respond with a document in the accepted format; version 2 has no path."""
        if media == JSON:
            return HTTPResponse(200, body, headers=headers)
        made = self._protobuf.get(path)
        if made is None:
            from .protobuf import V2, V3

            made = self._protobuf[path] = (V3 if path else V2).encode(msgspec.json.decode(body))
        return HTTPResponse(200, made, headers=headers, content_type=media)


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
