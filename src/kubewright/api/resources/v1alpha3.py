"""Types of `resource.k8s.io/v1alpha3`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import Condition, MetaObject, ObjectList
from kubewright.api.objects import Struct
from kubewright.api.values.quantity import Quantity
from kubewright.api.values.times import Time


class DeviceTaint(Struct):
    effect: str | None = None
    key: str | None = None
    time_added: Time | None = None
    value: str | None = None


class DeviceTaintSelector(Struct):
    device: str | None = None
    driver: str | None = None
    pool: str | None = None


class DeviceTaintRuleSpec(Struct):
    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint | None = None


class DeviceTaintRuleStatus(Struct):
    conditions: list[Condition] | None = None


class DeviceTaintRule(MetaObject):
    gvk = GroupVersionKind("resource.k8s.io", "v1alpha3", "DeviceTaintRule")

    spec: DeviceTaintRuleSpec | None = None
    status: DeviceTaintRuleStatus | None = None


class DeviceTaintRuleList(ObjectList[DeviceTaintRule]):
    gvk = GroupVersionKind("resource.k8s.io", "v1alpha3", "DeviceTaintRuleList")


class PartitionTypeStatus(Struct):
    allocatable: int | None = None
    attribute: str | None = None
    total: int | None = None
    type: str | None = None


class ShareableCapacityStatus(Struct):
    available: Quantity | None = None
    consumed: Quantity | None = None
    name: str | None = None
    total: Quantity | None = None


class ShareableSummaryStatus(Struct):
    capacity: list[ShareableCapacityStatus] | None = None
    fully_available_devices: int | None = None
    partially_available_devices: int | None = None


class PoolStatus(Struct):
    allocated_devices: int | None = None
    available_devices: int | None = None
    driver: str | None = None
    generation: int | None = None
    node_name: str | None = None
    partition_summary: list[PartitionTypeStatus] | None = None
    pool_name: str | None = None
    resource_slice_count: int | None = None
    shareable_summary: ShareableSummaryStatus | None = None
    total_devices: int | None = None
    unavailable_devices: int | None = None
    validation_error: str | None = None


class ResourcePoolStatusRequestSpec(Struct):
    default_partition_type_attribute: str | None = None
    driver: str | None = None
    limit: int | None = None
    pool_name: str | None = None


class ResourcePoolStatusRequestStatus(Struct):
    conditions: list[Condition] | None = None
    pool_count: int | None = None
    pools: list[PoolStatus] | None = None


class ResourcePoolStatusRequest(MetaObject):
    gvk = GroupVersionKind("resource.k8s.io", "v1alpha3", "ResourcePoolStatusRequest")

    spec: ResourcePoolStatusRequestSpec | None = None
    status: ResourcePoolStatusRequestStatus | None = None


class ResourcePoolStatusRequestList(ObjectList[ResourcePoolStatusRequest]):
    gvk = GroupVersionKind("resource.k8s.io", "v1alpha3", "ResourcePoolStatusRequestList")


__all__ = [
    "DeviceTaint",
    "DeviceTaintRule",
    "DeviceTaintRuleList",
    "DeviceTaintRuleSpec",
    "DeviceTaintRuleStatus",
    "DeviceTaintSelector",
    "PartitionTypeStatus",
    "PoolStatus",
    "ResourcePoolStatusRequest",
    "ResourcePoolStatusRequestList",
    "ResourcePoolStatusRequestSpec",
    "ResourcePoolStatusRequestStatus",
    "ShareableCapacityStatus",
    "ShareableSummaryStatus",
]
