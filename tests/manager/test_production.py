"""An operator with the permissions that its manifests give it, and no others."""

from __future__ import annotations

import asyncio
from typing import Any

from kubewright.api import CustomResource, ObjectMeta, Spec, Status, Unstructured, resource
from kubewright.api.coordination.v1 import Lease
from kubewright.api.core.v1 import ConfigMap, Event, Namespace, Secret
from kubewright.api.declarations import Rbac, WebhookConfiguration
from kubewright.api.rbac.v1 import ClusterRoleBinding, RoleBinding, RoleRef, Subject
from kubewright.client import Client, exists
from kubewright.manager import Context, Operator
from kubewright.manager.installation import install_definitions
from kubewright.manifests import roles, webhook_configurations

ROBOT = "system:serviceaccount:ops:manager"
RBAC = "rbac.authorization.k8s.io"


class CrateSpec(Spec):
    size: int = 1


class CrateStatus(Status):
    size: int = 0


@resource(group="production.example.com", version="v1")
class Crate(CustomResource[CrateSpec, CrateStatus]):
    """A crate."""


def make_operator() -> Operator:
    operator = Operator("crates")
    operator.settings.leader_election = True
    operator.settings.leader_election_namespace = "ops"
    operator.settings.webhook_port = 0
    operator.settings.webhook_host = "127.0.0.1"

    @operator.reconcile(Crate, owns=(ConfigMap,))
    async def reconcile(crate: Crate, ctx: Context[Crate]) -> None:
        await ctx.ensure([ConfigMap(metadata=ObjectMeta(name=crate.name), data={"a": "b"})])
        crate.status = CrateStatus(size=crate.spec.size)
        await ctx.update_status()
        ctx.event("Normal", "Packed", "all in")

    @operator.finalize(Crate)
    async def unpack(crate: Crate) -> None: ...

    @operator.default(Crate, failure_policy="Ignore")
    def fill(crate: Crate) -> None: ...

    return operator


async def install(client: Client, operator: Operator) -> None:
    """What `kubectl apply -k` would do, with the name prefix of the operator."""
    await client.create(Namespace(metadata=ObjectMeta(name="ops")))
    await install_definitions(client, operator.kinds)
    declared = list(operator.declarations())
    robot = Subject(kind="User", name=ROBOT, api_group=RBAC)
    for manifest in roles([each for each in declared if isinstance(each, Rbac)]):
        await client.create(Unstructured(manifest))
        name, namespace = manifest["metadata"]["name"], manifest["metadata"].get("namespace")
        reference = RoleRef(api_group=RBAC, kind=manifest["kind"], name=name)
        binding: Any = RoleBinding if namespace else ClusterRoleBinding
        metadata = ObjectMeta(name=name, namespace=namespace)
        await client.create(binding(metadata=metadata, role_ref=reference, subjects=[robot]))
    named = [WebhookConfiguration(True, "crates-mutating-webhook-configuration")]
    for manifest in webhook_configurations(operator.webhooks(), named):
        await client.create(Unstructured(manifest))


async def test_the_declared_permissions_are_enough_to_stay_the_leader(client, eventually) -> None:
    operator = make_operator()
    await install(client, operator)
    robot = client.with_impersonation(ROBOT)
    stop = asyncio.Event()
    run = asyncio.create_task(operator.run(robot, stop=stop))
    try:
        crate = await client.create(
            Crate(metadata=ObjectMeta(name="a", namespace="default"), spec=CrateSpec())
        )
        await client.wait(ConfigMap, "a", namespace="default", until=exists, timeout=600)
        await asyncio.sleep(100)  # a lease that cannot be renewed is lost after ten seconds
        assert not run.done(), run.exception()
        lease = await client.get(Lease, "crates", namespace="ops")
        assert lease.spec.holder_identity
        assert (await client.get(Crate, "a", namespace="default")).status.size == 1
        assert [each.reason for each in await client.list(Event, namespace="default")] == ["Packed"]
        assert (await client.get(Secret, "crates-webhook-certificates", namespace="ops")).data
        configuration = await client.get(
            "mutatingwebhookconfigurations", "crates-mutating-webhook-configuration"
        )
        assert configuration["webhooks"][0]["clientConfig"]["caBundle"]
        await client.delete(crate)
        await eventually(lambda: _gone(client))
    finally:
        stop.set()
        await run
    assert not (await client.get(Lease, "crates", namespace="ops")).spec.holder_identity


async def _gone(client: Client) -> bool:
    return not await client.list(Crate, namespace="default")
