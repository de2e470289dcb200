"""Types of `resource.k8s.io/v1`.

Written by tools/generate_builtins.py; change that instead.
"""

from typing import Any

from kubewright.api.core.v1 import NodeSelector
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import Condition, MetaObject, ObjectList, ObjectMeta
from kubewright.api.objects import Struct, field
from kubewright.api.values.quantity import Quantity
from kubewright.api.values.times import Time


class NetworkDeviceData(Struct):
    hardware_address: str | None = None
    interface_name: str | None = None
    ips: list[str] | None = None


class AllocatedDeviceStatus(Struct):
    conditions: list[Condition] | None = None
    data: dict[str, Any] | None = None
    device: str | None = None
    driver: str | None = None
    network_data: NetworkDeviceData | None = None
    pool: str | None = None
    share_id: str | None = field(default=None, name="shareID")


class OpaqueDeviceConfiguration(Struct):
    driver: str | None = None
    parameters: dict[str, Any] | None = None


class DeviceAllocationConfiguration(Struct):
    opaque: OpaqueDeviceConfiguration | None = None
    requests: list[str] | None = None
    source: str | None = None


class DeviceToleration(Struct):
    effect: str | None = None
    key: str | None = None
    operator: str | None = None
    toleration_seconds: int | None = None
    value: str | None = None


class DeviceRequestAllocationResult(Struct):
    admin_access: bool | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    consumed_capacity: dict[str, Quantity] | None = None
    device: str | None = None
    driver: str | None = None
    pool: str | None = None
    request: str | None = None
    share_id: str | None = field(default=None, name="shareID")
    skip_node_operations: list[str] | None = None
    tolerations: list[DeviceToleration] | None = None


class DeviceAllocationResult(Struct):
    config: list[DeviceAllocationConfiguration] | None = None
    results: list[DeviceRequestAllocationResult] | None = None


class AllocationResult(Struct):
    allocation_timestamp: Time | None = None
    devices: DeviceAllocationResult | None = None
    node_selector: NodeSelector | None = None


class CELDeviceSelector(Struct):
    expression: str | None = None


class CapacityRequestPolicyRange(Struct):
    max: Quantity | None = None
    min: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Struct):
    default: Quantity | None = None
    valid_range: CapacityRequestPolicyRange | None = None
    valid_values: list[Quantity] | None = None


class CapacityRequirements(Struct):
    requests: dict[str, Quantity] | None = None


class Counter(Struct):
    value: Quantity | None = None


class CounterSet(Struct):
    counters: dict[str, Counter] | None = None
    name: str | None = None


class DeviceAttribute(Struct):
    bool_: bool | None = None
    bools: list[bool] | None = None
    int_: int | None = None
    ints: list[int] | None = None
    string: str | None = None
    strings: list[str] | None = None
    version: str | None = None
    versions: list[str] | None = None


class DeviceCapacity(Struct):
    request_policy: CapacityRequestPolicy | None = None
    value: Quantity | None = None


class DeviceCounterConsumption(Struct):
    compatibility_groups: list[str] | None = None
    counter_set: str | None = None
    counters: dict[str, Counter] | None = None


class DeviceTaint(Struct):
    effect: str | None = None
    key: str | None = None
    time_added: Time | None = None
    value: str | None = None


class NodeAllocatableMapping(Struct):
    capacity_key: str | None = None
    capacity_multiplier: Quantity | None = None
    device_multiplier: Quantity | None = None


class NodeAllocatableOverhead(Struct):
    per_container: Quantity | None = None
    per_pod: Quantity | None = None


class NodeAllocatableResource(Struct):
    mapping: NodeAllocatableMapping | None = None
    overhead: NodeAllocatableOverhead | None = None


class Device(Struct):
    all_nodes: bool | None = None
    allow_multiple_allocations: bool | None = None
    attributes: dict[str, DeviceAttribute] | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    binds_to_node: bool | None = None
    capacity: dict[str, DeviceCapacity] | None = None
    consumes_counters: list[DeviceCounterConsumption] | None = None
    name: str | None = None
    node_allocatable_resources: dict[str, NodeAllocatableResource] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    taints: list[DeviceTaint] | None = None


class DeviceClaimConfiguration(Struct):
    opaque: OpaqueDeviceConfiguration | None = None
    requests: list[str] | None = None


class DeviceConstraint(Struct):
    distinct_attribute: str | None = None
    match_attribute: str | None = None
    requests: list[str] | None = None


class DeviceDerivedAttribute(Struct):
    expression: str | None = None
    name: str | None = None


class DeviceSelector(Struct):
    cel: CELDeviceSelector | None = None


class DeviceSubRequest(Struct):
    allocation_mode: str | None = None
    capacity: CapacityRequirements | None = None
    count: int | None = None
    derived_attributes: list[DeviceDerivedAttribute] | None = None
    device_class_name: str | None = None
    name: str | None = None
    selectors: list[DeviceSelector] | None = None
    tolerations: list[DeviceToleration] | None = None


class ExactDeviceRequest(Struct):
    admin_access: bool | None = None
    allocation_mode: str | None = None
    capacity: CapacityRequirements | None = None
    count: int | None = None
    derived_attributes: list[DeviceDerivedAttribute] | None = None
    device_class_name: str | None = None
    selectors: list[DeviceSelector] | None = None
    tolerations: list[DeviceToleration] | None = None


