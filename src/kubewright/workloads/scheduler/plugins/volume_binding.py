"""VolumeBinding: claims that are bound when their first pod is scheduled (WaitForFirstConsumer).

For each node it finds an existing PersistentVolume for every unbound claim, or decides that one can be
provisioned. Before the pod is bound, it pre-binds the volumes and sets the annotation
`volume.kubernetes.io/selected-node` on claims to provision, and waits until all claims are bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kubewright.api.core.v1 import PersistentVolume, PersistentVolumeClaim
from kubewright.api.selectors.label_selectors import SelectorError, selector_of
from kubewright.api.storage.v1 import StorageClass
from kubewright.client import merge_patch
from kubewright.workloads.scheduler.framework.cluster_events import Action, ClusterEvent, Hint
from kubewright.workloads.scheduler.framework.cycle_state import CycleState
from kubewright.workloads.scheduler.framework.handle import Handle
from kubewright.workloads.scheduler.framework.plugin import Plugin
from kubewright.workloads.scheduler.framework.status import SKIP, Code, SchedulingStatus
from kubewright.workloads.scheduler.state.node_info import NodeInfo
from kubewright.workloads.scheduler.state.node_selectors import compile_selector
from kubewright.workloads.scheduler.state.pod_info import PodInfo
from kubewright.workloads.scheduler.state.resources import amounts_of

from .volumes import claim_not_found

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
VOLUME_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
BIND_TIMEOUT = 600.0


@dataclass(slots=True)
class _Decision:
    """What to do with the claims of a pod on one node."""

    bindings: list[tuple[PersistentVolumeClaim, PersistentVolume]] = field(default_factory=list)
    provisions: list[PersistentVolumeClaim] = field(default_factory=list)


@dataclass(slots=True)
class _Volumes:
    bound: list[PersistentVolumeClaim]
    unbound: list[PersistentVolumeClaim]
    decisions: dict[str, _Decision] = field(default_factory=dict)


class VolumeBinding(Plugin):
    """Argument: `bind_timeout`, seconds to wait until claims are bound.

    Permissions: `patch` of PersistentVolumeClaims and PersistentVolumes; `list` and `watch` of both and of
    StorageClasses.
    """

    kinds = (PersistentVolumeClaim, PersistentVolume, StorageClass)

    def __init__(self, handle: Handle, bind_timeout: float = BIND_TIMEOUT) -> None:
        super().__init__(handle)
        self._bind_timeout = bind_timeout
        self._reserved: dict[str, str] = {}
        """Volumes that are assigned to claims and not bound yet: volume name to uid of the pod."""

    def events(self) -> Iterable[ClusterEvent]:
        """Volumes, claims or storage classes change, or nodes are added or relabeled."""
        return (
            ClusterEvent("StorageClass", Action.ADD | Action.UPDATE),
            ClusterEvent("PersistentVolumeClaim", Action.ADD | Action.UPDATE, self._after_claim_change),
            ClusterEvent("PersistentVolume", Action.ADD | Action.UPDATE),
            ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_LABEL),
        )

    def _after_claim_change(
        self, pod: PodInfo, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
    ) -> Hint:
        if new is None or new.metadata.namespace != pod.namespace:
            return Hint.SKIP
        return Hint.QUEUE if new.metadata.name in pod.claim_names else Hint.SKIP

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> SchedulingStatus | None:
        """Reject pods with missing, lost or unbound immediate claims; skip pods without claims."""
        if not pod.claim_names:
            return SKIP
        bound: list[PersistentVolumeClaim] = []
        unbound: list[PersistentVolumeClaim] = []
        waits_for_immediate = False
        spec = pod.pod.spec
        ephemeral = {
            f"{pod.name}-{volume.name}"
            for volume in (spec.volumes if spec else None) or ()
            if volume.ephemeral is not None
        }
        for name in pod.claim_names:
            claim = self.handle.lister.get(PersistentVolumeClaim, name, namespace=pod.namespace)
            if claim is None:
                if name in ephemeral:
                    return SchedulingStatus.unresolvable(
                        "waiting for ephemeral volume controller to create the "
                        f'persistentvolumeclaim "{name}"'
                    )
                return claim_not_found(name)
            volume_name = (claim.spec.volume_name if claim.spec else None) or ""
            if claim.status is not None and claim.status.phase == "Lost":
                return SchedulingStatus.unresolvable(
                    f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume_name}"'
                )
            if claim.metadata.deletion_timestamp is not None:
                return SchedulingStatus.unresolvable(f'persistentvolumeclaim "{name}" is being deleted')
            if _is_bound(claim):
                bound.append(claim)
            elif self._waits_for_pod(claim) and not volume_name:
                unbound.append(claim)
            else:
                waits_for_immediate = True
        if waits_for_immediate:
            return SchedulingStatus.unresolvable("pod has unbound immediate PersistentVolumeClaims")
        state.write(_Volumes, _Volumes(bound, unbound))
        return None

    def _storage_class(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        name = claim.spec.storage_class_name if claim.spec else None
        return self.handle.lister.get(StorageClass, name) if name else None

    def _waits_for_pod(self, claim: PersistentVolumeClaim) -> bool:
        found = self._storage_class(claim)
        return found is not None and found.volume_binding_mode == "WaitForFirstConsumer"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> SchedulingStatus | None:
        """Check the node affinity of bound volumes, and find volumes for unbound claims."""
        volumes = state.read(_Volumes)
        reasons = []
        missing = mismatch = False
        for claim in volumes.bound:
            name = (claim.spec.volume_name if claim.spec else None) or ""
            volume = self.handle.lister.get(PersistentVolume, name)
            if volume is None:
                missing = True
            elif not _matches_node(volume, node):
                mismatch = True
        if mismatch:
            reasons.append(NODE_CONFLICT)
        decision = self._decide(volumes.unbound, node)
        if decision is None:
            reasons.append(BIND_CONFLICT)
        if missing:
            reasons.append(VOLUME_MISSING)
        if reasons or decision is None:
            return SchedulingStatus.unresolvable(*reasons)
        volumes.decisions[node.name] = decision
        return None

    def _decide(self, claims: Sequence[PersistentVolumeClaim], node: NodeInfo) -> _Decision | None:
        """Return volumes for claims on a node; `None` if that is not possible."""
        decision = _Decision()
        taken: set[str] = set()
        for claim in claims:
            selected = (claim.metadata.annotations or {}).get(SELECTED_NODE)
            if selected is not None:
                if selected != node.name:
                    return None
                decision.provisions.append(claim)
                continue
            volume = self._find_volume(claim, node, taken)
            if volume is not None:
                taken.add(volume.metadata.name or "")
                decision.bindings.append((claim, volume))
            elif self._can_provision(claim, node):
                decision.provisions.append(claim)
            else:
                return None
        return decision

    def _find_volume(
        self, claim: PersistentVolumeClaim, node: NodeInfo, taken: set[str]
    ) -> PersistentVolume | None:
        """Return the smallest available volume for a claim that can be used on a node."""
        best: tuple[int, PersistentVolume] | None = None
        for volume in self.handle.lister.list(PersistentVolume):
            name = volume.metadata.name or ""
            if name in taken or name in self._reserved or not _satisfies(volume, claim):
                continue
            if not _matches_node(volume, node):
                continue
            size = amounts_of(volume.spec.capacity if volume.spec else None).get("storage", 0)
            if best is None or size < best[0]:
                best = (size, volume)
        return best[1] if best is not None else None

    def _can_provision(self, claim: PersistentVolumeClaim, node: NodeInfo) -> bool:
        storage_class = self._storage_class(claim)
        if storage_class is None or storage_class.provisioner in (None, "", NO_PROVISIONER):
            return False
        topologies = storage_class.allowed_topologies or ()
        return not topologies or any(
            all(
                node.labels.get(each.key or "") in (each.values or ())
                for each in term.match_label_expressions or ()
            )
            for term in topologies
        )

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> SchedulingStatus | None:
        """Keep other pods from taking the same volumes."""
        volumes = state.get(_Volumes)
        decision = volumes.decisions.get(node_name) if volumes else None
        for _, volume in decision.bindings if decision else ():
            self._reserved[volume.metadata.name or ""] = pod.uid
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Release the volumes."""
        for name in [name for name, uid in self._reserved.items() if uid == pod.uid]:
            del self._reserved[name]

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> SchedulingStatus | None:
        """Write the decisions and wait until the claims are bound."""
        volumes = state.get(_Volumes)
        decision = volumes.decisions.get(node_name) if volumes else None
        client = self.handle.client
        if decision is None or client is None or not (decision.bindings or decision.provisions):
            return None
        for claim, volume in decision.bindings:
            meta = claim.metadata
            reference = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": meta.namespace,
                "name": meta.name,
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
            }
            change = {
                "metadata": {
                    "resourceVersion": volume.metadata.resource_version,
                    "annotations": {BOUND_BY_CONTROLLER: "yes"},
                },
                "spec": {"claimRef": reference},
            }
            await client.patch(PersistentVolume, volume.metadata.name or "", merge_patch(change))
        selected: list[PersistentVolumeClaim] = []
        for claim in decision.provisions:
            if (claim.metadata.annotations or {}).get(SELECTED_NODE) == node_name:
                selected.append(claim)
            else:
                selected.append(
                    await client.patch(
                        PersistentVolumeClaim,
                        claim.metadata.name or "",
                        merge_patch({"metadata": {"annotations": {SELECTED_NODE: node_name}}}),
                        namespace=claim.metadata.namespace,
                    )
                )
        claims = [claim for claim, _ in decision.bindings] + decision.provisions
        if not await self.handle.wait_for(
            lambda: self._are_bound(claims) or bool(self._failed(selected, node_name)),
            timeout=self._bind_timeout,
        ):
            return SchedulingStatus(Code.ERROR, "binding volumes: context deadline exceeded")
        if failed := self._failed(selected, node_name):
            return SchedulingStatus(Code.ERROR, f'binding volumes: provisioning failed for PVC "{failed}"')
        self.unreserve(state, pod, node_name)
        return None

    def _failed(self, claims: Sequence[PersistentVolumeClaim], node_name: str) -> str:
        """Return a claim whose provisioner has removed the selected node, so that another one is chosen."""
        for claim in claims:
            meta = claim.metadata
            current = self.handle.lister.get(
                PersistentVolumeClaim, meta.name or "", namespace=meta.namespace or ""
            )
            if current is None or _is_bound(current):
                continue
            is_stale = int(current.metadata.resource_version or 0) < int(meta.resource_version or 0)
            if not is_stale and (current.metadata.annotations or {}).get(SELECTED_NODE) != node_name:
                return meta.name or ""
        return ""

    def _are_bound(self, claims: Sequence[PersistentVolumeClaim]) -> bool:
        for claim in claims:
            meta = claim.metadata
            current = self.handle.lister.get(
                PersistentVolumeClaim, meta.name or "", namespace=meta.namespace or ""
            )
            if current is None or not _is_bound(current):
                return False
        return True


