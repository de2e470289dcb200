"""VolumeRestrictions, VolumeZone and NodeVolumeLimits: where the volumes of a pod can be attached."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kubewright.api.core.v1 import PersistentVolume, PersistentVolumeClaim, Pod, Volume
from kubewright.api.storage.v1 import CSINode, StorageClass
from kubewright.workloads.scheduler.framework.cluster_events import Action, ClusterEvent, Hint
from kubewright.workloads.scheduler.framework.cycle_state import CycleState
from kubewright.workloads.scheduler.framework.plugin import Plugin
from kubewright.workloads.scheduler.framework.status import SKIP, SchedulingStatus
from kubewright.workloads.scheduler.state.node_info import REGION_LABEL, ZONE_LABEL, NodeInfo
from kubewright.workloads.scheduler.state.pod_info import PodInfo, claim_names

_BETA_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": ZONE_LABEL,
    "failure-domain.beta.kubernetes.io/region": REGION_LABEL,
}
_TOPOLOGY_LABELS = (ZONE_LABEL, REGION_LABEL, *_BETA_LABELS)
READ_WRITE_ONCE_POD = "ReadWriteOncePod"


def claim_not_found(name: str) -> SchedulingStatus:
    """The pod uses a PersistentVolumeClaim that does not exist."""
    return SchedulingStatus.unresolvable(f'persistentvolumeclaim "{name}" not found')


@dataclass(slots=True)
class _ExclusiveClaims:
    """ReadWriteOncePod claims of the pod, and how many of them are in use."""

    keys: frozenset[str]
    conflicts: int

    def clone(self) -> _ExclusiveClaims:
        return _ExclusiveClaims(self.keys, self.conflicts)


class VolumeRestrictions(Plugin):
    """Rejects nodes with a pod that uses the same disk, and claims that only one pod may use."""

    kinds = (PersistentVolumeClaim,)

    def events(self) -> Iterable[ClusterEvent]:
        """A pod is deleted, a node is added, or a claim of the pod changes."""
        return (
            ClusterEvent("Pod", Action.DELETE),
            ClusterEvent("Node", Action.ADD),
            ClusterEvent("PersistentVolumeClaim", Action.ADD | Action.UPDATE, _own_claim),
        )

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> SchedulingStatus | None:
        """Skip pods without such volumes."""
        spec = pod.pod.spec
        volumes = (spec.volumes if spec else None) or ()
        if not volumes:
            return SKIP
        exclusive = set()
        for volume in volumes:
            source = volume.persistent_volume_claim
            if source is None:
                continue
            name = source.claim_name or ""
            claim = self.handle.lister.get(PersistentVolumeClaim, name, namespace=pod.namespace)
            if claim is None:
                return claim_not_found(name)
            if READ_WRITE_ONCE_POD in ((claim.spec.access_modes if claim.spec else None) or ()):
                exclusive.add(f"{pod.namespace}/{name}")
        conflicts = sum(self.handle.snapshot.is_claim_used(key) for key in exclusive)
        if not conflicts and not any(_is_exclusive_disk(volume) for volume in volumes):
            return SKIP
        state.write(_ExclusiveClaims, _ExclusiveClaims(frozenset(exclusive), conflicts))
        return None

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Count the claims of an added pod."""
        self._update(state.read(_ExclusiveClaims), added, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Do not count the claims of a removed pod."""
        self._update(state.read(_ExclusiveClaims), removed, -1)

    def _update(self, found: _ExclusiveClaims, other: PodInfo, number: int) -> None:
        for name in other.claim_names:
            if f"{other.namespace}/{name}" in found.keys:
                found.conflicts += number

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> SchedulingStatus | None:
        """Compare disks and claims with those in use."""
        spec = pod.pod.spec
        for volume in (spec.volumes if spec else None) or ():
            if _is_exclusive_disk(volume) and any(
                _conflicts(volume, other.pod) for other in node.pods.values()
            ):
                return SchedulingStatus.unschedulable("node(s) had no available disk")
        if state.read(_ExclusiveClaims).conflicts > 0:
            return SchedulingStatus.unschedulable(
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
                "already in-use by another pod"
            )
        return None


def _own_claim(pod: PodInfo, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> Hint:
    changed = new or old
    if changed is None:
        return Hint.QUEUE
    own = changed.metadata.namespace == pod.namespace and changed.metadata.name in pod.claim_names
    return Hint.QUEUE if own else Hint.SKIP


def _is_exclusive_disk(volume: Volume) -> bool:
    return (
        volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        or volume.rbd is not None
        or volume.iscsi is not None
    )


def _conflicts(volume: Volume, pod: Pod) -> bool:
    """Whether a pod uses the same disk in a way that does not allow a second pod."""
    for other in (pod.spec.volumes if pod.spec else None) or ():
        if volume.gce_persistent_disk is not None and other.gce_persistent_disk is not None:
            disk, used = volume.gce_persistent_disk, other.gce_persistent_disk
            if disk.pd_name == used.pd_name and not (disk.read_only and used.read_only):
                return True
        if volume.aws_elastic_block_store is not None and other.aws_elastic_block_store is not None:
            used_id = other.aws_elastic_block_store.volume_id
            if volume.aws_elastic_block_store.volume_id == used_id:
                return True
        if volume.iscsi is not None and other.iscsi is not None:
            target, used_target = volume.iscsi, other.iscsi
            if target.iqn == used_target.iqn and not (target.read_only and used_target.read_only):
                return True
        if volume.rbd is not None and other.rbd is not None:
            mine, its = volume.rbd, other.rbd
            same = (mine.pool, mine.image) == (its.pool, its.image)
            shared = set(mine.monitors or ()) & set(its.monitors or ())
            if same and shared and not (mine.read_only and its.read_only):
                return True
    return False


class _Zones(list[tuple[str, frozenset[str]]]):
    """Topology labels of the volumes of the pod, with the allowed values."""


class VolumeZone(Plugin):
    """Rejects nodes in other zones than the bound volumes of the pod."""

    kinds = (PersistentVolumeClaim, PersistentVolume, StorageClass)

    def events(self) -> Iterable[ClusterEvent]:
        """Volumes, claims or storage classes change, or nodes are added or relabeled."""
        return (
            ClusterEvent("StorageClass", Action.ADD),
            ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_LABEL),
            ClusterEvent("PersistentVolumeClaim", Action.ADD | Action.UPDATE, _own_claim),
            ClusterEvent("PersistentVolume", Action.ADD | Action.UPDATE),
        )

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> SchedulingStatus | None:
        """Collect the zones of the bound volumes; skip pods without any."""
        if not pod.claim_names:
            return SKIP
        lister = self.handle.lister
        zones = _Zones()
        for name in pod.claim_names:
            claim = lister.get(PersistentVolumeClaim, name, namespace=pod.namespace)
            if claim is None:
                return claim_not_found(name)
            spec = claim.spec
            volume_name = (spec.volume_name if spec else None) or ""
            if not volume_name:
                class_name = (spec.storage_class_name if spec else None) or ""
                if not class_name:
                    return SchedulingStatus.unresolvable(
                        "PersistentVolumeClaim had no pv name and storageClass name"
                    )
                storage_class = lister.get(StorageClass, class_name)
                if storage_class is None:
                    return SchedulingStatus.unresolvable(
                        f'storageclass.storage.k8s.io "{class_name}" not found'
                    )
                if storage_class.volume_binding_mode == "WaitForFirstConsumer":
                    continue
                return SchedulingStatus.unresolvable("PersistentVolume had no name")
            volume = lister.get(PersistentVolume, volume_name)
            if volume is None:
                return SchedulingStatus.unresolvable(f'persistentvolume "{volume_name}" not found')
            for key in _TOPOLOGY_LABELS:
                value = (volume.metadata.labels or {}).get(key)
                if value is not None:
                    zones.append((key, frozenset(value.split("__"))))
        if not zones:
            return SKIP
        state.write(_Zones, zones)
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> SchedulingStatus | None:
        """Compare zones; a node without topology labels is accepted."""
        labels = node.labels
        if not any(key in labels for key in _TOPOLOGY_LABELS):
            return None
        for key, values in state.read(_Zones):
            value = labels.get(key, labels.get(_BETA_LABELS.get(key, key)))
            if value not in values:
                return SchedulingStatus.unresolvable("node(s) had no available volume zone")
        return None


class NodeVolumeLimits(Plugin):
    """Rejects nodes on which a CSI driver has reached its maximum number of volumes (CSINode)."""

    kinds = (CSINode, PersistentVolumeClaim, PersistentVolume)

    def events(self) -> Iterable[ClusterEvent]:
        """Pods with claims are deleted, or CSINodes change."""
        return (
            ClusterEvent("CSINode", Action.ADD | Action.UPDATE),
            ClusterEvent("Pod", Action.DELETE, self._after_pod_deletion),
            ClusterEvent("PersistentVolumeClaim", Action.ADD | Action.UPDATE, _own_claim),
        )

    def _after_pod_deletion(self, pod: PodInfo, old: Pod | None, new: Pod | None) -> Hint:
        return Hint.SKIP if old is not None and not claim_names(old) else Hint.QUEUE

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> SchedulingStatus | None:
        """Skip pods without claims."""
        return None if pod.claim_names else SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> SchedulingStatus | None:
        """Count the volumes per driver, including those of the pod."""
        csi_node = self.handle.lister.get(CSINode, node.name)
        drivers = (csi_node.spec.drivers if csi_node and csi_node.spec else None) or ()
        limits = {
            each.name: each.allocatable.count
            for each in drivers
            if each.allocatable is not None and each.allocatable.count is not None
        }
        if not limits:
            return None
        used = {key for key in node.claim_counts if self._driver(key) in limits}
        wanted = {f"{pod.namespace}/{name}" for name in pod.claim_names} - used
        counts: dict[str, int] = {}
        for key in (*used, *wanted):
            driver = self._driver(key)
            if driver in limits:
                counts[driver] = counts.get(driver, 0) + 1
        new_drivers = {self._driver(key) for key in wanted}
        if any(counts[name] > limits[name] for name in counts if name in new_drivers):
            return SchedulingStatus.unschedulable("node(s) exceed max volume count")
        return None

    def _driver(self, key: str) -> str:
        """Return the CSI driver of the volume of a claim; empty if it is not known."""
        namespace, _, name = key.partition("/")
        claim = self.handle.lister.get(PersistentVolumeClaim, name, namespace=namespace)
        volume_name = claim.spec.volume_name if claim and claim.spec else None
        volume = self.handle.lister.get(PersistentVolume, volume_name) if volume_name else None
        csi = volume.spec.csi if volume and volume.spec else None
        return (csi.driver if csi else None) or ""
