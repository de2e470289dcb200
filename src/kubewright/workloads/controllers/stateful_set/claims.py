"""Volume claims of a StatefulSet and their retention policy.

The policy is expressed by owner references, on which the garbage collector acts: a claim that is to be
deleted with the StatefulSet is owned by it, a claim that is to be deleted when its pod is scaled down is
owned by the pod that is going to be deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.api.apps.v1 import StatefulSet
from kubewright.api.core.v1 import PersistentVolumeClaim
from kubewright.api.errors import AlreadyExists, APIError
from kubewright.api.meta import OwnerReference
from kubewright.api.owners import owner_reference
from kubewright.workloads.pods import PodSummary

from .replicas import claim_name, ordinal_range, spec_of

if TYPE_CHECKING:
    from kubewright.workloads.component_manager import ComponentManager


class ClaimError(Exception):
    """A claim cannot be used now; the request is retried."""


class ClaimControl:
    """Creates claims and sets their owners."""

    def __init__(self, manager: ComponentManager) -> None:
        self._client = manager.client
        self._recorder = manager.recorder

    async def create_missing(self, stateful_set: StatefulSet, ordinal: int) -> None:
        """Create the claims of a pod that do not exist."""
        for template in spec_of(stateful_set).volume_claim_templates or ():
            name = claim_name(template.metadata.name or "", stateful_set, ordinal)
            found = await self._get(stateful_set, name)
            if found is None:
                await self._create(stateful_set, template, name, ordinal)
            elif found.metadata.deletion_timestamp is not None:
                raise ClaimError(f"pvc {name} is being deleted")

    async def _create(
        self, stateful_set: StatefulSet, template: PersistentVolumeClaim, name: str, ordinal: int
    ) -> None:
        claim = template.copy()
        claim.metadata.name = name
        claim.metadata.namespace = stateful_set.namespace
        selector = spec_of(stateful_set).selector
        labels = (selector.match_labels if selector is not None else None) or {}
        claim.metadata.labels = {**(claim.metadata.labels or {}), **labels} or None
        claim.status = None
        pod = f"{stateful_set.name}-{ordinal}"
        try:
            await self._client.create(claim)
        except AlreadyExists:
            return
        except APIError as error:
            message = (
                f"Create Claim {name} for Pod {pod} in StatefulSet {stateful_set.name} failed error: {error}"
            )
            self._recorder.event(stateful_set, "Warning", "FailedCreate", message)
            raise ClaimError(f"failed to create PVC {name}: {error}") from error
        message = f"Create Claim {name} Pod {pod} in StatefulSet {stateful_set.name} success"
        self._recorder.event(stateful_set, "Normal", "SuccessfulCreate", message)

    async def has_stale_owner(self, stateful_set: StatefulSet, ordinal: int) -> bool:
        """Whether a claim still belongs to a deleted pod with the same name, and will be deleted with it."""
        if _policy(stateful_set)[0] == "Retain":
            return False
        pod = f"{stateful_set.name}-{ordinal}"
        for claim in await self._claims(stateful_set, ordinal):
            for reference in claim.metadata.owner_references or ():
                if reference.kind == "Pod" and reference.name == pod:
                    return True
        return False

    async def set_owners(self, stateful_set: StatefulSet, ordinal: int, pod: PodSummary) -> None:
        """Set the owners of the claims of a pod as the retention policy requires."""
        for claim in await self._claims(stateful_set, ordinal):
            references = list(claim.metadata.owner_references or ())
            if any(_is_stale(each, stateful_set, pod) for each in references):
                continue
            ours = (stateful_set.metadata.uid, pod.metadata.uid)
            others = [each for each in references if each.uid not in ours]
            wanted = _owners(stateful_set, ordinal, pod)
            if any(each.controller for each in others) and wanted:
                message = (
                    f"PersistentVolumeClaim {claim.name} has a conflicting OwnerReference that acts as a "
                    "manging controller, the retention policy is ignored for this claim"
                )
                self._recorder.event(stateful_set, "Warning", "ConflictingController", message)
                wanted = []
            if [*others, *wanted] != references:
                claim.metadata.owner_references = [*others, *wanted] or None
                await self._client.update(claim)

    async def _claims(self, stateful_set: StatefulSet, ordinal: int) -> list[PersistentVolumeClaim]:
        names = [
            claim_name(each.metadata.name or "", stateful_set, ordinal)
            for each in spec_of(stateful_set).volume_claim_templates or ()
        ]
        found = [await self._get(stateful_set, name) for name in names]
        return [each for each in found if each is not None]

    async def _get(self, stateful_set: StatefulSet, name: str) -> PersistentVolumeClaim | None:
        return await self._client.get_or_none(PersistentVolumeClaim, name, namespace=stateful_set.namespace)


def _policy(stateful_set: StatefulSet) -> tuple[str, str]:
    """Return what happens to claims when pods are scaled down and when the StatefulSet is deleted."""
    policy = spec_of(stateful_set).persistent_volume_claim_retention_policy
    if policy is None:
        return "Retain", "Retain"
    return policy.when_scaled or "Retain", policy.when_deleted or "Retain"


def _owners(stateful_set: StatefulSet, ordinal: int, pod: PodSummary) -> list[OwnerReference]:
    when_scaled, when_deleted = _policy(stateful_set)
    is_surplus = ordinal not in ordinal_range(stateful_set)
    owners = []
    if when_deleted == "Delete" and (when_scaled == "Retain" or not is_surplus):
        owners.append(owner_reference(stateful_set, controller=True, block_owner_deletion=True))
    if when_scaled == "Delete" and is_surplus:
        owners.append(
            OwnerReference(
                api_version="v1",
                kind="Pod",
                name=pod.name,
                uid=pod.metadata.uid,
                controller=True,
                block_owner_deletion=True,
            )
        )
    return owners


def _is_stale(reference: OwnerReference, stateful_set: StatefulSet, pod: PodSummary) -> bool:
    """Whether the owner is a deleted object with the name of the StatefulSet or of the pod."""
    if reference.kind == "StatefulSet" and reference.name == stateful_set.name:
        return reference.uid != stateful_set.metadata.uid
    return reference.kind == "Pod" and reference.name == pod.name and reference.uid != pod.metadata.uid
