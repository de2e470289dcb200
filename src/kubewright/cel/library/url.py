"""URLs, absolute or starting with a slash, parsed as Go's net/url does."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import unquote, unquote_plus

from kubewright.api.values.go_format import quote
from kubewright.cel.checking.types import opaque_type
from kubewright.cel.errors import CelError
from kubewright.cel.functions import Overload, overload
from kubewright.cel.library.address_problems import address_problem
from kubewright.cel.values import Opaque

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2}).{0,2}", re.DOTALL)
_ALLOWED_PATH: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~$&+,/:;=@%!'()*[]"
)
_HOST_FORBIDDEN: Final = re.compile(
    r"%(?!25|[89a-fA-F][0-9a-fA-F]).{0,2}|[^%\x80-\U0010ffffA-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\"]", re.DOTALL
)
_PORT: Final = re.compile(r":[0-9]*")
_USER: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_Parts = tuple[str, str, str, str, str]


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


def _split(text: str, *, request: bool) -> str | _Parts:
    """Return the parts of a URL, or why it is invalid; `request` as in Go's `url.ParseRequestURI`.

    A fragment is not separated: in a request URI, `#` belongs to the part in which it is.
    """
    if any(char < " " or char == "\x7f" for char in text):
        return "net/url: invalid control character in URL"
    if not text and request:
        return "empty url"
    if text == "*":
        return ("", "", "*", "", "")
    match = _SCHEME.match(text)
    scheme, rest = ("", text)
    if match:
        scheme, rest = text[: match.end() - 1].lower(), text[match.end() :]
    elif text.startswith(":"):
        return "missing protocol scheme"
    path, _, query = rest.partition("?")
    if not path.startswith("/"):
        if scheme:
            return (scheme, "", "", query, path)
        if request:
            return "invalid URI for request"
        if ":" in path.partition("/")[0]:
            return "first path segment in URL cannot contain colon"
    host = user = ""
    if path.startswith("//") and (scheme or (not request and not path.startswith("///"))):
        authority, slash, tail = path[2:].partition("/")
        path = slash + tail
        user, at, host = authority.rpartition("@")
        problem = _host_problem(scheme, host) or _user_problem(user)
        if problem:
            return problem
        user += at
        host = unquote(host)
    return _escape_problem(path) or (scheme, host, path, query, user)


def _escape_problem(text: str) -> str:
    escape = _BAD_ESCAPE.search(text)
    return f"invalid URL escape {quote(escape[0])}" if escape else ""


def _user_problem(user: str) -> str:
    return "net/url: invalid userinfo" if not _USER.fullmatch(user) else _escape_problem(user)


def _port_problem(port: str) -> str:
    return "" if not port or _PORT.fullmatch(port) else f"invalid port {quote(port)} after host"


def _host_problem(scheme: str, host: str) -> str:
    opening = host.rfind("[")
    if opening > 0:
        return "invalid IP-literal"
    if opening == 0:
        return _literal_problem(host)
    if ":" in host:
        # RFC 3986 allows one colon; Go checks this only for HTTP.
        colon = host.find(":") if scheme in ("http", "https") else host.rfind(":")
        if problem := _port_problem(host[colon:]):
            return problem
    return _character_problem(host)


def _character_problem(host: str) -> str:
    found = _HOST_FORBIDDEN.search(host)
    if not found:
        return ""
    if found[0].startswith("%"):
        return f"invalid URL escape {quote(found[0])}"
    return f"invalid character {quote(found[0])} in host name"


def _literal_problem(host: str) -> str:
    closing = host.rfind("]")
    if closing < 0:
        return "missing ']' in host"
    if problem := _port_problem(host[closing + 1 :]):
        return problem
    name, percent, zone = host[1:closing].partition("%25")
    if problem := _character_problem(name) or _escape_problem(percent + zone):
        return problem
    address = unquote(name + percent + zone)
    try:
        version = ip_address(address).version
    except ValueError:
        return f"invalid host: {address_problem(address)}"
    return "invalid IP-literal" if version == 4 else ""


def malformation(text: str) -> str:
    """Return why a text is not a URL, not even a relative one, or an empty string."""
    found = _split(text.partition("#")[0], request=False)
    return found if isinstance(found, str) else ""


def parse(text: str) -> URL:
    """`url(text)`."""
    message = problem(text)
    if message is not None:
        raise CelError(f"URL parse error during conversion from string: {message}")
    rest, hash_sign, fragment = text.partition("#")
    parts = _split(rest, request=False)
    if isinstance(parts, str):
        raise CelError(f"URL parse error during conversion from string: parse {quote(rest)}: {parts}")
    scheme, host, path, query, other = parts
    return URL(scheme, host, path, query, other + hash_sign + fragment)


def is_url(text: str) -> bool:
    """`isURL(text)`."""
    return not isinstance(_split(text, request=True), str)


def problem(text: str) -> str | None:
    """Return the error message of an invalid URL."""
    parts = _split(text, request=True)
    return f"parse {quote(text)}: {parts}" if isinstance(parts, str) else None


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
