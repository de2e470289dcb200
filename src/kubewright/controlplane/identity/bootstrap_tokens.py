"""Bootstrap tokens: credentials of machines that join a cluster, as `kubeadm token create` writes them.

A token `ID.SECRET` is valid if the Secret `kube-system/bootstrap-token-ID` of the type
`bootstrap.kubernetes.io/token` contains it, has not expired and allows authentication. The user is
`system:bootstrap:ID`, in the group `system:bootstrappers` and those of the Secret.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.values.times import now, parse_time
from kubewright.apiserver.authentication.tokens import bearer_token
from kubewright.apiserver.authentication.user import User

if TYPE_CHECKING:
    from kubewright.apiserver.http.messages import HTTPRequest
    from kubewright.apiserver.server import APIServer

logger = logging.getLogger("kubewright.controlplane")

SECRET_TYPE: Final = "bootstrap.kubernetes.io/token"  # noqa: S105 - a type
GROUP: Final = "system:bootstrappers"
_NAMESPACE: Final = "kube-system"
_TOKEN: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_EXTRA_GROUP: Final = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


class BootstrapTokenAuthenticator:
    """Authenticates bootstrap tokens of the Secrets of a server."""

    def __init__(self, server: APIServer, *, clock: Callable[[], datetime] = now) -> None:
        self._server = server
        self._clock = clock

    async def authenticate(self, request: HTTPRequest) -> User | None:
        """Return the user of the bearer token; `None` if it is not a valid bootstrap token."""
        return await self.user_of(bearer_token(request))

    async def user_of(self, token: str) -> User | None:
        """Return the user of a token; `None` if it is not a valid bootstrap token."""
        match = _TOKEN.fullmatch(token)
        if match is None:
            return None
        token_id, secret = match.groups()
        stored = await self._secret(f"bootstrap-token-{token_id}")
        if stored is None:
            return None
        problem = self._problem(stored, token_id, secret)
        groups = _groups(stored)
        if not problem and groups is None:
            problem = "its key auth-extra-groups is invalid"
        if problem or groups is None:
            logger.warning("rejected bootstrap token", extra={"id": token_id, "error": problem})
            return None
        return User(f"system:bootstrap:{token_id}", groups)

    async def _secret(self, name: str) -> Mapping[str, Any] | None:
        store = self._server.store("", "secrets")
        if store is None:
            return None
        item = await store.storage.get(store.key(_NAMESPACE, name))
        if item is None:
            return None
        return store.codec.unpack(item.value, item.mod_revision)

    def _problem(self, stored: Mapping[str, Any], token_id: str, secret: str) -> str:
        """Return why a Secret does not make a token valid."""
        if "deletionTimestamp" in stored["metadata"]:
            return "it is being deleted"
        if stored.get("type") != SECRET_TYPE:
            return f"its type is not {SECRET_TYPE}"
        if not hmac.compare_digest(_data(stored, "token-secret"), secret):
            return "its key token-secret has another value"
        if _data(stored, "token-id") != token_id:
            return "its key token-id has another value"
        expiration = _data(stored, "expiration")
        if expiration:
            try:
                is_expired = parse_time(expiration) <= self._clock()
            except ValueError:
                is_expired = True
            if is_expired:
                return "it has expired"
        if _data(stored, "usage-bootstrap-authentication") != "true":
            return "it is not marked usage-bootstrap-authentication=true"
        return ""


def _data(stored: Mapping[str, Any], key: str) -> str:
    """Return a value of a Secret as text; empty if it is missing or not ASCII."""
    try:
        return base64.b64decode((stored.get("data") or {}).get(key) or "", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return ""


def _groups(stored: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the groups of the user; `None` if one of them is not allowed."""
    extra = [each for each in _data(stored, "auth-extra-groups").split(",") if each]
    if not all(_EXTRA_GROUP.fullmatch(each) for each in extra):
        return None
    return tuple(sorted({GROUP, *extra}))
