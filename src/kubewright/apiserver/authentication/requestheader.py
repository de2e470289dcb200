"""Front-proxy authentication: an aggregator names the user in request headers.

The headers are trusted only on connections with a client certificate of the front proxy's authority whose
common name is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

from kubewright.api.errors import Unauthorized
from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.http.messages import HTTPRequest

from .x509 import PeerCertificate, load_authorities


class RequestHeaderAuthenticator:
    """Authenticates users by `X-Remote-*` headers."""

    def __init__(
        self,
        authorities: bytes,
        *,
        allowed_names: Sequence[str] = (),
        username_headers: Sequence[str] = ("X-Remote-User",),
        uid_headers: Sequence[str] = ("X-Remote-Uid",),
        group_headers: Sequence[str] = ("X-Remote-Group",),
        extra_prefixes: Sequence[str] = ("X-Remote-Extra-",),
    ) -> None:
        self.authorities = load_authorities(authorities)
        self.allowed_names = frozenset(allowed_names)
        self.username_headers = tuple(username_headers)
        self.uid_headers = tuple(uid_headers)
        self.group_headers = tuple(group_headers)
        self.extra_prefixes = tuple(prefix.lower() for prefix in extra_prefixes)

    async def authenticate(self, request: HTTPRequest) -> User | None:
        """Return the user that a trusted proxy names."""
        headers = request.headers
        name = next((headers[header] for header in self.username_headers if headers.get(header)), "")
        if not name:
            return None
        peer: PeerCertificate | None = request.peer_certificate
        if peer is None or not peer.issued_by(self.authorities):
            return None
        if self.allowed_names and peer.common_name not in self.allowed_names:
            raise Unauthorized("Unauthorized")
        groups = tuple(value for header in self.group_headers for value in _all(request, header))
        uid = next((headers[header] for header in self.uid_headers if headers.get(header)), "")
        extra: dict[str, tuple[str, ...]] = {}
        for header in headers:
            lowered = header.lower()
            for prefix in self.extra_prefixes:
                if lowered.startswith(prefix):
                    key = unquote(lowered.removeprefix(prefix))
                    extra[key] = tuple(_all(request, header))
        return User(name, groups, uid, extra)


def _all(request: HTTPRequest, header: str) -> list[str]:
    getall = getattr(request.headers, "getall", None)
    if getall is not None:
        return list(getall(header, []))
    value = request.headers.get(header)
    return [value] if value is not None else []
