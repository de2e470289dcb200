"""Authenticators of tokens that the control plane does not issue: JSON web tokens, and a webhook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubewright.apiserver.authentication import TokenAuthenticator
    from kubewright.apiserver.kubeconfig_webhook import KubeconfigWebhook

WEBHOOK_CACHE_SECONDS = 120.0
"""Seconds for which the result of a TokenReview is used, as in kube-apiserver."""


@dataclass(frozen=True, slots=True)
class ExternalTokens:
    """Authenticators in order, and what their configuration says of anonymous requests."""

    authenticators: Sequence[TokenAuthenticator] = ()
    anonymous: bool | None = None
    anonymous_paths: frozenset[str] = frozenset()
    connections: Sequence[KubeconfigWebhook] = ()

    def allow_anonymous(self, default: bool) -> bool:
        """Return whether anonymous requests are allowed."""
        return default if self.anonymous is None else self.anonymous

    async def close(self) -> None:
        """Close the connections."""
        for connection in self.connections:
            await connection.close()


def read_external_tokens(
    config: str | Path | None, webhook_config_file: str | Path | None, own_issuers: Sequence[str]
) -> ExternalTokens:
    """Return the authenticators of an `AuthenticationConfiguration` and of a webhook; raises `ValueError`."""
    if config is None and webhook_config_file is None:
        return ExternalTokens()
    authenticators: list[TokenAuthenticator] = []
    anonymous, paths = None, frozenset[str]()
    connections: list[KubeconfigWebhook] = []
    if config is not None:
        from kubewright.controlplane.jwt_authentication import load_authentication_config

        settings = load_authentication_config(config, own_issuers)
        authenticators += settings.authenticators
        anonymous, paths = settings.anonymous, settings.anonymous_paths
    if webhook_config_file is not None:
        from kubewright.apiserver.authentication.delegated import TokenReviewAuthenticator
        from kubewright.apiserver.kubeconfig_webhook import KubeconfigWebhook

        connections.append(KubeconfigWebhook(webhook_config_file))
        authenticators.append(
            TokenReviewAuthenticator(connections[0].review, cache_seconds=WEBHOOK_CACHE_SECONDS)
        )
    return ExternalTokens(authenticators, anonymous, paths, connections)
