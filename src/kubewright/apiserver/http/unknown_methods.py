"""HTTP methods that the parser does not know.

aiohttp's parser accepts a fixed set of methods and reports any other as a malformed request. As in
kube-apiserver, a request with another method is authenticated and gets a 405 (or 401, 403, 404) of its path.
`RequestParser` therefore parses such a request again as a GET and puts its method back into the message.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from aiohttp.http_exceptions import BadHttpMethod

_REQUEST_LINE = re.compile(rb"([A-Z][A-Z_-]{0,31}) (?=[/*]\S* HTTP/1\.[01]\r\n)")
_KNOWN = re.compile(rb"(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)\Z")


class RequestParser:
    """An aiohttp request parser that accepts all methods. `make` returns a new parser."""

    __slots__ = ("_make", "_method", "_parser")

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._parser = make()
        self._method = ""

    def feed_data(self, data: bytes, *args: Any) -> Any:
        """Parse received bytes; returns complete messages, whether the protocol is upgraded, and the rest."""
        try:
            result = self._parser.feed_data(data, *args)
        except BadHttpMethod:
            # The end of the previous body can precede the request line in the same bytes.
            found = _REQUEST_LINE.search(data)
            if found is None or _KNOWN.match(found[1]):
                raise
            self._parser = self._make()
            self._method = found[1].decode()
            result = self._parser.feed_data(b"GET" + data[found.end(1) :], *args)
        if self._method and result[0]:
            (message, body), *others = result[0]
            renamed = message._replace(method=self._method)
            self._method = ""
            return [(renamed, body), *others], *result[1:]
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)
