"""Types of `storagemigration.k8s.io/v1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import Condition, GroupResourceRef, MetaObject, ObjectList
from kubewright.api.objects import Struct


class StorageVersionMigrationSpec(Struct):
    resource: GroupResourceRef | None = None


class StorageVersionMigrationStatus(Struct):
    conditions: list[Condition] | None = None
    resource_version: str | None = None


class StorageVersionMigration(MetaObject):
    gvk = GroupVersionKind("storagemigration.k8s.io", "v1", "StorageVersionMigration")

    spec: StorageVersionMigrationSpec | None = None
    status: StorageVersionMigrationStatus | None = None


class StorageVersionMigrationList(ObjectList[StorageVersionMigration]):
    gvk = GroupVersionKind("storagemigration.k8s.io", "v1", "StorageVersionMigrationList")


__all__ = [
    "StorageVersionMigration",
    "StorageVersionMigrationList",
    "StorageVersionMigrationSpec",
    "StorageVersionMigrationStatus",
]
