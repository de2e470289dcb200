"""The authorizers of a control plane.

Members of `system:masters` are always allowed. Then the modes and webhooks of the settings are called in
their order, until one allows or denies the request. Changed settings replace the list while the server runs;
the authorizers with state, which informers fill, are created once and used again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.apiserver.authorization import AlwaysAllow, Authorizer, AuthorizerUnion, PrivilegedGroups

from .node_authorizer import NodeAuthorizer
from .rule_resolver import RBACAuthorizer, RuleResolver
from .settings import AlwaysDeny

if TYPE_CHECKING:
    from kubewright.controlplane.informers import Informers

    from .settings import AuthorizationSettings


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
