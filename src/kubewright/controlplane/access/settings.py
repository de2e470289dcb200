"""Which authorizers a control plane uses, in order: modes and webhooks.

Members of `system:masters` are always allowed. Then the modes and webhooks of the settings are called in
their order, until one allows or denies the request. Changed settings replace the list while the server runs;
the authorizers with state, which informers fill, are created once and used again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kubewright.apiserver.authorization import (
    NO_OPINION,
    AlwaysAllow,
    AuthorizationAttributes,
    AuthorizationResult,
    Authorizer,
    AuthorizerUnion,
    PrivilegedGroups,
)

from .node_authorizer import NodeAuthorizer
from .rule_resolver import RBACAuthorizer, RuleResolver

if TYPE_CHECKING:
    from kubewright.apiserver.kubeconfig_webhook import KubeconfigWebhook
    from kubewright.controlplane.informers import Informers

    from .webhook_authorizer import WebhookAuthorizer


@dataclass(frozen=True, slots=True)
class AuthorizationSettings:
    """Modes and webhooks, in order."""

    authorizers: Sequence[str | WebhookAuthorizer]
    connections: Sequence[KubeconfigWebhook] = ()
    """Connections of the webhooks."""

    @property
    def modes(self) -> tuple[str, ...]:
        """The authorizers that are not webhooks."""
        return tuple(each for each in self.authorizers if isinstance(each, str))

    def check_reload(self, changed: AuthorizationSettings) -> None:
        """Raise `ConfigFileError` unless another file with these settings can replace this one.

        As in kube-apiserver, authorizers that are not webhooks must stay, and those with state (`Node`,
        `RBAC`) cannot be added.
        """
        from kubewright.controlplane.configuration.config_file import ConfigFileError

        missing = sorted(set(self.modes) - set(changed.modes))
        if missing:
            raise ConfigFileError(f"authorizers: missing required types: {', '.join(missing)}")
        added = sorted({"node", "rbac"} & set(changed.modes) - set(self.modes))
        if added:
            raise ConfigFileError(
                f"authorizers: {', '.join(added)}: not in the initial configuration file; restart the server"
            )

    async def close(self) -> None:
        """Close the connections."""
        for connection in self.connections:
            await connection.close()


def read_authorization_settings(
    modes: str | Iterable[str],
    config: str | Path | None = None,
    webhook_config_file: str | Path | None = None,
    *,
    allow_seconds: float = 300.0,
    deny_seconds: float = 30.0,
) -> AuthorizationSettings:
    """Return the settings of an `AuthorizationConfiguration` file, or of modes; raises `ValueError`.

    The mode `webhook` requires a kubeconfig file with the URL of the webhook; its decisions are used again
    for the given seconds.
    """
    if config is not None:
        if webhook_config_file is not None:
            raise ValueError("an authorization configuration names its webhooks; omit the webhook file")
        from .authorization_config import load_authorization_config

        return load_authorization_config(config)
    parsed = parse_modes(modes)
    if ("webhook" in parsed) != (webhook_config_file is not None):
        raise ValueError("the authorization mode webhook and a webhook config file require each other")
    if webhook_config_file is None:
        return AuthorizationSettings(parsed)
    from kubewright.apiserver.kubeconfig_webhook import KubeconfigWebhook

    from .webhook_authorizer import WebhookAuthorizer

    connection = KubeconfigWebhook(webhook_config_file)
    webhook = WebhookAuthorizer(
        "default", connection.review, allow_seconds=allow_seconds, deny_seconds=deny_seconds
    )
    return AuthorizationSettings([webhook if mode == "webhook" else mode for mode in parsed], [connection])


MODES: Final = ("node", "rbac", "webhook", "always-allow", "always-deny")


class AlwaysDeny:
    """Allows nothing."""

    async def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationResult:
        """Return no opinion, which denies the request unless another authorizer allows it."""
        return NO_OPINION


def parse_modes(modes: str | Iterable[str]) -> tuple[str, ...]:
    """Return the modes of a comma-separated text or of several names; raise `ValueError`.

    The names of kube-apiserver are accepted, too: `Node`, `RBAC`, `Webhook`, `AlwaysAllow`, `AlwaysDeny`.
    """
    names = [name.strip() for name in (modes.split(",") if isinstance(modes, str) else modes)]
    known = {mode.replace("-", ""): mode for mode in MODES}
    found = []
    for name in names:
        mode = known.get(name.replace("-", "").lower())
        if mode is None:
            raise ValueError(f'unknown authorization mode "{name}"; known are {", ".join(MODES)}')
        if mode in found:
            raise ValueError(f'authorization mode "{mode}" is listed twice')
        found.append(mode)
    if not found:
        raise ValueError("at least one authorization mode is required")
    return tuple(found)


class Authorization:
    """The authorizer of an API server, with settings that can change."""

    def __init__(self, informers: Informers, settings: AuthorizationSettings) -> None:
        self._informers = informers
        self.rules = RuleResolver(informers) if "rbac" in settings.modes else None
        """RBAC rules of users; `None` without RBAC."""
        self._node_authorizer: NodeAuthorizer | None = None
        self._union = AuthorizerUnion([])
        self.use(settings)

    @property
    def authorizer(self) -> Authorizer:
        """The authorizer of all requests; it stays the same when the settings change."""
        return self._union

    def use(self, settings: AuthorizationSettings) -> None:
        """Use other authorizers from now on; those with state stay."""
        self.settings = settings
        self._union.authorizers = [PrivilegedGroups(), *map(self._create, settings.authorizers)]

    async def close(self) -> None:
        """Close the connections of the webhooks."""
        await self.settings.close()

    def _create(self, mode: str | Authorizer) -> Authorizer:
        if not isinstance(mode, str):
            return mode
        if mode == "rbac" and self.rules is not None:
            return RBACAuthorizer(self.rules)
        if mode == "node":
            self._node_authorizer = self._node_authorizer or NodeAuthorizer(self._informers)
            return self._node_authorizer
        return AlwaysAllow() if mode == "always-allow" else AlwaysDeny()
