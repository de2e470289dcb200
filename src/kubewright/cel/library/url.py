"""URLs, absolute or starting with a slash, parsed as Go's net/url does."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_plus

from kubewright.cel.errors import CelError
from kubewright.cel.functions import Overload, overload
from kubewright.cel.types import opaque_type
from kubewright.cel.values import Opaque

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2}).{0,2}", re.DOTALL)
_ALLOWED_PATH: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~$&+,/:;=@%!'()*[]"
)
_HOST_FORBIDDEN: Final = re.compile(r"[\s\"<>\\^`{|}]")
_HOST_ESCAPE: Final = re.compile(r"%(?!25|[89a-fA-F][0-9a-fA-F]).{0,2}", re.DOTALL)
_PORT: Final = re.compile(r":[0-9]*")


class URL(Opaque):
    """A parsed URL."""

    __slots__ = ("host", "path", "query", "rest", "scheme")
    cel_type = opaque_type("kubernetes.URL")

    def __init__(self, scheme: str, host: str, path: str, query: str, rest: str) -> None:
        self.scheme = scheme
        self.host = host
        self.path = path
        self.query = query
        self.rest = rest

    def equals(self, other: object) -> bool:
        """Equality of all parts."""
        return isinstance(other, URL) and all(
            getattr(self, part) == getattr(other, part) for part in self.__slots__
        )


def _reason(text: str) -> str | tuple[str, str, str, str, str]:
    """Return the parts of a URL, or why it is invalid."""
    if not text:
        return "empty url"
    if any(char < " " or char == "\x7f" for char in text):
        return "net/url: invalid control character in URL"
    if text == "*":
        return ("", "", "*", "", "")
    match = _SCHEME.match(text)
    scheme, rest = ("", text)
    if match:
        scheme, rest = text[: match.end() - 1].lower(), text[match.end() :]
    elif text.startswith(":"):
        return "missing protocol scheme"
    fragment = ""
    if "#" in rest:
        rest, _, fragment = rest.partition("#")
    path, _, query = rest.partition("?")
    if not rest.startswith("/"):
        return (scheme, "", "", query, rest) if scheme else "invalid URI for request"
    host = ""
    user = ""
    if path.startswith("//") and (scheme or not path.startswith("///")):
        authority, slash, tail = path[2:].partition("/")
        path = slash + tail
        user, at, host = authority.rpartition("@")
        user += at
        problem = _host_problem(host)
        if problem:
            return problem
    escape = _BAD_ESCAPE.search(path)
    if escape:
        return f'invalid URL escape "{escape[0]}"'
    return (scheme, host, path, query, user + "#" + fragment)


def _host_problem(host: str) -> str | None:
    escape = _HOST_ESCAPE.search(host)
    if escape:
        return f'invalid URL escape "{escape[0]}"'
    if host.startswith("["):
        end = host.find("]")
        if end < 0:
            return "missing ']' in host"
        port = host[end + 1 :]
        if port and not _PORT.fullmatch(port):
            return f'invalid port "{port}" after host'
        return None
    forbidden = _HOST_FORBIDDEN.search(host)
    if forbidden:
        return f'invalid character "{forbidden[0]}" in host name'
    colon = host.rfind(":")
    if colon >= 0 and not _PORT.fullmatch(host[colon:]):
        return f'invalid port "{host[colon:]}" after host'
    return None


def malformation(text: str) -> str:
    """Return why a text is not a URL, not even a relative one, or an empty string."""
    parts = _reason(text)
    if not isinstance(parts, str) or parts == "empty url":
        return ""
    if parts == "invalid URI for request":
        clash = ":" in text.partition("/")[0]
        return "first path segment in URL cannot contain colon" if clash else ""
    return parts


def parse(text: str) -> URL:
    """`url(text)`."""
    parts = _reason(text)
    if isinstance(parts, str):
        raise CelError(f'URL parse error during conversion from string: parse "{text}": {parts}')
    return URL(*parts)


def is_url(text: str) -> bool:
    """`isURL(text)`."""
    return not isinstance(_reason(text), str)


def problem(text: str) -> str | None:
    """Return the error message of an invalid URL."""
    parts = _reason(text)
    return f'parse "{text}": {parts}' if isinstance(parts, str) else None


def _hostname(url: URL) -> str:
    host = url.host
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def _port(url: URL) -> str:
    host = url.host.rpartition("]")[2]
    return host.rpartition(":")[2] if ":" in host else ""


def _escaped_path(url: URL) -> str:
    if all(char in _ALLOWED_PATH for char in url.path):
        return url.path
    return "".join(
        char if char in _ALLOWED_PATH else "".join(f"%{byte:02X}" for byte in char.encode())
        for char in url.path
    )


def _query(url: URL) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in url.query.split("&"):
        if not pair or ";" in pair:
            continue
        key, _, value = pair.partition("=")
        if _BAD_ESCAPE.search(key) or _BAD_ESCAPE.search(value):
            continue
        found.setdefault(unquote_plus(key), []).append(unquote_plus(value))
    return found


OVERLOADS: Final[list[Overload]] = [
    overload("url", "string_to_url", "(string) -> kubernetes.URL", parse),
    overload("isURL", "is_url_string", "(string) -> bool", is_url),
    overload("getScheme", "url_get_scheme", "kubernetes.URL.() -> string", lambda url: url.scheme),
    overload("getHost", "url_get_host", "kubernetes.URL.() -> string", lambda url: url.host),
    overload("getHostname", "url_get_hostname", "kubernetes.URL.() -> string", _hostname),
    overload("getPort", "url_get_port", "kubernetes.URL.() -> string", _port),
    overload("getEscapedPath", "url_get_escaped_path", "kubernetes.URL.() -> string", _escaped_path),
    overload("getQuery", "url_get_query", "kubernetes.URL.() -> map(string, list(string))", _query),
]
