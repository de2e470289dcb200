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

Bearer tokens take precedence over client certificates. `kubectl --token` with the kubeconfig of `kubewright
up`, which has a certificate, acts as the token's user, and an invalid token is rejected. In kube-apiserver a
valid certificate takes precedence.

Authenticators of tokens that the control plane does not issue: JSON web tokens, and a webhook.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kubewright.apiserver.authentication import Authenticator, AuthenticatorChain, TokenAuthenticator
from kubewright.apiserver.authentication.requestheader import RequestHeaderAuthenticator
from kubewright.apiserver.authentication.serviceaccount import ServiceAccountAuthenticator
from kubewright.apiserver.authentication.tokens import StaticTokenAuthenticator, bearer_token
from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.authentication.x509 import X509Authenticator
from kubewright.apiserver.http.messages import HTTPRequest
from kubewright.controlplane.configuration.plane_options import FrontProxy
from kubewright.controlplane.credentials.credentials import read_certificates

from .legacy_tokens import LegacyTokens
from .reviews import IdentityReviews
from .token_requests import token_invalidity

if TYPE_CHECKING:
    from kubewright.apiserver.authentication import TokenAuthenticator
    from kubewright.apiserver.kubeconfig_webhook import KubeconfigWebhook
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


class TokenlessAuthenticator:
    """Delegates requests without a bearer token to another authenticator."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    async def authenticate(self, request: HTTPRequest) -> User | None:
        """Return the user of a request without a token, or `None`."""
        if "Authorization" in request.headers and bearer_token(request):
            return None
        return await self._authenticator.authenticate(request)


@dataclass(frozen=True, slots=True)
class ExternalTokens:
    """Authenticators in order, and what their configuration says of anonymous requests."""

    issuers: Sequence[TokenAuthenticator] = ()
    """Authenticators of JSON web tokens."""
    webhooks: Sequence[TokenAuthenticator] = ()
    anonymous: bool | None = None
    anonymous_paths: frozenset[str] = frozenset()
    connections: Sequence[KubeconfigWebhook] = ()

    @property
    def authenticators(self) -> list[TokenAuthenticator]:
        """All authenticators, in order."""
        return [*self.issuers, *self.webhooks]

    def allow_anonymous(self, default: bool) -> bool:
        """Return whether anonymous requests are allowed."""
        return default if self.anonymous is None else self.anonymous

    async def reload(self, config: str | Path, own_issuers: Sequence[str]) -> ExternalTokens:
        """Return this with the issuers of a changed file, when their keys have been fetched.

        Raises `ConfigFileError`, or `KeysUnavailable`. The settings of anonymous requests cannot change, as
        in kube-apiserver.
        """
        from kubewright.controlplane.configuration.config_file import ConfigFileError
        from kubewright.controlplane.jwt_authentication import load_authentication_config

        settings = load_authentication_config(config, own_issuers)
        if (settings.anonymous, settings.anonymous_paths) != (self.anonymous, self.anonymous_paths):
            raise ConfigFileError(
                f"{config}: anonymous: it has changed from the initial configuration file; restart the server"
            )
        for issuer in settings.authenticators:
            await issuer.load_keys()
        return replace(self, issuers=settings.authenticators)

    async def close(self) -> None:
        """Close the connections."""
        for connection in self.connections:
            await connection.close()


def read_external_tokens(options: AuthenticationOptions, own_issuers: Sequence[str]) -> ExternalTokens:
    """Return the authenticators of an `AuthenticationConfiguration` or of one issuer, and of a webhook.

    Raises `ValueError`.
    """
    tokens = ExternalTokens()
    config, oidc = options.authentication_config, options.oidc
    if config is not None and oidc is not None:
        raise ValueError("authentication-config file and oidc-* flags are mutually exclusive")
    if config is not None:
        from kubewright.controlplane.jwt_authentication import load_authentication_config

        settings = load_authentication_config(config, own_issuers)
        tokens = ExternalTokens(
            settings.authenticators,
            anonymous=settings.anonymous,
            anonymous_paths=settings.anonymous_paths,
        )
    elif oidc is not None:
        tokens = ExternalTokens(oidc.settings(own_issuers).authenticators)
    if options.authentication_token_webhook_config_file is not None:
        from kubewright.apiserver.authentication.delegated import TokenReviewAuthenticator
        from kubewright.apiserver.kubeconfig_webhook import KubeconfigWebhook

        connection = KubeconfigWebhook(options.authentication_token_webhook_config_file)
        webhook = TokenReviewAuthenticator(
            connection.review, cache_seconds=options.authentication_token_webhook_cache_ttl
        )
        tokens = replace(tokens, webhooks=[webhook], connections=[connection])
    return tokens
