"""Links in HTML pages that the API server forwards from pods: absolute paths become paths of the proxy.

As in kube-apiserver, so that a browser can follow the links of a page behind `pods/NAME/proxy`. Pages are
rewritten as they arrive; of a tag that is split, and of nothing else, the beginning is held back.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Final

ATTRIBUTES: Final = {
    "a": "href",
    "applet": "codebase",
    "area": "href",
    "audio": "src",
    "base": "href",
    "blockquote": "cite",
    "body": "background",
    "button": "formaction",
    "command": "icon",
    "del": "cite",
    "embed": "src",
    "form": "action",
    "frame": "longdesc|src",
    "head": "profile",
    "html": "manifest",
    "iframe": "longdesc|src",
    "img": "longdesc|src|usemap",
    "input": "src|usemap|formaction",
    "ins": "cite",
    "link": "href",
    "object": "classid|codebase|data|usemap",
    "q": "cite",
    "script": "src",
    "source": "src",
    "video": "poster|src",
}
"""Attributes with URLs, by element."""
MAX_TAG: Final = 65_536
_TAG: Final = re.compile(rb"<(/?[A-Za-z][A-Za-z0-9]*)[^<>]*>")
_TEXT_ELEMENTS: Final = (b"script", b"style", b"textarea", b"title")
"""Elements whose content has no tags."""
_PATTERNS: Final = {
    element.encode(): re.compile(rb"""(\s(?:%s)\s*=\s*)("[^"]*"|'[^']*')""" % names.encode(), re.IGNORECASE)
    for element, names in ATTRIBUTES.items()
}


class LinkRewriter:
    """Rewrites the links of one page."""

    def __init__(self, rewrite: Callable[[str], str]) -> None:
        self._rewrite = rewrite
        self._held = b""
        self._inside = b""
        """The element whose content is text."""

    def feed(self, data: bytes) -> bytes:
        """Return the next part of the page."""
        data = self._held + data
        written, position = [], 0
        for tag in _TAG.finditer(data):
            name = tag[1].lower()
            written += [data[position : tag.start()], self._tag(name, tag[0])]
            position = tag.end()
        rest = data[position:]
        start = rest.rfind(b"<")
        if start < 0 or len(rest) - start > MAX_TAG:
            start = len(rest)
        self._held = rest[start:]
        return b"".join((*written, rest[:start]))

    def close(self) -> bytes:
        """Return the end of the page."""
        held, self._held = self._held, b""
        return held

    def _tag(self, name: bytes, tag: bytes) -> bytes:
        if self._inside:
            if name == b"/" + self._inside:
                self._inside = b""
            return tag
        if name in _TEXT_ELEMENTS:
            self._inside = name
        pattern = _PATTERNS.get(name)
        return pattern.sub(self._attribute, tag) if pattern is not None else tag

    def _attribute(self, match: re.Match[bytes]) -> bytes:
        value = match[2]
        try:
            text = value[1:-1].decode()
        except UnicodeDecodeError:
            return match[0]
        return match[1] + value[:1] + self._rewrite(text).encode() + value[-1:]

    async def stream(self, chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        """Yield the rewritten parts of a page."""
        async for chunk in chunks:
            if data := self.feed(chunk):
                yield data
        if data := self.close():
            yield data
