"""ResourceClaims of pods, for dynamic resource allocation (`resourceclaim-controller`).

Creates a claim from a template for each pod that requests one, and writes its name to the status of the pod.
Reservations of pods that have finished or do not exist are removed; a claim without reservations is
deallocated, and a claim that was created for a pod is deleted when the pod has finished.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api.core.v1 import Pod, PodResourceClaim, PodResourceClaimStatus, PodStatus
from kubewright.api.errors import APIError
from kubewright.api.finalizers import remove_finalizer
from kubewright.api.meta import ObjectMeta
from kubewright.api.owners import controller_of, is_controlled_by, owner_reference
from kubewright.api.resources.v1 import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate
from kubewright.cache import ObjectChange, by_owner
from kubewright.client.patches import has_changes
from kubewright.controller import ControllerBuilder, Request
from kubewright.workloads.component_manager import ComponentManager

POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
DELETE_PROTECTION = "resource.kubernetes.io/delete-protection"
MAX_RESERVATIONS = 256
_MAX_BASE_LENGTH = 57


def add_resource_claim_controller(manager: ComponentManager) -> None:
    """Add the controllers of claims from templates and of reservations."""
    manager.cache.add_index(ResourceClaim, by_owner())
    claims = PodClaims(manager)

    def pods_with_claims(change: ObjectChange) -> Iterable[Request]:
        if change.new is not None and b'"resourceClaims":' in change.new.raw:
            yield Request(*change.key)

    async def pods_of_template(template: ResourceClaimTemplate) -> Iterable[Request]:
        return [
            Request.of(pod)
            for pod in await manager.client.list(Pod, namespace=template.namespace)
            if any(each.resource_claim_template_name == template.name for each in _requests(pod))
        ]

    def pod_of_claim(claim: ResourceClaim) -> Iterable[Request]:
        owner = controller_of(claim)
        if owner is not None and owner.kind == "Pod":
            yield Request(claim.namespace, owner.name)

    def claims_of_pod(change: ObjectChange) -> Iterable[Request]:
        found: dict[str, None] = {}
        for entry in (change.old, change.new):
            if entry is not None and b'"resourceClaims":' in entry.raw:
                pod = entry.decode(Pod)
                names = [claim_name(pod, each) for each in _requests(pod)]
                found.update(dict.fromkeys(filter(None, names)))
        return [Request(change.key.namespace, name) for name in found]

    (
        ControllerBuilder[Request](manager, "resourceclaim-controller")
        .watches(Pod, handler=pods_with_claims)
        .watches(ResourceClaimTemplate, pods_of_template)
        .watches(ResourceClaim, pod_of_claim)
        .complete(claims.reconcile_pod)
    )
    (
        ControllerBuilder[Request](manager, "resourceclaim-controller-reservations")
        .for_(ResourceClaim)
        .watches(Pod, handler=claims_of_pod)
        .complete(claims.reconcile_claim)
    )


def _requests(pod: Pod) -> list[PodResourceClaim]:
    return (pod.spec.resource_claims if pod.spec is not None else None) or []


def claim_name(pod: Pod, request: PodResourceClaim) -> str:
    """Return the name of the claim of a pod; empty if it has not been created."""
    if request.resource_claim_name:
        return request.resource_claim_name
    statuses = (pod.status.resource_claim_statuses if pod.status is not None else None) or []
    return next((each.resource_claim_name or "" for each in statuses if each.name == request.name), "")


class PodClaims:
    """Reconciles pods with claims, and claims with reservations."""

    def __init__(self, manager: ComponentManager) -> None:
        self._manager = manager
        self._client = manager.client

    async def reconcile_pod(self, request: Request) -> None:
        """Create the claims of a pod, and reserve allocated ones for a pod that is assigned to a node."""
        pod = await self._client.get_or_none(Pod, request.name, namespace=request.namespace)
        if pod is None or pod.metadata.deletion_timestamp is not None or _is_done(pod):
            return
        created: dict[str, str] = {}
        for each in _requests(pod):
            try:
                name = await self._ensure(pod, each)
            except (APIError, LookupError) as error:
                text = f"PodResourceClaim {each.name}: {error}"
                self._manager.recorder.event(pod, "Warning", "FailedResourceClaimCreation", text)
                raise
            if name:
                created[each.name or ""] = name
        if created:
            pod.status = pod.status or PodStatus()
            statuses = {each.name: each for each in pod.status.resource_claim_statuses or ()}
            for key, name in created.items():
                statuses[key] = PodResourceClaimStatus(name=key, resource_claim_name=name)
            pod.status.resource_claim_statuses = list(statuses.values())
            if has_changes(pod, part="status"):
                await self._client.update_status(pod)
        if pod.spec is not None and pod.spec.node_name:
            await self._reserve(pod)

    async def _ensure(self, pod: Pod, request: PodResourceClaim) -> str:
        """Return the name of the claim from a template, created if it does not exist; empty without one."""
        if not request.resource_claim_template_name:
            return ""
        uid = pod.metadata.uid or ""
        for claim in await self._manager.cache.list(ResourceClaim, namespace=pod.namespace, owner=uid):
            annotations = claim.metadata.annotations or {}
            if annotations.get(POD_CLAIM_NAME) == request.name and is_controlled_by(claim, pod):
                return claim.name
        template = await self._client.get_or_none(
            ResourceClaimTemplate, request.resource_claim_template_name, namespace=pod.namespace
        )
        if template is None or template.spec is None:
            name = request.resource_claim_template_name
            raise LookupError(
                f'resource claim template "{name}": resourceclaimtemplate.resource.k8s.io "{name}" not found'
            )
        metadata = template.spec.metadata or ObjectMeta()
        created = await self._client.create(
            ResourceClaim(
                metadata=ObjectMeta(
                    generate_name=_generate_name(pod.name, request.name or ""),
                    namespace=pod.namespace,
                    labels=metadata.labels,
                    annotations={**(metadata.annotations or {}), POD_CLAIM_NAME: request.name or ""},
                    owner_references=[owner_reference(pod, controller=True)],
                ),
                spec=template.spec.spec,
            )
        )
        return created.name

    async def _reserve(self, pod: Pod) -> None:
        for each in _requests(pod):
            name = claim_name(pod, each)
            claim = (
                await self._client.get_or_none(ResourceClaim, name, namespace=pod.namespace) if name else None
            )
            if claim is None or claim.status is None or claim.status.allocation is None:
                continue
            reserved = claim.status.reserved_for or []
            if len(reserved) >= MAX_RESERVATIONS or any(
                consumer.uid == pod.metadata.uid for consumer in reserved
            ):
                continue
            consumer = ResourceClaimConsumerReference(resource="pods", name=pod.name, uid=pod.metadata.uid)
            claim.status.reserved_for = [*reserved, consumer]
            await self._client.update_status(claim)

    async def reconcile_claim(self, claim: ResourceClaim) -> None:
        """Remove the reservations of pods that do not run, then deallocate and delete unused claims."""
        status = claim.status
        reserved = (status.reserved_for if status is not None else None) or []
        kept = [each for each in reserved if await self._is_needed(claim.namespace, each)]
        is_released = len(kept) < len(reserved)
        if status is not None and is_released:
            status.reserved_for = kept or None
            if not kept:
                status.allocation = None
            await self._client.update_status(claim)
        deleting = claim.metadata.deletion_timestamp is not None
        if deleting and not kept and status is not None and status.allocation is not None:
            status.allocation = None
            await self._client.update_status(claim)
        if not kept and (claim.status is None or claim.status.allocation is None):
            # The scheduler adds the finalizer before it writes the allocation.
            if (is_released or deleting) and remove_finalizer(claim, DELETE_PROTECTION):
                await self._client.update(claim)
            await self._delete_unused(claim)

    async def _is_needed(self, namespace: str, consumer: ResourceClaimConsumerReference) -> bool:
        if consumer.api_group or consumer.resource != "pods":
            return True
        pod = await self._client.get_or_none(Pod, consumer.name or "", namespace=namespace)
        return pod is not None and pod.metadata.uid == consumer.uid and not _is_done(pod)

    async def _delete_unused(self, claim: ResourceClaim) -> None:
        """Delete a claim that was created for a pod which has finished."""
        owner = controller_of(claim)
        if owner is None or owner.kind != "Pod" or claim.metadata.deletion_timestamp is not None:
            return
        pod = await self._client.get_or_none(Pod, owner.name, namespace=claim.namespace)
        if pod is not None and pod.metadata.uid == owner.uid and _is_done(pod):
            await self._client.delete(claim, missing_ok=True)


def _is_done(pod: Pod) -> bool:
    """Whether a pod has finished, or was deleted before it was assigned to a node."""
    if pod.status is not None and pod.status.phase in ("Succeeded", "Failed"):
        return True
    return pod.metadata.deletion_timestamp is not None and not (pod.spec is not None and pod.spec.node_name)


def _generate_name(pod: str, request: str) -> str:
    name = f"{pod}-{request}-"
    if len(name) <= _MAX_BASE_LENGTH:
        return name
    part = _MAX_BASE_LENGTH / len(name)
    return f"{pod[: int(len(pod) * part)]}-{request[: int(len(request) * part)]}"
