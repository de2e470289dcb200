"""The authenticators of a control plane.

A request is authenticated by the first authenticator that accepts its credentials:

1. headers of an authenticating proxy, whose client certificate is verified,
2. tokens of a static file,
3. service account tokens,
4. bootstrap tokens, tokens of other issuers and a token webhook,
5. client certificates, of requests without a token.

Any other request is anonymous, or rejected. TokenReview uses the authenticators of tokens.

`AuthenticationSettings` is known when a control plane is created; its own certificate authorities and signing
key are in its storage, so `Authentication.configure` is called after the storage was opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kubewright.apiserver.authentication import AuthenticatorChain, TokenAuthenticator
from kubewright.apiserver.authentication.requestheader import RequestHeaderAuthenticator
from kubewright.apiserver.authentication.serviceaccount import ServiceAccountAuthenticator
from kubewright.apiserver.authentication.tokens import StaticTokenAuthenticator
from kubewright.apiserver.authentication.x509 import X509Authenticator
from kubewright.controlplane.configuration.plane_options import FrontProxy
from kubewright.controlplane.credentials.credentials import read_certificates

from .external_tokens import ExternalTokens, read_external_tokens
from .legacy_tokens import LegacyTokens
from .reviews import IdentityReviews
from .token_requests import token_invalidity
from .tokenless import TokenlessAuthenticator

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer
    from kubewright.controlplane.credentials.plane_credentials import PlaneCredentials
    from kubewright.controlplane.options import AuthenticationOptions

    from .issuer import TokenIssuer

_FRONT_PROXY_CLIENT = "front-proxy-client"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationSettings:
    """The credentials that a control plane accepts, besides those it issues."""

    token_files: Sequence[StaticTokenAuthenticator] = ()
    bootstrap_tokens: bool = False
    external_tokens: ExternalTokens
    account_issuers: Sequence[str]
    """Issuers of service account tokens; the first one signs, tokens of the others remain valid."""
    client_ca: bytes = b""
    """CAs (PEM) of client certificates, in addition to the control plane's own."""
    front_proxy: FrontProxy | None = None
    """Authenticating proxy; by default one with a certificate of the control plane."""
    anonymous: bool = True

    @classmethod
    def read(cls, options: AuthenticationOptions, account_issuers: Sequence[str]) -> Self:
        """Read the files of the options; raises `ValueError` or `OSError`."""
        tokens, client_ca = options.token_auth_file, options.client_ca_file
        return cls(
            token_files=[StaticTokenAuthenticator.from_file(tokens)] if tokens is not None else (),
            bootstrap_tokens=options.bootstrap_token_auth,
            external_tokens=read_external_tokens(options, account_issuers),
            account_issuers=account_issuers,
            client_ca=read_certificates(Path(client_ca)) if client_ca is not None else b"",
            front_proxy=options.front_proxy,
            anonymous=options.anonymous,
        )


class Authentication:
    """The authenticator of an API server, with tokens of other issuers that can change."""

    def __init__(self, server: APIServer, settings: AuthenticationSettings) -> None:
        self.settings = settings
        self.external_tokens = settings.external_tokens
        self.reviews = IdentityReviews()
        self.client_authorities: bytes
        """The CAs of client certificates (PEM): the control plane's own and those of the settings."""
        self.front_proxy: FrontProxy
        self._issuer: TokenIssuer
        self._server = server
        self._legacy_tokens = LegacyTokens(server)
        server.metrics.registry.register(self._legacy_tokens)

    def configure(self, credentials: PlaneCredentials, issuer: TokenIssuer) -> None:
        """Authenticate requests from now on, also with the credentials that the control plane issues."""
        own, others = credentials.authority.certificate, self.settings.client_ca
        self.client_authorities = own + (b"\n" + others if others else b"")
        self.front_proxy = self.settings.front_proxy or FrontProxy(
            client_ca=credentials.front_proxy_authority.certificate, allowed_names=(_FRONT_PROXY_CLIENT,)
        )
        self._issuer = issuer
        self._create_authenticators()

    def use_external_tokens(self, tokens: ExternalTokens) -> None:
        """Accept the tokens of other issuers from now on."""
        self.external_tokens = tokens
        self._create_authenticators()

    async def close(self) -> None:
        """Close the connections to other issuers and webhooks."""
        await self.external_tokens.close()

    def _create_authenticators(self) -> None:
        accounts = self._service_accounts()
        others: list[TokenAuthenticator] = list(self.external_tokens.authenticators)
        if self.settings.bootstrap_tokens:
            from .bootstrap_tokens import BootstrapTokenAuthenticator

            others.insert(0, BootstrapTokenAuthenticator(self._server))
        self._server.authenticator = AuthenticatorChain(
            [
                self._proxy_users(),
                *self.settings.token_files,
                accounts,
                *others,
                TokenlessAuthenticator(X509Authenticator(self.client_authorities)),
            ],
            allow_anonymous=self.external_tokens.allow_anonymous(self.settings.anonymous),
            anonymous_paths=self.external_tokens.anonymous_paths,
        )
        self.reviews.static = self.settings.token_files
        self.reviews.accounts = [accounts]
        self.reviews.others = others
        self.reviews.audiences = self._issuer.audiences

    def _service_accounts(self) -> ServiceAccountAuthenticator:
        return ServiceAccountAuthenticator(
            issuers=list(self.settings.account_issuers),
            keys=self._issuer.keys,
            audiences=self._issuer.audiences,
            lookup=token_invalidity(self._server, self._issuer.clock, self._legacy_tokens),
        )

    def _proxy_users(self) -> RequestHeaderAuthenticator:
        return RequestHeaderAuthenticator(
            self.front_proxy.client_ca,
            allowed_names=self.front_proxy.allowed_names,
            username_headers=self.front_proxy.username_headers,
            uid_headers=self.front_proxy.uid_headers,
            group_headers=self.front_proxy.group_headers,
            extra_prefixes=self.front_proxy.extra_prefixes,
        )
