"""OpenAPI over HTTP: the index, the documents, and what is kept of them.

Version 3 is one document per group version, found through an index whose links carry a hash: a link that is
still right may be cached for ever, one that is not redirects to the one that is. Version 2 is one document of
everything. Both are made when they are first asked for and kept until the resources change, in JSON and, for
clients that ask for it, in protobuf. What makes them is loaded then, too.
"""

from __future__ import annotations

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
        self._made_by: DocumentBuilder | None = None
        self.external: Callable[[], Mapping[str, str]] = dict
        """Group versions served elsewhere: path (`apis/g/v`) to a relative URL."""
        self.external_v2: Callable[[], Iterable[Schema]] = tuple
        """Documents of version 2 from elsewhere, to be added to this server's own."""

    def invalidate(self, group: str | None = None) -> None:
        """Forget documents: the resources of a group have changed, or of any when none is named."""
        home = f"apis/{group}" if group else "api"
        for kept in (self._v3, self._protobuf):
            for path in list(kept):
                if group is None or path == home or path.startswith(home + "/"):
                    del kept[path]
        self._v2 = None
        self._protobuf.pop("", None)

    @property
    def _documents(self) -> DocumentBuilder:
        if self._made_by is None:
            from .documents import DocumentBuilder

            self._made_by = DocumentBuilder(self._server)
        return self._made_by

    async def v3_index(self, request: HTTPRequest) -> HTTPResponse:
        """`/openapi/v3`: where the documents are."""
        paths: dict[str, Any] = {}
        for path in self._documents.paths():
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
        """`/openapi/v3/<path>`: one group version, or one of the paths where groups are found."""
        path = request.path.removeprefix("/openapi/v3").strip("/")
        found = self._document(path)
        if found is None:
            return HTTPResponse(404, content_type="")
        media = _negotiate(request, _PROTOBUF_3)
        if not media:
            return _not_acceptable()
        body, digest = found
        headers: dict[str, str | list[str]] = {"ETag": f'"{digest}"', "Vary": "Accept"}
        asked = request.query.get("hash")
        if asked:
            if asked != digest:
                headers["Location"] = f"/openapi/v3/{path}?hash={digest}"
                return HTTPResponse(301, headers=headers)
            headers["Cache-Control"] = "public, immutable"
            headers["Expires"] = _in_a_year()
        if request.headers.get("If-None-Match") == headers["ETag"]:
            return HTTPResponse(304, headers=headers)
        return self._answer(path, body, media, headers)

    async def v2(self, request: HTTPRequest) -> HTTPResponse:
        """`/openapi/v2`: everything in one document."""
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
        return self._answer("", body, media, headers)

    def _answer(
        self, path: str, body: bytes, media: str, headers: dict[str, str | list[str]]
    ) -> HTTPResponse:
        """A document in the form that was asked for; version 2 has no path."""
        if media == JSON:
            return HTTPResponse(200, body, headers=headers)
        made = self._protobuf.get(path)
        if made is None:
            from .protobuf import V2, V3

            made = self._protobuf[path] = (V3 if path else V2).encode(msgspec.json.decode(body))
        return HTTPResponse(200, made, headers=headers, content_type=media)


def _negotiate(request: HTTPRequest, protobuf: str) -> str:
    """JSON or this kind of protobuf, which some clients spell with an `@`; nothing if neither will do."""
    header = request.headers.get("Accept")
    for clause in parse_accept(header) if header else ():
        if clause.media in (JSON, "application/*", "*/*"):
            return JSON
        if clause.media.replace("@", ".") == protobuf:
            return protobuf
    return "" if header else JSON


def _not_acceptable() -> HTTPResponse:
    return HTTPResponse(406, headers={"Vary": "Accept"}, content_type="")


def _in_a_year() -> str:
    from datetime import UTC, datetime, timedelta
    from email.utils import format_datetime

    return format_datetime(datetime.now(UTC) + timedelta(days=365), usegmt=True)