def _is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec and claim.spec.volume_name) and BIND_COMPLETED in (
        claim.metadata.annotations or {}
    )


def _matches_node(volume: PersistentVolume, node: NodeInfo) -> bool:
    affinity = volume.spec.node_affinity if volume.spec else None
    if affinity is None or affinity.required is None:
        return True
    return compile_selector(affinity.required)(node.labels, node.name)


def _satisfies(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is available and has what a claim requests."""
    spec, wanted = volume.spec, claim.spec
    if spec is None or wanted is None or volume.metadata.deletion_timestamp is not None:
        return False
    reference = spec.claim_ref
    if reference is not None:
        return (
            reference.namespace == claim.metadata.namespace
            and reference.name == claim.metadata.name
            and reference.uid in (None, "", claim.metadata.uid)
        )
    if volume.status is not None and volume.status.phase not in (None, "", "Available"):
        return False
    if (spec.storage_class_name or "") != (wanted.storage_class_name or ""):
        return False
    if (spec.volume_mode or "Filesystem") != (wanted.volume_mode or "Filesystem"):
        return False
    if not set(wanted.access_modes or ()) <= set(spec.access_modes or ()):
        return False
    requested = amounts_of(wanted.resources.requests if wanted.resources else None).get("storage", 0)
    if amounts_of(spec.capacity).get("storage", 0) < requested:
        return False
    if wanted.selector is None:
        return True
    try:
        return selector_of(wanted.selector).matches(volume.metadata.labels)
    except SelectorError:
        return False
