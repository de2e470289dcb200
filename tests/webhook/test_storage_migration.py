"""Changing the storage version of a kind, and storing its objects again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.cli.in_process import kubewright

from kubewright import Converter, CustomResource, Operator, Spec, resource
from kubewright.api import ObjectMeta, Unstructured, WebhookConversion
from kubewright.api.apiextensions.v1 import CustomResourceDefinition
from kubewright.api.core.v1 import Namespace
from kubewright.client import Client, ClusterConfig, StorageMigrationError, condition, migrate_storage
from kubewright.testing import run_operator, start_test_server
from kubewright.testing.server import TestServer
from kubewright.webhook import Move

GROUP = "migration.example.com"
CRD = f"stores.{GROUP}"


class OldSpec(Spec):
    size: int = 1


class NewSpec(Spec):
    replicas: int = 1


def kinds(storage: str) -> tuple[Any, Any]:
    """Return both versions of the kind, of which one is stored."""

    @resource(group=GROUP, version="v1", kind="Store", storage=storage == "v1")
    class OldStore(CustomResource[OldSpec, None]):
        """A store."""

    @resource(
        group=GROUP, version="v2", kind="Store", storage=storage == "v2", conversion=WebhookConversion()
    )
    class Store(CustomResource[NewSpec, None]):
        """A store."""

    return OldStore, Store


def operator_of(old: Any, new: Any) -> Operator:
    operator = Operator("stores")
    operator.convert(Converter(new)).spoke(old, rules=(Move("spec.size", "spec.replicas"),))
    return operator


@pytest.fixture
async def server(real_config: ClusterConfig | None) -> AsyncIterator[TestServer]:
    if real_config is None:
        async with start_test_server("tls", controllers=False) as made:
            yield made
        return
    async with start_test_server("real", real_config) as made:
        await made.client().with_field_manager("test").apply(Namespace(metadata=ObjectMeta(name="default")))
        yield made


async def stored_versions(client: Client) -> list[str]:
    crd = await client.get(CustomResourceDefinition, CRD)
    assert crd.status is not None
    return list(crd.status.stored_versions or ())


async def test_a_changed_storage_version_is_migrated(server: TestServer) -> None:
    client = server.client()
    old, new = kinds("v1")
    async with run_operator(operator_of(old, new), client, metrics_port=None, webhook_port=0):
        for number in range(12):
            metadata = ObjectMeta(name=f"store-{number}", namespace="default")
            await client.create(old(metadata=metadata, spec=OldSpec(size=number)))
        assert await stored_versions(client) == ["v1"]

    old, new = kinds("v2")
    async with run_operator(operator_of(old, new), client, metrics_port=None, webhook_port=0):
        assert await stored_versions(client) == ["v1", "v2"]
        before = {each.metadata.name: each async for each in client.list(new)}
        planned = await migrate_storage(client, CRD, dry_run=True)
        assert (planned.objects, planned.version, planned.previous) == (12, "v2", ("v1", "v2"))
        assert await stored_versions(client) == ["v1", "v2"]

        done = await migrate_storage(client, CRD)
        assert (done.objects, done.is_needed) == (12, True)
        assert await stored_versions(client) == ["v2"]
        async for each in client.list(new):
            earlier = before[each.metadata.name]
            assert each.spec == earlier.spec
            assert each.metadata.generation == earlier.metadata.generation
            assert each.metadata.resource_version != earlier.metadata.resource_version, "it was written"
        if server.kind != "real":
            every = (await server.plane.storage.list(server.plane.server.prefix)).items
            stored = [item.value for item in every if f"/{GROUP}/stores/" in item.key]
            assert len(stored) == 12
            assert all(b'"migration.example.com/v2"' in value for value in stored)

        again = await migrate_storage(client, CRD)
        assert (again.objects, again.is_needed) == (0, False)
        await client.delete(CustomResourceDefinition, CRD)


async def test_a_change_during_the_migration_is_an_error(server: TestServer) -> None:
    client = server.client()
    old, new = kinds("v1")
    async with run_operator(operator_of(old, new), client, metrics_port=None, webhook_port=0):
        await client.create(old(metadata=ObjectMeta(name="a", namespace="default"), spec=OldSpec()))

    old, new = kinds("v2")
    async with run_operator(operator_of(old, new), client, metrics_port=None, webhook_port=0):

        async def change_back(call: Any, proceed: Any) -> Any:
            response = await proceed(call)
            if call.resource is not None and call.resource.resource == "stores" and call.verb == "patch":
                crd = await client.get(CustomResourceDefinition, CRD)
                for version in crd.spec.versions:
                    version.storage = version.name == "v1"
                await client.update(crd)
            return response

        with pytest.raises(StorageMigrationError, match="changed from v2 to v1 during the migration"):
            await migrate_storage(client.with_interceptor(change_back), CRD)
        assert set(await stored_versions(client)) == {"v1", "v2"}
        await client.delete(CustomResourceDefinition, CRD)


async def test_the_command(server: TestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if server.kind == "real":
        pytest.skip("the command reads a kubeconfig, which the test of a real server does not have")
    client = server.client()
    await client.create(ManyVersions)
    monkeypatch.setenv("KUBECONFIG", str(server.plane.kubeconfig))
    command = partial(asyncio.to_thread, kubewright, tmp_path, "migrate-storage")
    await client.wait(
        CustomResourceDefinition, name=f"notes.{GROUP}", until=condition("Established"), timeout=60
    )
    note = {"apiVersion": f"{GROUP}/v1", "kind": "Note", "metadata": {"name": "a", "namespace": "default"}}
    await client.create(Unstructured(note))
    crd = await client.get(CustomResourceDefinition, f"notes.{GROUP}")
    for version in crd.spec.versions:
        version.storage = version.name == "v2"
    await client.update(crd)

    planned = await command(f"notes.{GROUP}", "--dry-run")
    assert planned.stdout == f"notes.{GROUP}: 1 object to store in v2 (stored versions: v1, v2)\n"
    done = await command(f"notes.{GROUP}")
    assert done.stdout == f"notes.{GROUP}: 1 object stored in v2 (stored versions: v1, v2)\n"
    again = await command(f"notes.{GROUP}")
    assert again.stdout == f"notes.{GROUP}: all objects are stored in v2\n"
    missing = await command("no.example.com")
    assert missing.returncode == 1
    assert "not found" in missing.stderr


SCHEMA = {"openAPIV3Schema": {"type": "object"}}
ManyVersions = Unstructured(
    {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"notes.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "notes", "kind": "Note"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": SCHEMA},
                {"name": "v2", "served": True, "storage": False, "schema": SCHEMA},
            ],
        },
    }
)
