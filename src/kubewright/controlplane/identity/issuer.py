"""Signing of service account tokens, and OIDC discovery of the keys that verify them.

Tokens are JSON web tokens. The issuer's keys are published as a JSON web key set at `/openid/v1/jwks`, found
through `/.well-known/openid-configuration`, so that other services can verify tokens offline.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from kubewright.api.values.times import wall_time
from kubewright.apiserver.authentication.serviceaccount import public_key_of
from kubewright.apiserver.encoding.negotiation import JSON, require
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.server import APIServer
from kubewright.controlplane.credentials.credentials import key_id

_KEY_SET = "application/jwk-set+json"
JWKS_PATH = "/openid/v1/jwks"
DISCOVERY_PATH = "/.well-known/openid-configuration"


class TokenIssuer:
    """Signs with one key; `keys` (PEM) are further keys that verify tokens."""

    def __init__(
        self,
        issuer: str,
        signing_key: bytes,
        *,
        keys: Sequence[bytes] = (),
        audiences: Sequence[str] = (),
        jwks_uri: str = "",
        clock: Callable[[], float] = wall_time,
    ) -> None:
        """`jwks_uri`: where the key set is published, if not at this server."""
        self._jwks_uri = jwks_uri
        self.issuer = issuer
        self.audiences = tuple(audiences) or (issuer,)
        self.keys = tuple(keys) or (signing_key,)
        self.clock = clock
        self._signing_key = signing_key

    @cached_property
    def _signer(self) -> tuple[Any, str, str]:
        from cryptography.hazmat.primitives import serialization

        key = serialization.load_pem_private_key(self._signing_key, None)
        return key, _algorithm(key), key_id(key.public_key())

    def sign(
        self,
        namespace: str,
        name: str,
        uid: str,
        *,
        audiences: Sequence[str] = (),
        seconds: int = 3600,
        bound: Object | None = None,
        warn_after: int = 0,
        token_id: str = "",
    ) -> str:
        """Return a token for a service account; `bound` has private claims (`pod`, `secret`, `node`)."""
        import jwt

        now = int(self.clock())
        private: Object = {
            "namespace": namespace,
            "serviceaccount": {"name": name, "uid": uid},
            **(bound or {}),
        }
        if warn_after:
            private["warnafter"] = now + warn_after
        claims = {
            "aud": list(audiences or self.audiences),
            "exp": now + seconds,
            "iat": now,
            "iss": self.issuer,
            "jti": token_id or str(uuid.uuid4()),
            "kubernetes.io": private,
            "nbf": now,
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        key, algorithm, kid = self._signer
        return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": kid})

    def sign_legacy(self, namespace: str, name: str, uid: str, secret: str) -> str:
        """Return the token of a `kubernetes.io/service-account-token` secret, which does not expire."""
        import jwt

        prefix = "kubernetes.io/serviceaccount/"
        claims = {
            "iss": "kubernetes/serviceaccount",
            f"{prefix}namespace": namespace,
            f"{prefix}secret.name": secret,
            f"{prefix}service-account.name": name,
            f"{prefix}service-account.uid": uid,
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        key, algorithm, kid = self._signer
        return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": kid})

    def publish(self, server: APIServer, url: Callable[[], str]) -> None:
        """Serve the OIDC discovery document and the key set. `url` returns the URL of the server."""

        async def keys(request: HTTPRequest) -> HTTPResponse:
            require(request, _KEY_SET)
            body = json.dumps({"keys": self._key_set}, separators=(",", ":")).encode()
            return HTTPResponse(200, body, content_type=_KEY_SET, headers=_cached())

        async def discovery(request: HTTPRequest) -> HTTPResponse:
            require(request, JSON)
            document = {
                "issuer": self.issuer,
                "jwks_uri": self._jwks_uri or (url() or self.issuer.rstrip("/")) + JWKS_PATH,
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": sorted({key["alg"] for key in self._key_set}),
            }
            return HTTPResponse(200, json.dumps(document, separators=(",", ":")).encode(), headers=_cached())

        server.add_handler(JWKS_PATH, keys)
        server.add_handler(DISCOVERY_PATH, discovery)

    @cached_property
    def _key_set(self) -> list[Object]:
        from jwt.algorithms import ECAlgorithm, RSAAlgorithm

        found = []
        for pem in self.keys:
            key = public_key_of(pem)
            algorithm = _algorithm(key)
            maker = RSAAlgorithm if algorithm.startswith("RS") else ECAlgorithm
            shown = json.loads(maker.to_jwk(key))
            shown.pop("key_ops", None)
            found.append({"use": "sig", "kid": key_id(key), "alg": algorithm, **shown})
        return found


def _cached() -> dict[str, str | list[str]]:
    return {"Cache-Control": "public, max-age=3600"}


def _algorithm(key: Any) -> str:
    size = getattr(getattr(key, "curve", None), "key_size", None)
    return {256: "ES256", 384: "ES384", 521: "ES512"}.get(size, "RS256") if size else "RS256"
