"""Authenticators of tokens that the control plane does not issue: JSON web tokens, and a webhook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubewright.apiserver.authentication import TokenAuthenticator
    from kubewright.apiserver.kubeconfig_webhook import KubeconfigWebhook
    from kubewright.controlplane.options import AuthenticationOptions


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
