"""An operator with exactly the permissions of its manifests."""

from __future__ import annotations

import asyncio
import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kubewright.api import CustomResource, ObjectMeta, Spec, Status, Unstructured, resource
from kubewright.api.coordination.v1 import Lease
from kubewright.api.core.v1 import ConfigMap, Event, Namespace, Secret
from kubewright.api.declaring.declarations import Rbac, WebhookConfiguration
from kubewright.api.rbac.v1 import ClusterRoleBinding, RoleBinding, RoleRef, Subject
from kubewright.cli import main
from kubewright.client import Client, exists
from kubewright.manager import Context, Manager, Operator
from kubewright.manager.operators.installation import install_definitions
from kubewright.manifests import roles, webhook_configurations
from kubewright.testing import run_operator

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
    """Apply the manifests with the name prefix of the operator, as `kubectl apply -k` does."""
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

    @operator.on_startup
    async def use_simulated_time(manager: Manager) -> None:
        assert manager.elector is not None
        manager.elector.clock = asyncio.get_running_loop().time

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


@resource(group="production.example.com", version="v1", scope="Cluster")
class Depot(CustomResource[CrateSpec, None]):
    """A cluster-scoped kind."""


NAMESPACES_PROGRAM = """
from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import ConfigMap
from kubewright.manager import Context, Manager, Operator
from tests.manager.test_production import Crate, Depot, CrateStatus

operator = Operator("crates", namespaces=["red", "blue"])

@operator.reconcile(Crate, owns=(ConfigMap,))
async def reconcile(crate: Crate, ctx: Context[Crate]) -> None:
    await ctx.ensure([ConfigMap(metadata=ObjectMeta(name=crate.name), data={"a": "b"})])
    ctx.event("Normal", "Packed", "packed the crate")

@operator.watches(Depot)
def crates_of(depot: Depot) -> list:
    return []
"""


async def test_an_operator_of_namespaces_needs_no_permissions_in_others(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "crates_in_namespaces.py").write_text(NAMESPACES_PROGRAM)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["manifests", "crates_in_namespaces"])
    assert result.exit_code == 0, result.output
    (role,) = yaml.safe_load_all((tmp_path / "config/rbac/role.yaml").read_text())
    assert role["kind"] == "ClusterRole"
    assert [rule["resources"] for rule in role["rules"]] == [["depots"]]
    for name in ("red", "blue", "green"):
        await client.create(Namespace(metadata=ObjectMeta(name=name)))
    await install_definitions(client, [Crate, Depot])
    account = "system:serviceaccount:crates-system:crates-manager"
    applied = await client.apply_yaml(tmp_path / "config" / "rbac")
    assert [(each.kind, each.namespace) for each in applied] == [
        ("Role", "blue"),
        ("Role", "red"),
        ("RoleBinding", "blue"),
        ("RoleBinding", "red"),
        ("ClusterRole", ""),
    ]
    reference = RoleRef(api_group=RBAC, kind="ClusterRole", name="manager-role")
    subject = Subject(kind="User", name=account, api_group=RBAC)
    metadata = ObjectMeta(name="crates")
    await client.create(ClusterRoleBinding(metadata=metadata, role_ref=reference, subjects=[subject]))
    operator: Operator = importlib.import_module("crates_in_namespaces").operator
    async with run_operator(operator, client.with_impersonation(account), development=False):
        for name in ("green", "red", "blue"):
            crate = Crate(metadata=ObjectMeta(name="a", namespace=name), spec=CrateSpec())
            await client.create(crate)
        for name in ("red", "blue"):
            await client.wait(ConfigMap, "a", namespace=name, until=exists, timeout=60)
        assert not [each async for each in client.list(ConfigMap, namespace="green")]
