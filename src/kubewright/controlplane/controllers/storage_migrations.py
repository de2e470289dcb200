"""Storage version migration: StorageVersionMigration objects of `storagemigration.k8s.io`, stable since 1.37.

    pending -> Running -> Running, with status.resourceVersion -> Succeeded or Failed

The objects of `spec.resource` are stored again by `kubewright.client.storage_migration`. One migration of a
resource runs at a time, the oldest first. Each step is in the status before the next one begins, so that a
migration continues after a restart: objects with a resource version greater than `status.resourceVersion`
were written since the migration began, and are not written again.

While the objects of a CRD are migrated, its condition `StorageMigrating` has the generation at which that
began. If the generation is the same at the end, `status.storedVersions` has only the storage version.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from kubewright.api.errors import APIError, Conflict, Expired, NotFound, TooManyRequests
from kubewright.api.gvk import GroupResource
from kubewright.api.values.times import now, parse_time
from kubewright.apiserver.resources.objects import Object
from kubewright.controller.request import Result
from kubewright.controlplane.crds import conditions
from kubewright.controlplane.in_process_clients import controller_client, controller_user, in_process_client

from . import Component, new_controller
from .source import resource_source

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer
    from kubewright.cache.stores.store import ObjectChange
    from kubewright.client.client import Client
    from kubewright.client.discovery.api_resource import APIResource
    from kubewright.controlplane.informers import Informers


NAME = "storage-version-migrator-controller"
MIGRATIONS = GroupResource("storagemigration.k8s.io", "storageversionmigrations")
DEFINITIONS = GroupResource("apiextensions.k8s.io", "customresourcedefinitions")
WORKERS = 5
REQUIRED_VERBS = ("update", "patch", "list")
TIME_TO_BE_SERVED = timedelta(minutes=1)
"""Time after the creation of a migration within which its resource may appear."""
_SERVED_CHECK = 1.0


class MigrationFailed(Exception):
    """A migration cannot succeed; the message is that of its condition."""


class StorageMigrationController(Component):
    """Runs migrations; a request is the resource that they migrate."""

    def __init__(self, server: APIServer, informers: Informers) -> None:
        self.server = server
        self.client = controller_client(server, NAME)
        controller = new_controller(NAME, self._reconcile, workers=WORKERS)
        controller.watch(resource_source(informers, MIGRATIONS, self._migration_changed))
        self.controllers = (controller,)

    def _migration_changed(self, change: ObjectChange) -> Iterable[GroupResource]:
        yield _resource_of(change.entry.object)

    async def _reconcile(self, resource: GroupResource) -> Result | None:
        found = [each.raw for each in await self.client.list(MIGRATIONS)]
        unfinished = [each for each in found if _resource_of(each) == resource and not _is_finished(each)]
        if not unfinished:
            return None
        migration = min(unfinished, key=_order)
        try:
            return await self._continue(migration, resource)
        except NotFound as error:
            if error.details.get("kind") == MIGRATIONS.resource:
                return None  # deleted; the event is a request for the next one
            raise

    async def _continue(self, migration: Object, resource: GroupResource) -> Result | None:
        if not conditions.is_true(migration, "Running"):
            conditions.put(migration, "Running", "True", "MigrationRunning", "The migration is running")
            migration = await self._write_status(migration)
        client = self._new_client()
        served = await _find_served(client, resource)
        try:
            if served is None:
                if now() < parse_time(migration["metadata"]["creationTimestamp"]) + TIME_TO_BE_SERVED:
                    return Result(requeue_after=_SERVED_CHECK)
                raise MigrationFailed(f"resource {resource} does not exist in discovery")
            if not migration["status"].get("resourceVersion"):
                await self._begin(resource, migration["metadata"]["name"])
                migration["status"]["resourceVersion"] = await _current_version(client, served)
                migration = await self._write_status(migration)
            await _store_again(client, served, int(migration["status"]["resourceVersion"]))
        except MigrationFailed as error:
            await self._end(resource, succeeded=False)
            conditions.put(migration, "Failed", "True", "StorageVersionMigrationFailed", str(error))
        else:
            await self._end(resource, succeeded=True)
            conditions.put(migration, "Succeeded", "True", "StorageVersionMigrationSucceeded", "")
        conditions.put(migration, "Running", "False", "MigrationCompleted", "Migration completed")
        await self._write_status(migration)
        return None

    async def _write_status(self, migration: Object) -> Object:
        return await self.client.update_status(migration)

    def _new_client(self) -> Client:
        # A new one for each reconcile: its discovery is current.
        return in_process_client(self.server, controller_user(NAME), user_agent=self.client.rest.user_agent)

    # The definition of a custom resource

    async def _begin(self, resource: GroupResource, migration: str) -> None:
        definition = await self._definition(resource)
        if definition is not None:
            message = f"Migration {migration} is running"
            await self._set_migrating(definition, "True", "MigrationRunning", message)

    async def _end(self, resource: GroupResource, *, succeeded: bool) -> None:
        definition = await self._definition(resource)
        begun = definition and conditions.find(definition, "StorageMigrating")
        if definition is None or begun is None:
            return
        if not succeeded:
            await self._set_migrating(definition, "False", "MigrationFailed", "The migration has failed")
            return
        message = "The migration has succeeded"
        if begun.get("observedGeneration") == definition["metadata"]["generation"]:
            versions = definition["spec"]["versions"]
            definition["status"]["storedVersions"] = [each["name"] for each in versions if each["storage"]]
            message += " and the stored versions have been updated"
        else:
            message += " but the stored versions have not been updated due to a generation mismatch"
        await self._set_migrating(definition, "False", "MigrationSucceeded", message)

    async def _definition(self, resource: GroupResource) -> Object | None:
        try:
            return (await self.client.get(DEFINITIONS, str(resource))).raw
        except NotFound:
            return None

    async def _set_migrating(self, definition: Object, status: str, reason: str, message: str) -> None:
        conditions.put(definition, "StorageMigrating", status, reason, message)
        condition = conditions.find(definition, "StorageMigrating")
        assert condition is not None
        condition["observedGeneration"] = definition["metadata"]["generation"]
        # The resource version of the definition: a change of its spec in the meantime is a conflict.
        await self.client.update_status(definition)


def _resource_of(migration: Object) -> GroupResource:
    named = migration["spec"]["resource"]
    return GroupResource(named.get("group") or "", named["resource"])


def _is_finished(migration: Object) -> bool:
    return conditions.is_true(migration, "Succeeded") or conditions.is_true(migration, "Failed")


def _order(migration: Object) -> tuple[bool, str, str]:
    metadata = migration["metadata"]
    return (not conditions.is_true(migration, "Running"), metadata["creationTimestamp"], metadata["name"])


async def _find_served(client: Client, resource: GroupResource) -> APIResource | None:
    """Return the resource in its preferred version, or `None` if it is not served."""
    for each in await client.mapper.resources():
        if each.gvr.group_resource == resource:
            return each
    return None


async def _current_version(client: Client, served: APIResource) -> str:
    """Return the resource version of a list. Raises `MigrationFailed` if the resource cannot be migrated."""
    if not set(REQUIRED_VERBS) <= set(served.verbs):
        verbs = ", ".join(REQUIRED_VERBS)
        raise MigrationFailed(f"resource {served} does not support all of the verbs {verbs}")
    version = (await client.list_raw(served.gvr, limit=1)).resource_version
    if not version.isdecimal():
        raise MigrationFailed(f"resource version {version!r} of {served} is not a number")
    return version


async def _store_again(client: Client, served: APIResource, newest: int) -> None:
    """Write the objects; raises `MigrationFailed` for an error that another attempt does not avoid."""
    from kubewright.client.kind_types import metadata_of
    from kubewright.client.storage_migration import store_again

    try:
        await store_again(client, metadata_of(served.gvr), newest=newest)
    except (Conflict, Expired, TooManyRequests):
        raise
    except APIError as error:
        if error.status_code >= 500:
            raise
        raise MigrationFailed(f"migration encountered unhandled error: {error}") from error
