"""`Fleet`: functions for the objects of many clusters, which join and leave while the operator runs.

    fleet = operator.fleet(KubeconfigSecrets("fleet-system"))

    @fleet.reconcile(Site, owns=(ConfigMap,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        ctx.log.info("reconciling")           # with cluster=edge-1
        await ctx.ensure([page_of(site)])     # in the cluster of the site

A fleet has the same decorators for objects as an operator; webhooks belong to the operator. `fleet_runtime`
runs the functions in each cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kubewright.api.declaring.declarations import Rbac
from kubewright.manager.operators import rbac
from kubewright.manager.operators.object_functions import ObjectFunctions
from kubewright.manager.operators.settings import Settings

from .cluster_providers import ClusterProvider

if TYPE_CHECKING:
    from kubewright.manager.operators.operator import Operator


class Fleet(ObjectFunctions):
    """Functions that run in every cluster of a provider. Create it with `Operator.fleet`.

    Of its `settings`, those of the cache apply to the clusters: `namespaces`, `kinds` and `allow`. Services
    are those of the operator.
    """

    def __init__(
        self,
        operator: Operator,
        provider: ClusterProvider,
        *,
        local: bool = False,
        namespaces: Sequence[str] | None = None,
    ) -> None:
        if not hasattr(provider, "clusters"):
            raise TypeError(
                f"fleet({provider!r}): expected a ClusterProvider, such as KubeconfigSecrets(namespace)"
            )
        super().__init__(
            operator.name,
            settings=Settings(namespaces=namespaces),
            scheme=operator.scheme,
            services=operator.services,
        )
        self.former_field_managers = operator.former_field_managers
        self.provider = provider
        self.local = local
        """Whether the functions also run in the cluster of the operator."""
        self.related.append(operator)

    @property
    def operators(self) -> Sequence[ObjectFunctions]:
        """The operator of the fleet."""
        return self.related

    def rules(self) -> Iterable[Rbac]:
        """Return the RBAC rules that the credentials of the operator need in each cluster."""
        return rbac.object_rules(self, self.settings)

    def roles(self, name: str = "") -> list[dict[str, Any]]:
        """Return these rules as manifests: a ClusterRole, by default named `<operator>-fleet-role`."""
        from kubewright.manifests.rbac import roles

        return roles(self.rules(), name or f"{self.name}-fleet-role")
