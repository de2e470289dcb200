"""Service account tokens: JSON web tokens signed by the cluster.

The subject is `system:serviceaccount:<namespace>:<name>`; a private claim has the uid of the account and the
pod, secret or node that the token is bound to. Signature, issuer, audience and expiry are checked here,
`lookup` checks that the account and the bound object still exist.

Tokens of secrets of type `kubernetes.io/service-account-token` have another issuer and other claims, no
audience and no expiry. They are valid as long as the secret contains them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from kubewright.api.errors import Unauthorized
from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.http.messages import HTTPRequest

from .tokens import bearer_token

CLOCK_TOLERANCE = 60.0
"""Seconds by which the clocks of issuer and server may differ, as in kube-apiserver."""
PREFIX = "system:serviceaccount:"
LEGACY_ISSUER = "kubernetes/serviceaccount"
_LEGACY_CLAIM = "kubernetes.io/serviceaccount/"
Claims = dict[str, Any]
Lookup = Callable[[Claims, HTTPRequest | None], Awaitable[str]]
"""Returns why a token is invalid (its account or bound object was deleted), or an empty string.

It may add warnings and audit annotations to the request.
"""


class TokenInvalidated(Unauthorized):
    """A token whose account or bound object was deleted. `why` is for TokenReviews; clients get a plain
    401."""

    def __init__(self, why: str) -> None:
        super().__init__("Unauthorized")
        self.why = why


def service_account_user(namespace: str, name: str, uid: str = "", **extra: tuple[str, ...]) -> User:
    """Return the user of a service account."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"{PREFIX}{namespace}:{name}", groups, uid, extra)


class ServiceAccountAuthenticator:
    """Authenticates service account tokens with `keys` (PEM of public keys, private keys or certificates)."""

    def __init__(
        self,
        *,
        issuers: Sequence[str],
        keys: Sequence[bytes],
        audiences: Sequence[str] = (),
        lookup: Lookup | None = None,
    ) -> None:
        self.issuers = tuple(issuers)
        self.audiences = tuple(audiences) or self.issuers
        self.lookup = lookup
        self._keys = [public_key_of(pem) for pem in keys]

    def verify(self, token: str, audiences: Sequence[str] | None = None) -> Claims | None:
        """Return the claims of a valid token; `None` if it is not a JWT of a known issuer; otherwise raises
        `Unauthorized`."""
        import jwt

        try:
            unverified = jwt.decode(token, options={"verify_signature": False})
        except (jwt.PyJWTError, RecursionError, ValueError):
            return None
        issuer = unverified.get("iss")
        is_legacy = issuer == LEGACY_ISSUER and self.lookup is not None
        if issuer not in self.issuers and not is_legacy:
            return None
        if not _has_valid_types(unverified):
            raise Unauthorized("Unauthorized")
        wanted = list(audiences if audiences is not None else self.audiences)
        if is_legacy:
            if wanted and not set(wanted) & set(self.audiences):
                raise Unauthorized("Unauthorized")
            wanted = []
        for key in self._keys:
            try:
                claims: Claims = jwt.decode(
                    token,
                    key,
                    algorithms=["RS256", "RS384", "RS512", "ES256", "ES384", "ES512"],
                    audience=wanted or None,
                    issuer=issuer,
                    leeway=CLOCK_TOLERANCE,
                    options={"verify_aud": bool(wanted), "require": ["sub"] if is_legacy else ["exp", "sub"]},
                )
            except (jwt.InvalidSignatureError, jwt.InvalidKeyError, jwt.InvalidAlgorithmError, TypeError):
                continue
            except jwt.PyJWTError:
                break
            return _with_private_claim(claims, token, self.audiences) if is_legacy else claims
        raise Unauthorized("Unauthorized")

    async def user_of(
        self, token: str, audiences: Sequence[str] | None = None, *, request: HTTPRequest | None = None
    ) -> User | None:
        """Return the account of a token; `None` if it is not a service account token.

        `request` is the one that contains the token.
        """
        claims = self.verify(token, audiences)
        if claims is None:
            return None
        private = _object_claim(claims, "kubernetes.io")
        subject = str(claims["sub"])
        namespace, _, name = subject.removeprefix(PREFIX).partition(":")
        account = _object_claim(private, "serviceaccount")
        bound_objects = {what: _object_claim(private, what) for what in ("pod", "node", "secret")}
        if (
            not subject.startswith(PREFIX)
            or private.get("namespace") != namespace
            or account.get("name") != name
        ):
            raise Unauthorized("Unauthorized")
        if self.lookup is not None:
            why = await self.lookup(claims, request)
            if why:
                raise TokenInvalidated(why)
        extra: dict[str, tuple[str, ...]] = {}
        if claims.get("jti"):
            extra["authentication.kubernetes.io/credential-id"] = (f"JTI={claims['jti']}",)
        for what in ("pod", "node"):
            bound = bound_objects[what]
            if bound:
                extra[f"authentication.kubernetes.io/{what}-name"] = (bound.get("name", ""),)
                extra[f"authentication.kubernetes.io/{what}-uid"] = (bound.get("uid", ""),)
        return service_account_user(namespace, name, account.get("uid", ""), **extra)

    async def authenticate(self, request: HTTPRequest) -> User | None:
        """Return the account of the bearer token."""
        token = bearer_token(request)
        if not token or token.count(".") != 2:
            return None
        return await self.user_of(token, request=request)


def _with_private_claim(claims: Claims, token: str, audiences: Sequence[str]) -> Claims:
    """Return the claims of the token of a secret in the form of other tokens, with the token for `lookup`."""

    def text(name: str) -> str:
        value = claims.get(_LEGACY_CLAIM + name)
        if not value or not isinstance(value, str):
            raise Unauthorized("Unauthorized")
        return value

    private = {
        "namespace": text("namespace"),
        "serviceaccount": {"name": text("service-account.name"), "uid": text("service-account.uid")},
        "secret": {"name": text("secret.name"), "token": token},
    }
    return {**claims, "aud": list(audiences), "kubernetes.io": private}


def _object_claim(claims: Claims, name: str) -> Claims:
    """Return a claim that is an object; raises `Unauthorized` for other types.

    Its values are strings, except the objects and the time (`warnafter`) of the private claim.
    """
    value = claims.get(name) or {}
    is_private = name == "kubernetes.io"
    if not isinstance(value, dict) or not all(
        isinstance(item, str) or (is_private and isinstance(item, dict | int | float))
        for item in value.values()
    ):
        raise Unauthorized("Unauthorized")
    return value


def _has_valid_types(claims: Claims) -> bool:
    """Whether times are numbers and names are strings: PyJWT also accepts times as strings."""
    times = (claims[name] for name in ("exp", "nbf", "iat") if name in claims)
    texts = (claims[name] for name in ("sub", "jti") if name in claims)
    audience = claims.get("aud", [])
    audiences = audience if isinstance(audience, list) else [audience]
    return (
        all(isinstance(each, int | float) and not isinstance(each, bool) for each in times)
        and all(isinstance(each, str) for each in texts)
        and all(isinstance(each, str) for each in audiences)
    )


def public_key_of(pem: bytes) -> Any:
    """Return the public key of a PEM certificate, private key or public key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    if b"BEGIN CERTIFICATE" in pem:
        return x509.load_pem_x509_certificate(pem).public_key()
    if b"PRIVATE KEY" in pem:
        return serialization.load_pem_private_key(pem, None).public_key()
    return serialization.load_pem_public_key(pem)
