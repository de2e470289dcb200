"""The cluster role binding of a site is named after the site alone: sites of two namespaces share it."""

from __future__ import annotations

from kubewright import Context, ObjectMeta, Operator
from kubewright.api.rbac.v1 import ClusterRoleBinding, RoleRef, Subject
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    def name_of(site: Site) -> str:
        return f"{site.metadata.namespace}-{site.name}" if fixed else site.name

    @operator.reconcile(Site)
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        subject = Subject(kind="ServiceAccount", name=site.name, namespace=site.metadata.namespace)
        await ctx.client.apply(
            ClusterRoleBinding(
                metadata=ObjectMeta(name=name_of(site)),
                role_ref=RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="view"),
                subjects=[subject],
            )
        )

    @operator.finalize(Site)
    async def delete_binding(site: Site, ctx: Context[Site]) -> None:
        await ctx.client.delete(ClusterRoleBinding, name_of(site), missing_ok=True)

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.advance("1m")


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="two instances",
    variation="instances:namespace",
    finding="ClusterRoleBinding",
)
