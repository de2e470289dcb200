"""Claims of the ephemeral volumes of pods (`ephemeral-volume-controller`).

The claim has the name of the pod and the volume, and is deleted with the pod that owns it.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api.core.v1 import PersistentVolumeClaim, Pod, Volume
from kubewright.api.errors import APIError
from kubewright.api.meta import ObjectMeta
from kubewright.api.owners import controller_of, is_controlled_by, owner_reference
from kubewright.cache import ObjectChange
from kubewright.controller import ControllerBuilder, Request
from kubewright.workloads.component_manager import ComponentManager


def add_ephemeral_volume_controller(manager: ComponentManager) -> None:
    """Add the controller that creates claims for ephemeral volumes."""
    client = manager.client

    def pods_with_volumes(change: ObjectChange) -> Iterable[Request]:
        # Most pods have none, and decoding every version of every pod costs more than this search.
        if change.new is not None and b'"ephemeral":' in change.new.raw:
            yield Request(*change.key)

    def pod_of_claim(claim: PersistentVolumeClaim) -> Iterable[Request]:
        owner = controller_of(claim)
        if owner is not None and owner.kind == "Pod":
            yield Request(claim.namespace, owner.name)

    async def ensure_claim(pod: Pod, volume: Volume) -> None:
        template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
        if template is None:
            return
        name = f"{pod.name}-{volume.name}"
        claim = await client.get_or_none(PersistentVolumeClaim, name, namespace=pod.namespace)
        if claim is not None:
            if not is_controlled_by(claim, pod):
                raise ValueError(
                    f"PVC {pod.namespace}/{name} was not created for pod {pod.namespace}/{pod.name} "
                    "(pod is not owner)"
                )
            return
        metadata = template.metadata or ObjectMeta()
        await client.create(
            PersistentVolumeClaim(
                metadata=ObjectMeta(
                    name=name,
                    namespace=pod.namespace,
                    labels=metadata.labels,
                    annotations=metadata.annotations,
                    owner_references=[owner_reference(pod, controller=True, block_owner_deletion=True)],
                ),
                spec=template.spec,
            )
        )

    async def reconcile(request: Request) -> None:
        pod = await client.get_or_none(Pod, request.name, namespace=request.namespace)
        if pod is None or pod.spec is None or pod.metadata.deletion_timestamp is not None:
            return
        for volume in pod.spec.volumes or ():
            try:
                await ensure_claim(pod, volume)
            except (APIError, ValueError) as error:
                text = f"ephemeral volume {volume.name}: {error}"
                manager.recorder.event(pod, "Warning", "FailedBinding", text)
                raise

    (
        ControllerBuilder[Request](manager, "ephemeral-volume-controller")
        .watches(Pod, handler=pods_with_volumes)
        .watches(PersistentVolumeClaim, pod_of_claim)
        .complete(reconcile)
    )
