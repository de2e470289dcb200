"""Bearer tokens of requests, and a static table of tokens."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Mapping
from pathlib import Path

from kubewright.api.errors import Unauthorized
from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.http.messages import HTTPRequest
from kubewright.trusted_files import read_named_file

WEBSOCKET_BEARER = "base64url.bearer.authorization.k8s.io."
"""Prefix of the sub-protocol by which browsers send a bearer token."""


def bearer_token(request: HTTPRequest) -> str:
    """Return the bearer token of a request (header or WebSocket sub-protocol), or an empty string."""
    header = request.headers.get("Authorization")
    if header:
        scheme, _, rest = header.strip().partition(" ")
        token = rest.partition(" ")[0]
        if not token.isascii():
            raise Unauthorized("Unauthorized")
        return token if scheme.lower() == "bearer" else ""
    protocols = request.headers.get("Sec-WebSocket-Protocol")
    if protocols and WEBSOCKET_BEARER in protocols:
        from base64 import urlsafe_b64decode

        for protocol in protocols.split(","):
            encoded = protocol.strip()
            if encoded.startswith(WEBSOCKET_BEARER):
                encoded = encoded.removeprefix(WEBSOCKET_BEARER)
                try:
                    return urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
                except ValueError:
                    raise Unauthorized("Unauthorized") from None
    return ""


def websocket_protocols(request: HTTPRequest) -> tuple[str, ...]:
    """Return the sub-protocols that a client offers, without a bearer token."""
    header = request.headers.get("Sec-WebSocket-Protocol", "")
    offered = (each.strip() for each in header.split(","))
    return tuple(each for each in offered if each and not each.startswith(WEBSOCKET_BEARER))


class StaticTokenAuthenticator:
    """Authenticates tokens of a static table.

    Tokens are stored and compared as digests, so that timing reveals nothing about them.
    """

    def __init__(self, tokens: Mapping[str, User] | None = None) -> None:
        self._users = {_digest(token): user for token, user in (tokens or {}).items()}

    def user(self, token: str) -> User | None:
        """Return the user of a token."""
        return self._users.get(_digest(token))

    def add(self, token: str, user: User) -> None:
        """Add a token, or change its user."""
        self._users[_digest(token)] = user

    def remove(self, token: str) -> None:
        """Remove a token if it exists."""
        self._users.pop(_digest(token), None)

    @classmethod
    def from_file(cls, path: str | Path) -> StaticTokenAuthenticator:
        """Read a token file: lines of `token,user,uid,"group1,group2"`."""
        tokens: dict[str, User] = {}
        text = read_named_file(path).decode()
        for number, row in enumerate(csv.reader(io.StringIO(text), skipinitialspace=True), 1):
            if not row:
                continue
            if len(row) < 3 or not row[0] or not row[1]:
                raise ValueError(
                    f'{path}:{number}: expected token,user,uid[,"group1,group2"], found {len(row)} columns'
                )
            groups = (
                tuple(filter(None, (group.strip() for group in row[3].split(",")))) if len(row) > 3 else ()
            )
            tokens[row[0]] = User(row[1], groups, row[2])
        return cls(tokens)

    async def authenticate(self, request: HTTPRequest) -> User | None:
        """Return the user of the bearer token; raises `Unauthorized` for unknown tokens."""
        token = bearer_token(request)
        if not token:
            return None
        user = self.user(token)
        if user is None:
            raise Unauthorized("Unauthorized")
        return user


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()
