"""Types of `storage.k8s.io/v1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.core.v1 import PersistentVolumeSpec, TopologySelectorTerm
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import LabelSelector, MetaObject, ObjectList
from kubewright.api.objects import Struct, field
from kubewright.api.values.quantity import Quantity
from kubewright.api.values.times import Time


class TokenRequest(Struct):
    audience: str | None = None
    expiration_seconds: int | None = None


class CSIDriverSpec(Struct):
    attach_required: bool | None = None
    fs_group_policy: str | None = None
    node_allocatable_update_period_seconds: int | None = None
    pod_info_on_mount: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None
    requires_republish: bool | None = None
    se_linux_mount: bool | None = None
    service_account_token_in_secrets: bool | None = None
    storage_capacity: bool | None = None
    token_requests: list[TokenRequest] | None = None
    volume_lifecycle_modes: list[str] | None = None


class CSIDriver(MetaObject):
    gvk = GroupVersionKind("storage.k8s.io", "v1", "CSIDriver")

    spec: CSIDriverSpec | None = None


class CSIDriverList(ObjectList[CSIDriver]):
    gvk = GroupVersionKind("storage.k8s.io", "v1", "CSIDriverList")


class VolumeNodeResources(Struct):
    count: int | None = None


class CSINodeDriver(Struct):
    allocatable: VolumeNodeResources | None = None
    name: str | None = None
    node_id: str | None = field(default=None, name="nodeID")
    topology_keys: list[str] | None = None


class CSINodeSpec(Struct):
    drivers: list[CSINodeDriver] | None = None


class StorageHealthCondition(Struct):
    access_mode: str | None = None
    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str | None = None
    volume_mode: str | None = None


class StorageHealth(Struct):
    health_conditions: list[StorageHealthCondition] | None = None
    name: str | None = None


class CSINodeStatus(Struct):
    storage_health: list[StorageHealth] | None = None


class CSINode(MetaObject):
    gvk = GroupVersionKind("storage.k8s.io", "v1", "CSINode")

    spec: CSINodeSpec | None = None
    status: CSINodeStatus | None = None


class CSINodeList(ObjectList[CSINode]):
    gvk = GroupVersionKind("storage.k8s.io", "v1", "CSINodeList")


class CSIStorageCapacity(MetaObject):
    gvk = GroupVersionKind("storage.k8s.io", "v1", "CSIStorageCapacity")

    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None
    node_topology: LabelSelector | None = None
    storage_class_name: str | None = None


class CSIStorageCapacityList(ObjectList[CSIStorageCapacity]):
    gvk = GroupVersionKind("storage.k8s.io", "v1", "CSIStorageCapacityList")


class StorageClass(MetaObject):
    gvk = GroupVersionKind("storage.k8s.io", "v1", "StorageClass")

    allow_volume_expansion: bool | None = None
    allowed_topologies: list[TopologySelectorTerm] | None = None
    mount_options: list[str] | None = None
    parameters: dict[str, str] | None = None
    provisioner: str | None = None
    reclaim_policy: str | None = None
    volume_binding_mode: str | None = None


class StorageClassList(ObjectList[StorageClass]):
    gvk = GroupVersionKind("storage.k8s.io", "v1", "StorageClassList")


class VolumeAttachmentSource(Struct):
    inline_volume_spec: PersistentVolumeSpec | None = None
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Struct):
    attacher: str | None = None
    node_name: str | None = None
    source: VolumeAttachmentSource | None = None


class VolumeError(Struct):
    error_code: int | None = None
    message: str | None = None
    time: Time | None = None


class VolumeAttachmentStatus(Struct):
    attach_error: VolumeError | None = None
    attached: bool | None = None
    attachment_metadata: dict[str, str] | None = None
    detach_error: VolumeError | None = None


class VolumeAttachment(MetaObject):
    gvk = GroupVersionKind("storage.k8s.io", "v1", "VolumeAttachment")

    spec: VolumeAttachmentSpec | None = None
    status: VolumeAttachmentStatus | None = None


class VolumeAttachmentList(ObjectList[VolumeAttachment]):
    gvk = GroupVersionKind("storage.k8s.io", "v1", "VolumeAttachmentList")


class VolumeAttributesClass(MetaObject):
    gvk = GroupVersionKind("storage.k8s.io", "v1", "VolumeAttributesClass")

    driver_name: str | None = None
    parameters: dict[str, str] | None = None


class VolumeAttributesClassList(ObjectList[VolumeAttributesClass]):
    gvk = GroupVersionKind("storage.k8s.io", "v1", "VolumeAttributesClassList")


__all__ = [
    "CSIDriver",
    "CSIDriverList",
    "CSIDriverSpec",
    "CSINode",
    "CSINodeDriver",
    "CSINodeList",
    "CSINodeSpec",
    "CSINodeStatus",
    "CSIStorageCapacity",
    "CSIStorageCapacityList",
    "StorageClass",
    "StorageClassList",
    "StorageHealth",
    "StorageHealthCondition",
    "TokenRequest",
    "VolumeAttachment",
    "VolumeAttachmentList",
    "VolumeAttachmentSource",
    "VolumeAttachmentSpec",
    "VolumeAttachmentStatus",
    "VolumeAttributesClass",
    "VolumeAttributesClassList",
    "VolumeError",
    "VolumeNodeResources",
]
