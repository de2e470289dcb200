"""Simulated provisioning, deletion and expansion of volumes, and the default storage class."""

from __future__ import annotations

from kubewright.api.core.v1 import (
    HostPathVolumeSource,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
)
from kubewright.api.errors import AlreadyExists
from kubewright.api.meta import ObjectMeta, ObjectReference
from kubewright.api.storage.v1 import CSIDriver, StorageClass
from kubewright.workloads.component_manager import ComponentManager

from .matching import requested_size

PROVISIONER = "sim.kubewright.dev/volumes"
DEFAULT_CLASS = "standard"
IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


async def create_default_class(manager: ComponentManager) -> None:
    """Create the default storage class, unless the cluster has storage classes."""
    if list(await manager.client.uncached.list(StorageClass, limit=1)):
        return
    default = StorageClass(
        metadata=ObjectMeta(name=DEFAULT_CLASS, annotations={IS_DEFAULT: "true"}),
        provisioner=PROVISIONER,
        reclaim_policy="Delete",
        volume_binding_mode="Immediate",
        allow_volume_expansion=True,
    )
    try:
        await manager.client.create(default)
    except AlreadyExists:
        return


async def is_simulated(manager: ComponentManager, provisioner: str) -> bool:
    """Whether volumes of a provisioner are simulated: it has no CSIDriver."""
    if not provisioner or provisioner == NO_PROVISIONER:
        return False
    return await manager.client.get_or_none(CSIDriver, provisioner) is None


async def provision(
    manager: ComponentManager, claim: PersistentVolumeClaim, storage_class: StorageClass
) -> PersistentVolume:
    """Create a volume that is reserved for a claim, and return it."""
    assert claim.spec is not None
    name = f"pvc-{claim.metadata.uid}"
    provisioner = storage_class.provisioner or ""
    node = (claim.metadata.annotations or {}).get(SELECTED_NODE)
    volume = PersistentVolume(
        metadata=ObjectMeta(name=name, annotations={PROVISIONED_BY: provisioner, BOUND_BY_CONTROLLER: "yes"}),
        spec=PersistentVolumeSpec(
            access_modes=claim.spec.access_modes,
            capacity={"storage": requested_size(claim)},
            claim_ref=claim_reference(claim),
            host_path=HostPathVolumeSource(path=f"/var/lib/kubewright/volumes/{name}"),
            mount_options=storage_class.mount_options,
            node_affinity=_affinity(node) if node else None,
            persistent_volume_reclaim_policy=storage_class.reclaim_policy or "Delete",
            storage_class_name=storage_class.name,
            volume_attributes_class_name=claim.spec.volume_attributes_class_name,
            volume_mode=claim.spec.volume_mode,
        ),
    )
    record = manager.recorder.event
    place = f'"{claim.namespace}/{claim.name}"'
    record(claim, "Normal", "Provisioning", f"External provisioner is provisioning volume for claim {place}")
    try:
        volume = await manager.client.create(volume)
    except AlreadyExists:
        return await manager.client.uncached.get(PersistentVolume, name)
    record(claim, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {name}")
    return volume


def claim_reference(claim: PersistentVolumeClaim) -> ObjectReference:
    """Return the reference from a volume to its claim."""
    return ObjectReference(
        api_version="v1",
        kind="PersistentVolumeClaim",
        namespace=claim.namespace,
        name=claim.name,
        uid=claim.metadata.uid,
        resource_version=claim.metadata.resource_version,
    )


def _affinity(node: str) -> VolumeNodeAffinity:
    requirement = NodeSelectorRequirement(key="kubernetes.io/hostname", operator="In", values=[node])
    terms = [NodeSelectorTerm(match_expressions=[requirement])]
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms))
