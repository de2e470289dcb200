"""DynamicResources: allocates devices for ResourceClaims and reserves the claims for the pod.

Supported are requests for an exact number of devices, or all devices, of a DeviceClass, from ResourceSlices
of a node, of selected nodes, or of all nodes. A pod whose claims need CEL selectors, constraints,
prioritized lists, partitionable devices or admin access is unschedulable, with a reason that names the claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kubewright.api.core.v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod
from kubewright.api.encoding.codec import to_plain
from kubewright.api.resources.v1 import (
    AllocationResult,
    Device,
    DeviceAllocationResult,
    DeviceClass,
    DeviceRequest,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceSlice,
    ResourceSliceSpec,
)
from kubewright.client import merge_patch
from kubewright.workloads.scheduler.framework.cluster_events import Action, ClusterEvent, Hint
from kubewright.workloads.scheduler.framework.cycle_state import CycleState
from kubewright.workloads.scheduler.framework.handle import Handle
from kubewright.workloads.scheduler.framework.plugin import Plugin, PostFilterResult
from kubewright.workloads.scheduler.framework.status import SKIP, Code, Diagnosis, SchedulingStatus
from kubewright.workloads.scheduler.state.node_info import NodeInfo
from kubewright.workloads.scheduler.state.node_selectors import NodeTest, compile_selector
from kubewright.workloads.scheduler.state.pod_info import PodInfo

DeviceKey = tuple[str, str, str]
"""Driver, pool, device."""
FINALIZER = "resource.kubernetes.io/delete-protection"
_MAX_CONSUMERS = 256


@dataclass(slots=True)
class _Claims:
    claims: list[ResourceClaim]
    selectors: list[NodeTest]
    """Node selectors of the claims that are allocated."""
    allocations: dict[str, dict[str, AllocationResult]] = field(default_factory=dict)
    """Node name to results by uid of the claim."""


class DynamicResources(Plugin):
    """Permissions: `list` and `watch` of ResourceClaims, ResourceSlices and DeviceClasses; `patch` of
    ResourceClaims and `resourceclaims/status`.
    """

    kinds = (ResourceClaim, ResourceSlice, DeviceClass)

    def __init__(self, handle: Handle) -> None:
        super().__init__(handle)
        self._in_flight: dict[str, AllocationResult] = {}
        """Allocations of claims, by uid, that are not written yet."""

    def events(self) -> Iterable[ClusterEvent]:
        """Claims, slices or classes change, claims of the pod are generated, or nodes are added."""
        return (
            ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT),
            ClusterEvent("ResourceClaim", Action.ALL),
            ClusterEvent("ResourceSlice", Action.ADD | Action.UPDATE),
            ClusterEvent("DeviceClass", Action.ADD | Action.UPDATE),
            ClusterEvent("Pod", Action.UPDATE_POD_RESOURCE_CLAIMS, self._after_pod_change),
        )

    def _after_pod_change(self, pod: PodInfo, old: Pod | None, new: Pod | None) -> Hint:
        return Hint.QUEUE if new is not None and new.metadata.uid == pod.uid else Hint.SKIP

    def pre_enqueue(self, pod: PodInfo) -> SchedulingStatus | None:
        """Keep pods out of the active queue until their claims exist."""
        found = self._claims(pod)
        return found if isinstance(found, SchedulingStatus) else None

    def _claims(self, pod: PodInfo) -> list[ResourceClaim] | SchedulingStatus:
        spec = pod.pod.spec
        wanted = (spec.resource_claims if spec else None) or ()
        if not wanted:
            return []
        status = pod.pod.status
        generated = {
            each.name: each.resource_claim_name
            for each in (status.resource_claim_statuses if status else None) or ()
        }
        claims = []
        for each in wanted:
            name = each.resource_claim_name
            if name is None:
                if each.name not in generated:
                    return SchedulingStatus.unresolvable(f'pod "{pod.key}": ResourceClaim not created yet')
                name = generated[each.name]
                if name is None:
                    # The template did not produce a claim, which means that none is needed.
                    continue
            claim = self.handle.lister.get(ResourceClaim, name, namespace=pod.namespace)
            if claim is None:
                return SchedulingStatus.unresolvable(f'resourceclaim.resource.k8s.io "{name}" not found')
            if claim.metadata.deletion_timestamp is not None:
                return SchedulingStatus.unresolvable(f'resourceclaim "{name}" is being deleted')
            claims.append(claim)
        return claims

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> SchedulingStatus | None:
        """Find the claims; skip pods without any."""
        claims = self._claims(pod)
        if isinstance(claims, SchedulingStatus) or not claims:
            state.write(_Claims, _Claims([], []))
            return claims if isinstance(claims, SchedulingStatus) else SKIP
        selectors: list[NodeTest] = []
        for claim in claims:
            status = claim.status
            reserved = (status.reserved_for if status else None) or ()
            if len(reserved) >= _MAX_CONSUMERS and all(each.uid != pod.uid for each in reserved):
                return SchedulingStatus.unresolvable("resourceclaim in use")
            allocation = (status.allocation if status else None) or self._in_flight.get(
                claim.metadata.uid or ""
            )
            if allocation is not None:
                if allocation.node_selector is not None:
                    selectors.append(compile_selector(allocation.node_selector))
                continue
            problem = self._unsupported(claim)
            if problem is not None:
                return problem
        state.write(_Claims, _Claims(claims, selectors))
        return None

    def _unsupported(self, claim: ResourceClaim) -> SchedulingStatus | None:
        """Return why a claim cannot be allocated at all."""
        devices = claim.spec.devices if claim.spec else None
        key = f"{claim.metadata.namespace}/{claim.metadata.name}"
        if devices is not None and devices.constraints:
            return SchedulingStatus.unresolvable(f"resource claim {key}: constraints are not supported")
        for request in (devices.requests if devices else None) or ():
            exactly = request.exactly
            prefix = f"resource claim {key}, request {request.name}"
            if exactly is None:
                return SchedulingStatus.unresolvable(f"{prefix}: unknown request type")
            name = exactly.device_class_name or ""
            device_class = self.handle.lister.get(DeviceClass, name)
            if device_class is None:
                return SchedulingStatus.unresolvable(
                    f"request {request.name}: device class {name} does not exist"
                )
            if exactly.selectors or (device_class.spec and device_class.spec.selectors):
                return SchedulingStatus.unresolvable(f"{prefix}: CEL selectors are not supported")
            if exactly.admin_access or exactly.capacity is not None:
                return SchedulingStatus.unresolvable(f"{prefix}: admin access and capacity are not supported")
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> SchedulingStatus | None:
        """Check allocated claims, and allocate devices for the others."""
        found = state.read(_Claims)
        if not all(test(node.labels, node.name) for test in found.selectors):
            return SchedulingStatus.unresolvable("resourceclaim not available on the node")
        pending = [claim for claim in found.claims if not self._is_allocated(claim)]
        if not pending:
            return None
        free = {key: device for key, device in self._devices(node) if key not in self._used()}
        results: dict[str, AllocationResult] = {}
        for claim in pending:
            result = _allocate(claim, free, node.name)
            if result is None:
                return SchedulingStatus.unresolvable("cannot allocate all claims")
            results[claim.metadata.uid or ""] = result
        found.allocations[node.name] = results
        return None

    def _is_allocated(self, claim: ResourceClaim) -> bool:
        return bool(claim.status and claim.status.allocation) or (claim.metadata.uid or "") in self._in_flight

    def _used(self) -> set[DeviceKey]:
        allocations = [
            claim.status.allocation
            for claim in self.handle.lister.list(ResourceClaim)
            if claim.status and claim.status.allocation
        ]
        return {
            (each.driver or "", each.pool or "", each.device or "")
            for allocation in (*allocations, *self._in_flight.values())
            for each in (allocation.devices.results if allocation.devices else None) or ()
            if not each.admin_access
        }

    def _devices(self, node: NodeInfo) -> Iterator[tuple[DeviceKey, Device]]:
        """Return the devices of the newest generation of each pool that can be used on a node."""
        slices = [each.spec for each in self.handle.lister.list(ResourceSlice) if each.spec is not None]
        newest: dict[tuple[str, str], int] = {}
        for spec in slices:
            newest[_pool(spec)] = max(newest.get(_pool(spec), 0), _generation(spec))
        for spec in slices:
            if _generation(spec) != newest[_pool(spec)]:
                continue
            for device in spec.devices or ():
                if device.consumes_counters:
                    continue
                place = device if spec.per_device_node_selection else spec
                if (
                    place.all_nodes
                    or place.node_name == node.name
                    or (
                        place.node_selector is not None
                        and compile_selector(place.node_selector)(node.labels, node.name)
                    )
                ):
                    yield (*_pool(spec), device.name or ""), device

    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> PostFilterResult:
        """Report why no claim is deallocated; the messages are those of kube-scheduler."""
        found = state.get(_Claims)
        if found is None:
            # Another plug-in has rejected the pod in PreFilter; kube-scheduler reports it this way.
            return PostFilterResult(SchedulingStatus(Code.ERROR, "not found"))
        reason = "still not schedulable" if found.claims else "no new claims to deallocate"
        return PostFilterResult(SchedulingStatus.unschedulable(reason))

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> SchedulingStatus | None:
        """Keep other pods from taking the devices."""
        found = state.get(_Claims)
        for uid, result in (found.allocations.get(node_name, {}) if found else {}).items():
            self._in_flight[uid] = result
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Release the devices."""
        found = state.get(_Claims)
        for uid in found.allocations.get(node_name, {}) if found else ():
            self._in_flight.pop(uid, None)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> SchedulingStatus | None:
        """Write the allocations and reserve the claims for the pod."""
        found, client = state.get(_Claims), self.handle.client
        if found is None or client is None:
            return None
        results = found.allocations.get(node_name, {})
        for claim in found.claims:
            meta, status = claim.metadata, claim.status
            reserved = list((status.reserved_for if status else None) or ())
            result = results.get(meta.uid or "")
            if result is None and any(each.uid == pod.uid for each in reserved):
                continue
            version = meta.resource_version
            if result is not None and FINALIZER not in (meta.finalizers or ()):
                finalizers = [*(meta.finalizers or ()), FINALIZER]
                written = await client.patch(
                    ResourceClaim,
                    meta.name or "",
                    merge_patch({"metadata": {"resourceVersion": version, "finalizers": finalizers}}),
                    namespace=meta.namespace,
                )
                version = written.metadata.resource_version
            consumer = {"resource": "pods", "name": pod.name, "uid": pod.uid}
            change: dict[str, object] = {"reservedFor": [*map(to_plain, reserved), consumer]}
            if result is not None:
                change["allocation"] = to_plain(result)
            await client.patch(
                ResourceClaim,
                meta.name or "",
                merge_patch({"metadata": {"resourceVersion": version}, "status": change}),
                namespace=meta.namespace,
                subresource="status",
            )
            self._in_flight.pop(meta.uid or "", None)
        return None


