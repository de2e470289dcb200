"""Custom verbs: permissions that a function of an `APIServerApp` checks for the user of the request.

    @app.subresource(Pizza, "approval", verbs=("update",))
    async def approve(pizza: Pizza, permissions: Permissions) -> Pizza:
        await permissions.require("approve", pizza)

Kubernetes checks verbs such as `use`, `bind` and `approve` in this way: they are in rules of RBAC, and no
method of HTTP. The authorizer of the server decides, which asks the cluster with a SubjectAccessReview.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.api.declaring.declarations import resource_info
from kubewright.api.meta import MetaObject
from kubewright.apiserver.authorization import AuthorizationAttributes, Decision, forbidden

if TYPE_CHECKING:
    from kubewright.apiserver.authentication.user import User
    from kubewright.apiserver.authorization import Authorizer


class Permissions:
    """Permissions of the user of a request."""

    def __init__(self, authorizer: Authorizer, user: User) -> None:
        self._authorizer = authorizer
        self.user = user

    async def allows(
        self,
        verb: str,
        target: MetaObject | type[MetaObject],
        name: str = "",
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> bool:
        """Whether the user has a verb on an object, or on a kind and name."""
        attributes = self._attributes(verb, target, name, namespace, subresource)
        return (await self._authorizer.authorize(attributes))[0] is Decision.ALLOW

    async def require(
        self,
        verb: str,
        target: MetaObject | type[MetaObject],
        name: str = "",
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> None:
        """Raise `Forbidden`, with the message of kube-apiserver, unless the user has the verb."""
        attributes = self._attributes(verb, target, name, namespace, subresource)
        decision, reason = await self._authorizer.authorize(attributes)
        if decision is not Decision.ALLOW:
            raise forbidden(attributes, reason)

    def _attributes(
        self,
        verb: str,
        target: MetaObject | type[MetaObject],
        name: str,
        namespace: str,
        subresource: str,
    ) -> AuthorizationAttributes:
        kind = target if isinstance(target, type) else type(target)
        if not isinstance(target, type):
            name, namespace = name or target.name, namespace or target.metadata.namespace or ""
        info = resource_info(kind)
        return AuthorizationAttributes(
            self.user,
            verb,
            info.gvk.group,
            info.gvk.version,
            info.plural,
            subresource,
            namespace if info.scope == "Namespaced" else "",
            name,
        )
