"""StorageVersionMigration: the objects of a resource are stored again in its storage version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubewright.api.apiextensions.v1 import CustomResourceDefinition
from kubewright.api.core.v1 import Namespace
from kubewright.api.errors import APIError, Conflict, Invalid, NotFound
from kubewright.api.meta import ObjectMeta
from kubewright.api.unstructured import Unstructured
from kubewright.client import Client, condition, merge_patch, metadata_of, migrate_storage
from kubewright.client.storage_migration import store_again
from kubewright.controlplane import ControlPlane
from kubewright.testing import fake_time

GROUP = "migration.example.com"
CRD = f"notes.{GROUP}"
ENABLED = {"storagemigration.k8s.io/v1beta1": True}
NAME = "storage-version-migrator-controller"
MIGRATIONS = "storageversionmigrations.storagemigration.k8s.io"
DEFINITION = f"""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {CRD}}}
spec:
  group: {GROUP}
  scope: Namespaced
  names: {{plural: notes, kind: Note}}
  versions:
  - {{name: v1, served: true, storage: true, schema: &schema {{openAPIV3Schema: {{type: object}}}}}}
  - {{name: v2, served: true, storage: false, schema: *schema}}
"""


def migration(name: str = "notes-v2", resource: str = "notes") -> str:
    return f"""
apiVersion: storagemigration.k8s.io/v1beta1
kind: StorageVersionMigration
metadata: {{name: {name}}}
spec:
  resource: {{group: {GROUP}, resource: {resource}}}