class DeviceRequest(Struct):
    exactly: ExactDeviceRequest | None = None
    first_available: list[DeviceSubRequest] | None = None
    name: str | None = None


class DeviceClaim(Struct):
    config: list[DeviceClaimConfiguration] | None = None
    constraints: list[DeviceConstraint] | None = None
    requests: list[DeviceRequest] | None = None


class DeviceClassConfiguration(Struct):
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(Struct):
    config: list[DeviceClassConfiguration] | None = None
    extended_resource_name: str | None = None
    selectors: list[DeviceSelector] | None = None


class DeviceClass(MetaObject):
    gvk = GroupVersionKind("resource.k8s.io", "v1", "DeviceClass")

    spec: DeviceClassSpec | None = None


class DeviceClassList(ObjectList[DeviceClass]):
    gvk = GroupVersionKind("resource.k8s.io", "v1", "DeviceClassList")


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
    gvk = GroupVersionKind("resource.k8s.io", "v1", "DeviceTaintRule")

    spec: DeviceTaintRuleSpec | None = None
    status: DeviceTaintRuleStatus | None = None


class DeviceTaintRuleList(ObjectList[DeviceTaintRule]):
    gvk = GroupVersionKind("resource.k8s.io", "v1", "DeviceTaintRuleList")


class ResourceClaimSpec(Struct):
    devices: DeviceClaim | None = None


class ResourceClaimConsumerReference(Struct):
    api_group: str | None = None
    name: str | None = None
    resource: str | None = None
    uid: str | None = None


class ResourceClaimStatus(Struct):
    allocation: AllocationResult | None = None
    devices: list[AllocatedDeviceStatus] | None = None
    reserved_for: list[ResourceClaimConsumerReference] | None = None


class ResourceClaim(MetaObject):
    gvk = GroupVersionKind("resource.k8s.io", "v1", "ResourceClaim")

    spec: ResourceClaimSpec | None = None
    status: ResourceClaimStatus | None = None


class ResourceClaimList(ObjectList[ResourceClaim]):
    gvk = GroupVersionKind("resource.k8s.io", "v1", "ResourceClaimList")


class ResourceClaimTemplateSpec(Struct):
    metadata: ObjectMeta | None = None
    spec: ResourceClaimSpec | None = None


class ResourceClaimTemplate(MetaObject):
    gvk = GroupVersionKind("resource.k8s.io", "v1", "ResourceClaimTemplate")

    spec: ResourceClaimTemplateSpec | None = None


class ResourceClaimTemplateList(ObjectList[ResourceClaimTemplate]):
    gvk = GroupVersionKind("resource.k8s.io", "v1", "ResourceClaimTemplateList")


class ResourcePool(Struct):
    generation: int | None = None
    name: str | None = None
    resource_slice_count: int | None = None


class ResourceSliceSpec(Struct):
    all_nodes: bool | None = None
    devices: list[Device] | None = None
    driver: str | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    partition_type_attribute: str | None = None
    per_device_node_selection: bool | None = None
    pool: ResourcePool | None = None
    shared_counters: list[CounterSet] | None = None
    skip_node_operations: list[str] | None = None


class ResourceSlice(MetaObject):
    gvk = GroupVersionKind("resource.k8s.io", "v1", "ResourceSlice")

    spec: ResourceSliceSpec | None = None


class ResourceSliceList(ObjectList[ResourceSlice]):
    gvk = GroupVersionKind("resource.k8s.io", "v1", "ResourceSliceList")


__all__ = [
    "AllocatedDeviceStatus",
    "AllocationResult",
    "CELDeviceSelector",
    "CapacityRequestPolicy",
    "CapacityRequestPolicyRange",
    "CapacityRequirements",
    "Counter",
    "CounterSet",
    "Device",
    "DeviceAllocationConfiguration",
    "DeviceAllocationResult",
    "DeviceAttribute",
    "DeviceCapacity",
    "DeviceClaim",
    "DeviceClaimConfiguration",
    "DeviceClass",
    "DeviceClassConfiguration",
    "DeviceClassList",
    "DeviceClassSpec",
    "DeviceConstraint",
    "DeviceCounterConsumption",
    "DeviceDerivedAttribute",
    "DeviceRequest",
    "DeviceRequestAllocationResult",
    "DeviceSelector",
    "DeviceSubRequest",
    "DeviceTaint",
    "DeviceTaintRule",
    "DeviceTaintRuleList",
    "DeviceTaintRuleSpec",
    "DeviceTaintRuleStatus",
    "DeviceTaintSelector",
    "DeviceToleration",
    "ExactDeviceRequest",
    "NetworkDeviceData",
    "NodeAllocatableMapping",
    "NodeAllocatableOverhead",
    "NodeAllocatableResource",
    "OpaqueDeviceConfiguration",
    "ResourceClaim",
    "ResourceClaimConsumerReference",
    "ResourceClaimList",
    "ResourceClaimSpec",
    "ResourceClaimStatus",
    "ResourceClaimTemplate",
    "ResourceClaimTemplateList",
    "ResourceClaimTemplateSpec",
    "ResourcePool",
    "ResourceSlice",
    "ResourceSliceList",
    "ResourceSliceSpec",
]
