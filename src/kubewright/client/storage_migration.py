"""Storage version migration: every object of a custom resource is stored again, in the storage version.

    result = await migrate_storage(client, "shops.store.example.com")
    result.objects, result.version          # 42, "v2"

After the storage version of a CRD has changed, existing objects stay in the version in which they were
written, and are converted whenever they are read. An empty patch makes the API server store an object again;
it changes nothing else, neither `metadata.generation` nor managed fields. When all objects have been stored
again, `status.storedVersions` has only the storage version, so the old version can be removed.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubewright.api.errors import Conflict, NotFound
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.unstructured import Unstructured

from .kind_types import ALL_NAMESPACES, metadata_of
from .patches import merge_patch
from .verbs.create_or_update import retry_on_conflict

if TYPE_CHECKING:
    from kubewright.api.meta import PartialObjectMetadata

    from .client import Client
    from .kind_types import MetadataKind

CONCURRENT_REQUESTS = 10
_CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


class StorageMigrationError(Exception):
    """The objects cannot be migrated; the message is one line with the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class StorageMigration:
    """The result of a migration."""

    crd: str
    version: str
    """The storage version."""
    objects: int
    """Objects that were stored again; with `dry_run`, those that would be."""
    previous: tuple[str, ...]
    """`status.storedVersions` before the migration."""

    @property
    def is_needed(self) -> bool:
        """Whether objects could be stored in another version before."""
        return self.previous != (self.version,)


async def migrate_storage(client: Client, crd: str, *, dry_run: bool = False) -> StorageMigration:
    """Store all objects of a CRD in its storage version, and remove other versions from `storedVersions`.

    It can be repeated, also after an error. Raises `StorageMigrationError` if the storage version changes
    during the migration, or if the CRD serves no version.

    Permissions: get of the CRD, patch of its status, list and patch of its objects.
    """
    found = await client.get(_CRD, crd)
    version = _storage_version(found)
    previous = tuple(found.get_nested("status", "storedVersions") or ())
    kind = metadata_of(_served_kind(found, version))
    count = 0
    if dry_run:
        async for _ in client.list(kind, namespace=ALL_NAMESPACES):
            count += 1
    elif previous != (version,):
        count = await store_again(client, kind)
    if not dry_run and previous != (version,):
        await _set_stored_version(client, crd, version)
    return StorageMigration(crd, version, count, previous)


async def store_again(client: Client, kind: MetadataKind, *, newest: int | None = None) -> int:
    """Write every object of a kind once, without a change; return the number of objects.

    Objects that are deleted in the meantime are skipped, and conflicts are retried. With `newest`, objects of
    a greater resource version are skipped, because they were written since.
    """
    count = 0
    pending: set[asyncio.Task[None]] = set()

    async def write(obj: PartialObjectMetadata) -> None:
        name, namespace = obj.metadata.name or "", obj.metadata.namespace
        with suppress(NotFound):  # deleted in the meantime
            await retry_on_conflict(lambda: client.patch(kind, name, merge_patch({}), namespace=namespace))

    try:
        async for each in client.list(kind, namespace=ALL_NAMESPACES):
            if newest is not None and int(each.metadata.resource_version or 0) > newest:
                continue
            count += 1
            if len(pending) >= CONCURRENT_REQUESTS:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            pending.add(asyncio.ensure_future(write(each)))
        await asyncio.gather(*pending)
    finally:
        for task in pending:
            task.cancel()
    return count


async def _set_stored_version(client: Client, crd: str, version: str) -> None:
    while True:
        found = await client.get(_CRD, crd)
        if _storage_version(found) != version:
            raise StorageMigrationError(
                f"the storage version of {crd} changed from {version} to {_storage_version(found)} during "
                "the migration; run it again"
            )
        # The resource version: a change of the storage version in the meantime is a conflict.
        body = {
            "metadata": {"resourceVersion": found.metadata.resource_version},
            "status": {"storedVersions": [version]},
        }
        try:
            await client.subresource("status", _CRD, crd).patch(merge_patch(body))
        except Conflict:
            continue
        return


def _storage_version(crd: Unstructured) -> str:
    return next(str(each["name"]) for each in crd["spec"]["versions"] if each["storage"])


def _served_kind(crd: Unstructured, version: str) -> GroupVersionKind:
    spec = crd["spec"]
    served = [each["name"] for each in spec["versions"] if each["served"]]
    if not served:
        raise StorageMigrationError(f"{crd.metadata.name} serves no version; set served: true for one")
    return GroupVersionKind(spec["group"], version if version in served else served[0], spec["names"]["kind"])
