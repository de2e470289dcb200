"""The authenticators of a control plane, with its settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubewright.apiserver.authentication.requestheader import RequestHeaderAuthenticator
from kubewright.apiserver.authentication.serviceaccount import ServiceAccountAuthenticator
from kubewright.apiserver.authentication.x509 import X509Authenticator

from .token_requests import token_invalidity
from .tokenless import TokenlessAuthenticator

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer
    from kubewright.controlplane.plane_options import FrontProxy

    from .issuer import TokenIssuer


def authenticate_proxy(proxy: FrontProxy) -> RequestHeaderAuthenticator:
    """Return the authenticator of users that a proxy names in request headers."""
    return RequestHeaderAuthenticator(
        proxy.client_ca,
        allowed_names=proxy.allowed_names,
        username_headers=proxy.username_headers,
        uid_headers=proxy.uid_headers,
        group_headers=proxy.group_headers,
        extra_prefixes=proxy.extra_prefixes,
    )


def authenticate_service_accounts(
    server: APIServer, issuer: TokenIssuer, issuers: Sequence[str]
) -> ServiceAccountAuthenticator:
    """Return the authenticator of service account tokens, also of earlier `issuers`."""
    return ServiceAccountAuthenticator(
        issuers=list(issuers),
        keys=issuer.keys,
        audiences=issuer.audiences,
        lookup=token_invalidity(server, issuer.clock),
    )


def authenticate_certificates(authorities: bytes) -> TokenlessAuthenticator:
    """Return the authenticator of client certificates, for requests without a token."""
    return TokenlessAuthenticator(X509Authenticator(authorities))
