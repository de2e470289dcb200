"""Who may use the dashboard: one-time tokens, sessions of pages, and checks against other web pages.

The address that the command prints contains a token, which is valid once; it is exchanged for a session. The
page gets the session with its HTML, keeps it in the storage of its origin, and sends it with every request
for data. There is no cookie: browsers send cookies to every port of a host, so that a pod behind a forwarded
port would receive it. Requests of other pages have no session; in addition, the `Host` header must be a name
of this server (DNS rebinding), and requests that change something need the `Origin` of this server.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final

from kubewright.api.values.times import wall_time

HEADER: Final = "X-Kubewright-Dashboard"
"""Header with the session."""
PROTOCOL: Final = "kubewright.session."
"""Prefix of the subprotocol with the session of a WebSocket, for which a page cannot set headers."""
PARAMETER: Final = "session"
"""Query parameter with the session of an event stream, for which a page cannot set headers."""
SESSION_SECONDS: Final = 12 * 3600.0
MAX_SESSIONS: Final = 32
SAFE_METHODS: Final = ("GET", "HEAD")


class Sessions:
    """The tokens that are not used yet, and the sessions."""

    def __init__(self, *, key: bytes = b"", clock: Callable[[], float] = wall_time) -> None:
        """With a `key`, sessions are signed instead of stored: they outlive a restart with the same key."""
        self._key = key
        self._clock = clock
        self._tokens: OrderedDict[bytes, None] = OrderedDict()
        self._sessions: OrderedDict[bytes, float] = OrderedDict()

    def new_token(self) -> str:
        """Return a token that can be exchanged once."""
        token = secrets.token_urlsafe(32)
        self._tokens[_digest(token)] = None
        while len(self._tokens) > MAX_SESSIONS:
            self._tokens.popitem(last=False)
        return token

    def exchange(self, token: str) -> str | None:
        """Return a new session for a token, or `None` if the token is invalid or was used."""
        digest = _digest(token)
        found = next((each for each in self._tokens if hmac.compare_digest(each, digest)), None)
        if found is None:
            return None
        del self._tokens[found]
        expires = self._clock() + SESSION_SECONDS
        if self._key:
            text = f"{int(expires)}.{secrets.token_urlsafe(16)}"
            return f"{text}.{self._sign(text)}"
        session = secrets.token_urlsafe(32)
        self._sessions[_digest(session)] = expires
        while len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    def is_valid(self, session: str) -> bool:
        """Whether a session exists and has not expired."""
        if self._key:
            text, _, signature = session.rpartition(".")
            if not hmac.compare_digest(_encode(signature), self._sign(text).encode()):
                return False
            return int(text.partition(".")[0]) >= self._clock()
        digest = _digest(session)
        expires = self._sessions.get(digest)
        if expires is None:
            return False
        if expires < self._clock():
            del self._sessions[digest]
            return False
        return True

    def _sign(self, text: str) -> str:
        return hmac.new(self._key, _encode(text), hashlib.sha256).hexdigest()


def _digest(text: str) -> bytes:
    return hashlib.sha256(_encode(text)).digest()


def _encode(text: str) -> bytes:
    """Return the bytes of what a browser sent; different texts have different bytes, also if not UTF-8."""
    return text.encode("utf-8", "surrogatepass")


class RequestChecks:
    """Checks that a request comes from a page of this server."""

    def __init__(self, hosts: Iterable[str], *, scheme: str) -> None:
        """`hosts` are the accepted values of the Host header, with ports."""
        self._hosts = frozenset(each.lower() for each in hosts)
        self._origins = frozenset(f"{scheme}://{each}" for each in self._hosts)

    def check_host(self, request: Any) -> str | None:
        """Return why the Host header is not accepted, or `None`."""
        host = request.headers.get("Host", "").lower()
        if host in self._hosts:
            return None
        return f"the host {host!r} is not a name of this dashboard; use its printed address, or --host"

    def check_origin(self, request: Any, *, websocket: bool) -> str | None:
        """Return why a request of a script is not accepted, or `None`."""
        site = request.headers.get("Sec-Fetch-Site", "same-origin")
        if site not in ("same-origin", "none"):
            return f"requests of other sites are rejected (Sec-Fetch-Site: {site})"
        if request.method in SAFE_METHODS and not websocket:
            return None
        origin = request.headers.get("Origin", "").lower()
        if origin not in self._origins:
            return f"the origin {origin!r} is not this dashboard"
        return None


def session_of(request: Any, *, websocket: bool) -> str:
    """Return the session that a request was sent with, or an empty string."""
    if websocket:
        protocols = [each.strip() for each in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        return next((each.removeprefix(PROTOCOL) for each in protocols if each.startswith(PROTOCOL)), "")
    found: str = request.headers.get(HEADER, "")
    if not found and request.path == "/api/stream":
        found = request.query.get(PARAMETER, "")
    return found