"""


async def create_notes(client: Client, count: int = 12) -> None:
    """Define notes, create some in two namespaces, and change the storage version."""
    await client.apply_yaml(DEFINITION)
    await client.wait(CustomResourceDefinition, name=CRD, until=condition("Established"), timeout=60)
    await client.create(Namespace(metadata=ObjectMeta(name="other")))
    for number in range(count):
        metadata = {"name": f"note-{number}", "namespace": ("default", "other")[number % 2]}
        await client.create(Unstructured({"apiVersion": f"{GROUP}/v1", "kind": "Note", "metadata": metadata}))
    await set_storage_version(client, "v2")


async def set_storage_version(client: Client, name: str) -> None:
    crd = await client.get(CustomResourceDefinition, CRD)
    for version in crd.spec.versions:
        version.storage = version.name == name
    await client.update(crd)


async def stored_versions(plane: ControlPlane) -> dict[str, int]:
    """Return the number of stored notes by apiVersion, from the stored bytes."""
    items = (await plane.storage.list(plane.server.prefix)).items
    values = [item.value for item in items if f"/{GROUP}/notes/" in item.key]
    found = {each: sum(f'"{GROUP}/{each}"'.encode() in value for value in values) for each in ("v1", "v2")}
    assert sum(found.values()) == len(values)
    return found


async def metadata(client: Client) -> dict[Any, Any]:
    return {each.metadata.name: each.metadata async for each in client.list(f"notes.v2.{GROUP}")}


def outcome(obj: Unstructured) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in obj.get_nested("status", "conditions")}


async def finished(client: Client, name: str, outcome: str) -> Unstructured:
    return await client.wait(MIGRATIONS, name=name, until=condition(outcome), timeout=300)


async def test_objects_are_stored_in_the_storage_version() -> None:
    async with ControlPlane(port=None, runtime_config=ENABLED) as plane:
        client = plane.client()
        await create_notes(client)
        assert await stored_versions(plane) == {"v1": 12, "v2": 0}
        before = await metadata(client)

        await client.apply_yaml(migration())
        done = await finished(client, "notes-v2", "Succeeded")
        assert outcome(done) == {
            "Running": ("False", "MigrationCompleted"),
            "Succeeded": ("True", "StorageVersionMigrationSucceeded"),
        }
        assert await stored_versions(plane) == {"v1": 0, "v2": 12}
        started = int(done.get_nested("status", "resourceVersion"))
        for name, now in (await metadata(client)).items():
            assert now.generation == before[name].generation
            assert now.managed_fields == before[name].managed_fields
            assert int(before[name].resource_version) <= started < int(now.resource_version)

        crd = await client.get("customresourcedefinitions", CRD)
        assert crd.get_nested("status", "storedVersions") == ["v2"]
        found = {each["type"]: each for each in crd.get_nested("status", "conditions")}["StorageMigrating"]
        assert (found["status"], found["reason"]) == ("False", "MigrationSucceeded")
        assert found["observedGeneration"] == crd.metadata.generation

        table = await client.table(MIGRATIONS)
        assert [row["cells"] for row in table["rows"]] == [["notes-v2", CRD, "Succeeded"]]

        # A finished migration does nothing more; the next one does.
        await set_storage_version(client, "v1")
        await plane.wait_until_idle()
        assert await stored_versions(plane) == {"v1": 0, "v2": 12}
        await client.apply_yaml(migration("notes-v1"))
        await finished(client, "notes-v1", "Succeeded")
        assert await stored_versions(plane) == {"v1": 12, "v2": 0}


def test_a_resource_that_does_not_exist_is_a_failure() -> None:
    async def scenario() -> None:
        async with ControlPlane(port=None, runtime_config=ENABLED) as plane:
            client = plane.client()
            await client.apply_yaml(migration(resource="nothings"))
            failed = await finished(client, "notes-v2", "Failed")
            assert outcome(failed) == {
                "Running": ("False", "MigrationCompleted"),
                "Failed": ("True", "StorageVersionMigrationFailed"),
            }
            messages = {each["type"]: each["message"] for each in failed.get_nested("status", "conditions")}
            assert messages["Failed"] == f"resource nothings.{GROUP} does not exist in discovery"

            # A resource may appear within a minute after the migration.
            await client.apply_yaml(migration("early"))
            await plane.wait_until_idle()
            await create_notes(client, 2)
            await finished(client, "early", "Succeeded")

    fake_time(scenario())


async def test_a_resource_without_the_verbs_is_a_failure() -> None:
    async with ControlPlane(port=None, runtime_config=ENABLED) as plane:
        client = plane.client()
        text = migration(resource="selfsubjectreviews").replace(GROUP, "authentication.k8s.io")
        await client.apply_yaml(text)
        failed = await finished(client, "notes-v2", "Failed")
        assert "does not support all of the verbs update, patch, list" in str(failed.get_nested("status"))


async def test_a_rejected_object_is_a_failure() -> None:
    async with ControlPlane(port=None, runtime_config=ENABLED) as plane:
        client = plane.client()
        await create_notes(client, 2)
        crd = await client.get("customresourcedefinitions", CRD)
        for version in crd["spec"]["versions"]:
            version["schema"]["openAPIV3Schema"]["required"] = ["spec"]
        await client.update(crd)
        await client.apply_yaml(migration())
        failed = await finished(client, "notes-v2", "Failed")
        assert "migration encountered unhandled error: " in str(failed.get_nested("status"))
        crd = await client.get("customresourcedefinitions", CRD)
        assert crd.get_nested("status", "storedVersions") == ["v1", "v2"]
        found = {each["type"]: each for each in crd.get_nested("status", "conditions")}["StorageMigrating"]
        assert (found["status"], found["reason"]) == ("False", "MigrationFailed")


async def test_a_migration_continues_after_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'db'}"
    async with ControlPlane(
        port=None, store=url, runtime_config=ENABLED, disable_controllers=[NAME]
    ) as plane:
        client = plane.client()
        await create_notes(client)
        await client.apply_yaml(migration())
        created = await client.get(MIGRATIONS, "notes-v2")
        running = {
            "type": "Running",
            "status": "True",
            "reason": "MigrationRunning",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        created["status"] = {
            "conditions": [running],
            "resourceVersion": created.metadata.resource_version,
        }
        await client.update_status(created)
        body = {"metadata": {"labels": {"written": "since"}}}
        await client.patch(f"notes.v2.{GROUP}", "note-0", merge_patch(body), namespace="default")
        before = await metadata(client)
        assert await stored_versions(plane) == {"v1": 11, "v2": 1}

    async with ControlPlane(port=None, store=url, runtime_config=ENABLED) as plane:
        client = plane.client()
        done = await finished(client, "notes-v2", "Succeeded")
        assert done.get_nested("status", "resourceVersion") == created["status"]["resourceVersion"]
        assert await stored_versions(plane) == {"v1": 0, "v2": 12}
        after = await metadata(client)
        unchanged = [name for name in after if after[name].resource_version == before[name].resource_version]
        assert unchanged == ["note-0"]


async def test_conflicts_are_retried_and_deleted_objects_skipped() -> None:
    async with ControlPlane(port=None, controllers=False) as plane:
        client = plane.client()
        await create_notes(client)
        failures: dict[str, APIError] = {"note-1": Conflict("changed"), "note-2": NotFound("deleted")}
        sent: list[str] = []

        async def fail_once(call: Any, proceed: Any) -> Any:
            if call.verb == "patch":
                sent.append(call.name)
                if error := failures.pop(call.name, None):
                    raise error
            return await proceed(call)

        kind = metadata_of(f"notes.v2.{GROUP}")
        assert await store_again(client.with_interceptor(fail_once), kind) == 12
        assert (len(sent), sent.count("note-1"), sent.count("note-2")) == (13, 2, 1)
        assert await stored_versions(plane) == {"v1": 1, "v2": 11}


async def test_migrations_are_validated() -> None:
    async with ControlPlane(port=None, controllers=False, runtime_config=ENABLED) as plane:
        client = plane.client()
        with pytest.raises(Invalid, match=r"spec.resource.resource: Required value: resource is required"):
            await client.apply_yaml(migration(resource='""'))
        with pytest.raises(Invalid, match="a DNS-1035 label must consist of"):
            await client.apply_yaml(migration(resource="No/Name"))
        await client.apply_yaml(migration())
        with pytest.raises(Invalid, match=r"spec: Invalid value: .*field is immutable"):
            await client.apply_yaml(migration(resource="others"))

        async def write(version: str, **conditions: str) -> None:
            found = await client.get(MIGRATIONS, "notes-v2")
            rows = [
                {
                    "type": name,
                    "status": status,
                    "reason": "Test",
                    "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
                for name, status in conditions.items()
            ]
            found["status"] = {"resourceVersion": version, "conditions": rows}
            await client.update_status(found)

        with pytest.raises(Invalid, match="resource version is not well formed: 01"):
            await write("01")
        with pytest.raises(Invalid, match="Both success and failed conditions cannot be true"):
            await write("5", Succeeded="True", Failed="True")
        await write("5", Succeeded="True")
        with pytest.raises(Invalid, match=r"status.resourceVersion: Invalid value: .*field is immutable"):
            await write("6", Succeeded="True")
        with pytest.raises(Invalid, match="Success condition cannot be set to false once it is true"):
            await write("5", Succeeded="False")


async def test_a_client_of_one_namespace_does_not_migrate_a_part() -> None:
    async with ControlPlane(port=None, controllers=False) as plane:
        client = plane.client()
        await create_notes(client, 2)
        with pytest.raises(ValueError, match="restricted to namespace 'default'"):
            await migrate_storage(client.in_namespace("default"), CRD)
        crd = await client.get("customresourcedefinitions", CRD)
        assert crd.get_nested("status", "storedVersions") == ["v1", "v2"]


@pytest.mark.parametrize(("version", "enabled"), [("1.36", False), ("1.37", True)])
async def test_the_controller_runs_if_the_kind_is_served(version: str, enabled: bool) -> None:
    async with ControlPlane(port=None, kubernetes_version=version) as plane:
        assert plane.cluster.manager is not None
        names = [each.name for component in plane.cluster.manager for each in component.controllers]
        assert (NAME in names) == enabled
