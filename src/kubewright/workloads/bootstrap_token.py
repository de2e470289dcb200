"""Bootstrap tokens as Secrets: what a machine needs to join a cluster, as `kubeadm token create` writes them.

A token `ID.SECRET` is stored in the Secret `kube-system/bootstrap-token-ID`. With
`usage-bootstrap-authentication` it authenticates a kubelet that has no certificate yet; with
`usage-bootstrap-signing` its secret signs the config map `kube-public/cluster-info`, so that the machine can
verify the certificate authority of the cluster before it trusts it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import string
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from kubewright.api.core.v1 import Secret
from kubewright.api.meta import ObjectMeta
from kubewright.api.values.times import format_time, parse_time

NAMESPACE: Final = "kube-system"
NAME_PREFIX: Final = "bootstrap-token-"
SECRET_TYPE: Final = "bootstrap.kubernetes.io/token"  # noqa: S105 - a type
DEFAULT_GROUP: Final = "system:bootstrappers:kubeadm:default-node-token"
USAGES: Final = ("signing", "authentication")

_FORM: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_ALPHABET: Final = string.ascii_lowercase + string.digits


class BootstrapToken(NamedTuple):
    """The identifier, which is public, and the secret of a token."""

    id: str
    secret: str

    def __str__(self) -> str:
        return f"{self.id}.{self.secret}"

    def __repr__(self) -> str:
        return f"BootstrapToken({self.id!r})"

    @classmethod
    def generate(cls) -> BootstrapToken:
        """Return a new random token."""
        return cls(*("".join(secrets.choice(_ALPHABET) for _ in range(size)) for size in (6, 16)))

    @classmethod
    def parse(cls, text: str) -> BootstrapToken:
        """Parse `ID.SECRET`; raises `ValueError`, which does not contain the text."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError(
                "a bootstrap token has 6 and 16 characters a-z0-9, as in abcdef.0123456789abcdef"
            )
        return cls(*match.groups())

    def signature(self, content: str) -> str:
        """Return the detached JWS (RFC 7515, appendix F) of a text, with HS256."""
        header = _encode(json.dumps({"alg": "HS256", "kid": self.id}, separators=(",", ":")).encode())
        signed = f"{header}.{_encode(content.encode())}".encode()
        return f"{header}..{_encode(hmac.new(self.secret.encode(), signed, hashlib.sha256).digest())}"

    def to_secret(
        self,
        *,
        description: str = "",
        expiration: datetime | None = None,
        groups: Iterable[str] = (DEFAULT_GROUP,),
        usages: Iterable[str] = USAGES,
    ) -> Secret:
        """Return the Secret that makes the token valid; without `expiration`, until it is deleted."""
        data = {"token-id": self.id, "token-secret": self.secret}
        data |= {f"usage-bootstrap-{usage}": "true" for usage in usages}
        if description:
            data["description"] = description
        if expiration is not None:
            data["expiration"] = format_time(expiration)
        if extra := ",".join(groups):
            data["auth-extra-groups"] = extra
        return Secret(
            metadata=ObjectMeta(name=f"{NAME_PREFIX}{self.id}", namespace=NAMESPACE),
            type=SECRET_TYPE,
            data={key: value.encode() for key, value in data.items()},
        )


def token_value(secret: Secret, key: str) -> str:
    """Return a value of the Secret of a token as text; empty if it is missing or not ASCII."""
    try:
        return (secret.data or {}).get(key, b"").decode("ascii")
    except ValueError:
        return ""


def token_expiration(secret: Secret) -> datetime | None:
    """Return when a token expires; `None` if it does not. Raises `ValueError` for a malformed time."""
    text = token_value(secret, "expiration")
    return parse_time(text) if text else None


def is_expired(secret: Secret, now: datetime) -> bool:
    """Whether a token has expired; one with a malformed time has."""
    try:
        expiration = token_expiration(secret)
    except ValueError:
        return True
    return expiration is not None and expiration <= now


def signing_token(secret: Secret, now: datetime) -> BootstrapToken | None:
    """Return the token of a Secret if it is valid for signing."""
    token_id = token_value(secret, "token-id")
    try:
        token = BootstrapToken.parse(f"{token_id}.{token_value(secret, 'token-secret')}")
    except ValueError:
        return None
    valid = (
        secret.type == SECRET_TYPE
        and secret.name == f"{NAME_PREFIX}{token_id}"
        and secret.metadata.deletion_timestamp is None
        and token_value(secret, "usage-bootstrap-signing") == "true"
        and not is_expired(secret, now)
    )
    return token if valid else None


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
