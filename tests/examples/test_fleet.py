"""The fleet example: two clusters, known from kubeconfigs in Secrets."""

import asyncio

import fleet as example
from fleet import QuotaPolicy, QuotaPolicySpec, Workspace, WorkspaceSpec
from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import Namespace, ResourceQuota, Secret
from kubewright.api.errors import NotFound
from kubewright.api.values.quantity import Quantity
from kubewright.client import exists, field_is, merge_patch
from kubewright.client.errors import NoKindMatch
from kubewright.testing.server import start_test_server

LABELS = {"sigs.k8s.io/multicluster-runtime-kubeconfig": "true"}


async def create_workspace(client, name):
    """Create a workspace as soon as the operator has installed its CRD in the cluster."""
    workspace = Workspace(metadata=ObjectMeta(name=name), spec=WorkspaceSpec(policy="small"))
    async with asyncio.timeout(60):
        while True:
            try:
                return await client.create(workspace)
            except (NotFound, NoKindMatch):
                await asyncio.sleep(0.05)


async def join(world, server, name):
    """Add a cluster to the fleet."""
    metadata = ObjectMeta(name=name, namespace="fleet-system", labels=LABELS)
    data = {"kubeconfig": server.plane.kubeconfig.read_bytes()}
    return await world.client.create(Secret(metadata=metadata, data=data))


async def test_workspaces_of_two_clusters(world):
    await world.client.create(Namespace(metadata=ObjectMeta(name="fleet-system")))
    async with (
        start_test_server("tls", None, controllers=False) as east,
        start_test_server("tls", None, controllers=False) as west,
        world.running(example.operator),
    ):
        policy = QuotaPolicy(
            metadata=ObjectMeta(name="small"), spec=QuotaPolicySpec(hard={"pods": Quantity("5")})
        )
        await world.client.create(policy)
        await join(world, east, "east")
        secret = await join(world, west, "west")
        for server, cluster in ((east, "east"), (west, "west")):
            client = server.client()
            await create_workspace(client, "team-a")
            quota = await client.wait(
                ResourceQuota, "workspace", namespace="team-a", until=exists, timeout=60
            )
            assert quota.spec.hard == {"pods": Quantity("5")}
            found = await client.wait(
                Workspace, "team-a", until=field_is(".status.policyFound", True), timeout=60
            )
            assert found.status.cluster == cluster

        # A changed policy changes the quotas of all clusters.
        change = merge_patch({"spec": {"hard": {"pods": "9"}}})
        await world.client.patch(QuotaPolicy, "small", change)
        for server in (east, west):
            nine = field_is(".spec.hard.pods", "9")
            await server.client().wait(ResourceQuota, "workspace", namespace="team-a", until=nine, timeout=60)
        both = field_is(".status.workspaces", {"east": 1, "west": 1})
        await world.client.wait(QuotaPolicy, "small", until=both, timeout=60)

        await world.client.delete(secret)
        left = field_is(".status.workspaces", {"east": 1})
        await world.client.wait(QuotaPolicy, "small", until=left, timeout=60)
