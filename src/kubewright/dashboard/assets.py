"""The files of the front end, which are part of the package.

Files are read once, when they are first requested, and compressed in memory. Browsers revalidate them with an
ETag, so a newer version is used immediately.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .responses import page_headers, page_response

if TYPE_CHECKING:
    from aiohttp import web

STATIC = Path(__file__).with_name("static")
NONCE = b"__CSP_NONCE__"
SESSION = b"__SESSION__"
_COMPRESSED = ("text/", "application/javascript", "application/json", "image/svg+xml")
_TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class _File(NamedTuple):
    content_type: str
    body: bytes
    compressed: bytes
    """Empty if compression does not help."""
    etag: str


class Assets:
    """Serves the files of a directory."""

    def __init__(self, directory: Path = STATIC) -> None:
        self._directory = directory
        self._names = frozenset(
            each.relative_to(directory).as_posix() for each in directory.rglob("*") if each.is_file()
        )
        self._files: dict[str, _File] = {}

    def find(self, path: str) -> str | None:
        """Return the name of the file that a URL path refers to, or `None`."""
        name = path.removeprefix("/").removeprefix("static/")
        return name if name in self._names and name != "index.html" else None

    def file(self, name: str, request: Any) -> web.Response:
        """Return a file."""
        from aiohttp import web

        found = self._files.get(name) or self._read(name)
        headers = {**page_headers(""), "ETag": found.etag, "Vary": "Accept-Encoding"}
        if request.headers.get("If-None-Match") == found.etag:
            return web.Response(status=304, headers=headers)
        body = found.body
        if found.compressed and "gzip" in request.headers.get("Accept-Encoding", ""):
            headers["Content-Encoding"] = "gzip"
            body = found.compressed
        headers["Content-Type"] = found.content_type
        return web.Response(body=body, headers=headers)

    def page(self, session: str = "") -> web.Response:
        """Return `index.html` with a new nonce, and with the session of a page that has just signed in."""
        from aiohttp import web

        if "index.html" not in self._names:
            return page_response(
                "Kubewright",
                "The front end is not part of this installation; build it with `make dashboard`.",
                503,
            )
        nonce = secrets.token_urlsafe(16)
        body = (self._files.get("index.html") or self._read("index.html")).body
        body = body.replace(NONCE, nonce.encode()).replace(SESSION, session.encode())
        headers = {
            **page_headers(nonce),
            "Cache-Control": "no-store",
            "Content-Type": "text/html; charset=utf-8",
        }
        return web.Response(body=body, headers=headers)

    def _read(self, name: str) -> _File:
        path = self._directory / name
        body = path.read_bytes()
        kind = _TYPES.get(path.suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
        compressed = gzip.compress(body, 6, mtime=0) if kind.startswith(_COMPRESSED) else b""
        if len(compressed) >= len(body):
            compressed = b""
        charset = "; charset=utf-8" if kind.startswith("text/") else ""
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        found = self._files[name] = _File(kind + charset, body, compressed, etag)
        return found
