"""Types of `internal.apiserver.k8s.io/v1alpha1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject, ObjectList
from kubewright.api.objects import Struct, field
from kubewright.api.values.times import Time


class ServerStorageVersion(Struct):
    api_server_id: str | None = field(default=None, name="apiServerID")
    decodable_versions: list[str] | None = None
    encoding_version: str | None = None
    served_versions: list[str] | None = None


class StorageVersionSpec(Struct):
    pass


class StorageVersionCondition(Struct):
    last_transition_time: Time | None = None
    message: str | None = None
    observed_generation: int | None = None
    reason: str | None = None
    status: str | None = None
    type: str | None = None


class StorageVersionStatus(Struct):
    common_encoding_version: str | None = None
    conditions: list[StorageVersionCondition] | None = None
    storage_versions: list[ServerStorageVersion] | None = None


class StorageVersion(MetaObject):
    gvk = GroupVersionKind("internal.apiserver.k8s.io", "v1alpha1", "StorageVersion")

    spec: StorageVersionSpec | None = None
    status: StorageVersionStatus | None = None


class StorageVersionList(ObjectList[StorageVersion]):
    gvk = GroupVersionKind("internal.apiserver.k8s.io", "v1alpha1", "StorageVersionList")


__all__ = [
    "ServerStorageVersion",
    "StorageVersion",
    "StorageVersionCondition",
    "StorageVersionList",
    "StorageVersionSpec",
    "StorageVersionStatus",
]