def _pool(spec: ResourceSliceSpec) -> tuple[str, str]:
    return spec.driver or "", (spec.pool.name if spec.pool else None) or ""


def _generation(spec: ResourceSliceSpec) -> int:
    return (spec.pool.generation if spec.pool else None) or 0


def _allocate(claim: ResourceClaim, free: dict[DeviceKey, Device], node_name: str) -> AllocationResult | None:
    """Take devices for all requests of a claim; `None` if there are not enough."""
    results: list[DeviceRequestAllocationResult] = []
    requests: Sequence[DeviceRequest] = ()
    if claim.spec is not None and claim.spec.devices is not None:
        requests = claim.spec.devices.requests or ()
    for request in requests:
        exactly = request.exactly
        assert exactly is not None
        wanted = len(free) if exactly.allocation_mode == "All" else exactly.count or 1
        if wanted == 0 or wanted > len(free):
            return None
        for key in list(free)[:wanted]:
            del free[key]
            driver, pool, device = key
            results.append(
                DeviceRequestAllocationResult(request=request.name, driver=driver, pool=pool, device=device)
            )
    by_name = NodeSelectorRequirement(key="metadata.name", operator="In", values=[node_name])
    return AllocationResult(
        devices=DeviceAllocationResult(results=results),
        node_selector=NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[by_name])]),
    )
