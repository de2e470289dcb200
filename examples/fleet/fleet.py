"""Workspaces in many clusters, with quotas from policies in one: see README.md."""

import os

from kubewright.api import CustomResource, ObjectMeta, Quantity, Spec, Status, resource
from kubewright.api.core.v1 import Namespace, ResourceQuota, ResourceQuotaSpec
from kubewright.client import Client
from kubewright.controller import Request
from kubewright.manager import Clusters, Context, KubeconfigSecrets, Operator


class QuotaPolicySpec(Spec):
    """Desired state of a policy."""

    hard: dict[str, Quantity]
    """Limits of each workspace, as in a ResourceQuota."""


class QuotaPolicyStatus(Status):
    """Observed state of a policy."""

    workspaces: dict[str, int] = {}
    """Number of workspaces with this policy in each cluster."""


@resource(group="fleet.example.com", version="v1", scope="Cluster")
class QuotaPolicy(CustomResource[QuotaPolicySpec, QuotaPolicyStatus]):
    """A policy, in the cluster of the operator."""


class WorkspaceSpec(Spec):
    """Desired state of a workspace."""

    policy: str


class WorkspaceStatus(Status):
    """Observed state of a workspace."""

    cluster: str = ""
    policy_found: bool = False


@resource(group="fleet.example.com", version="v1", scope="Cluster")
class Workspace(CustomResource[WorkspaceSpec, WorkspaceStatus]):
    """A namespace with a quota, in any cluster of the fleet."""


operator = Operator("fleet")
fleet = operator.fleet(KubeconfigSecrets(os.environ.get("FLEET_NAMESPACE", "fleet-system")))


@fleet.reconcile(Workspace, owns=(Namespace, ResourceQuota))
async def reconcile_workspace(workspace: Workspace, ctx: Context[Workspace], clusters: Clusters) -> None:
    """Apply the objects in the cluster of the workspace; the policy is read from that of the operator."""
    policies = clusters.get("").client
    policy = await policies.get_or_none(QuotaPolicy, workspace.spec.policy)
    children: list[Namespace | ResourceQuota] = [Namespace(metadata=ObjectMeta(name=workspace.name))]
    if policy is not None:
        quota = ObjectMeta(name="workspace", namespace=workspace.name)
        children.append(ResourceQuota(metadata=quota, spec=ResourceQuotaSpec(hard=policy.spec.hard)))
    await ctx.ensure(children)
    workspace.status = WorkspaceStatus(cluster=ctx.request.cluster, policy_found=policy is not None)
    await ctx.update_status()


@fleet.watches(QuotaPolicy, watched_in=operator)
async def workspaces_with(policy: QuotaPolicy, client: Client) -> list[Request]:
    """Return the workspaces of one cluster that a policy applies to; called for each cluster."""
    found = await client.list(Workspace)
    return [Request.of(each) for each in found if each.spec.policy == policy.name]


@operator.reconcile(QuotaPolicy)
async def count_workspaces(policy: QuotaPolicy, ctx: Context[QuotaPolicy], clusters: Clusters) -> None:
    """Count the workspaces in all clusters; also called when a cluster joins or leaves."""
    counts = {}
    for cluster in clusters:
        found = await cluster.client.list(Workspace)
        counts[cluster.name] = sum(each.spec.policy == policy.name for each in found)
    policy.status = QuotaPolicyStatus(workspaces=counts)
    await ctx.update_status()


@operator.watches(Workspace, watched_in=fleet)
def policy_of(workspace: Workspace) -> list[Request]:
    """Return the policy of a workspace of any cluster."""
    return [Request("", workspace.spec.policy)]
