"""Headers as bytes: the only place that writes the head of an HTTP message by hand.

A value that came from a user, from a claim of a token or from an object must never become a second header or
a second request. There are two ways to treat control characters, both those of Go's HTTP library, which
kube-apiserver uses:

- own requests are rejected with `InvalidHeader`;
- in what is forwarded or returned, control characters (first of all line breaks) become spaces.

Names must be tokens. Characters that cannot be encoded (surrogates, which stand for bytes that are not UTF-8)
become U+FFFD; they are not left out, because the rest could be the name of another user.

`encode_head` returns the bytes of a message head, `escape_headers` the pairs for an HTTP library,
`identity_value` the value of a header that names a user, `escape_key` the percent-encoded key of an extra
attribute of a user.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NOT_IN_KEY: Final = re.compile(rb"[^!#$&'*+.^_`|~0-9A-Za-z-]")
_SPACE: Final = " \t"


class InvalidHeader(ValueError):
    """A header that cannot be sent; the wording is that of Go."""


def encode_head(start_line: str, headers: Iterable[tuple[str, str]], *, escape: bool) -> bytes:
    """Return the head of a message: start line, headers and the empty line.

    With `escape`, control characters in values become spaces; otherwise they raise `InvalidHeader`, as names
    and start lines that are not valid do in any case.
    """
    if not start_line.isprintable():
        if _CONTROL.search(start_line):
            raise InvalidHeader(f"the start line {start_line!a} contains a control character")
        start_line = replace_surrogates(start_line)
    return start_line.encode() + b"\r\n" + encode_headers(headers, escape=escape)


def encode_headers(headers: Iterable[tuple[str, str]], *, escape: bool) -> bytes:
    """Return headers and the empty line after them, as `encode_head` does."""
    lines = []
    for name, value in headers:
        if not is_token(name):
            raise InvalidHeader(f"invalid header field name {name!a}")
        if not value.isprintable():
            value = escape_value(value) if escape else _checked(name, value)
        lines.append(f"{name}: {value}\r\n")
    lines.append("\r\n")
    return "".join(lines).encode()


def check_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the headers of an own request for an HTTP library; raises `InvalidHeader`."""
    for name, _ in (headers := list(headers)):
        if not is_token(name):
            raise InvalidHeader(f"invalid header field name {name!a}")
    return [(name, _checked(name, value)) for name, value in headers]


def escape_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return headers that an HTTP library sends unchanged; those whose names are not tokens are left out."""
    return [(name, escape_value(value)) for name, value in headers if is_token(name)]


def escape_value(value: str) -> str:
    """Return the value of a header without control characters and surrounding space."""
    if not value.isprintable():
        value = replace_surrogates(_CONTROL.sub(" ", value))
    return value.strip(_SPACE)


def identity_value(name: str, value: str) -> str:
    """Return the value of a header that names a user or a group.

    Raises `InvalidHeader` if space at its ends would be removed on the way: `system:masters` followed by a
    line break must not arrive as `system:masters`.
    """
    escaped = _CONTROL.sub(" ", value)
    if escaped.strip(_SPACE) != escaped:
        raise InvalidHeader(f'invalid header field value for "{name}"')
    return replace_surrogates(escaped)


def escape_key(key: str) -> str:
    """Return the key of an extra attribute as the end of a header name: percent-encoded, but for tokens."""
    return _NOT_IN_KEY.sub(lambda found: b"%%%02X" % found[0][0], replace_surrogates(key).encode()).decode()


def replace_surrogates(text: str) -> str:
    """Return a text that can be encoded: bytes that were not UTF-8 are U+FFFD, as in the JSON of Go."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


@lru_cache(1024)
def is_token(name: str) -> bool:
    """Whether a text can be the name of a header."""
    return _TOKEN.fullmatch(name) is not None


def _checked(name: str, value: str) -> str:
    if _CONTROL.search(value):
        raise InvalidHeader(
            f'invalid header field value for "{name}": it contains a line break or another control character'
        )
    return replace_surrogates(value).strip(_SPACE)
