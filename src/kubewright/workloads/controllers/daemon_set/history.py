"""ControllerRevisions of a DaemonSet; their hash is that of the pod template."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kubewright.api.apps.v1 import ControllerRevision, DaemonSet, DaemonSetStatus
from kubewright.api.selectors.label_selectors import Selector
from kubewright.client.patches import merge_patch
from kubewright.controller import TemporaryError
from kubewright.workloads.revisions import POD_REVISION_LABEL, RevisionHistory, encode_data, template_patch
from kubewright.workloads.template_hash import template_hash

from .placement import spec_of, template_of

if TYPE_CHECKING:
    from kubewright.workloads.component_manager import ComponentManager
    from kubewright.workloads.pods import PodSummary


class Revisions(NamedTuple):
    """The revision of the current template, and the others, the oldest first."""

    current: ControllerRevision
    old: list[ControllerRevision]

    @property
    def digest(self) -> str:
        """Value of the label `controller-revision-hash` of updated pods."""
        return (self.current.metadata.labels or {}).get(POD_REVISION_LABEL, "")


class DaemonSetHistory:
    """The revisions of one DaemonSet."""

    def __init__(self, manager: ComponentManager, daemon_set: DaemonSet, selector: Selector) -> None:
        self._client = manager.client
        self._daemon_set = daemon_set
        self._history = RevisionHistory(manager, daemon_set, selector)

    async def sync(self) -> Revisions:
        """Return the revisions; the one of the current template is created or renumbered if needed."""
        found = await self._history.load()
        encoded = encode_data(template_patch(template_of(self._daemon_set)))
        matching = [each for each in found if encode_data(each.data) == encoded]
        old = [each for each in found if each not in matching]
        number = max((each.revision or 0 for each in old), default=0) + 1
        if not matching:
            return Revisions(await self._create(number), old)
        current = matching[-1]
        for duplicate in matching[:-1]:
            await self._history.delete(duplicate)
        if (current.revision or 0) < number:
            current.revision = number
            await self._client.update(current)
        return Revisions(current, old)

    async def _create(self, number: int) -> ControllerRevision:
        daemon_set = self._daemon_set
        template, status = template_of(daemon_set), daemon_set.status or DaemonSetStatus()
        digest = template_hash(template, status.collision_count)
        created = await self._history.create(template, number, POD_REVISION_LABEL, digest)
        if created is None:
            change = {"status": {"collisionCount": (status.collision_count or 0) + 1}}
            await self._client.patch(daemon_set, merge_patch(change), subresource="status")
            name = f"{daemon_set.name}-{digest}"
            raise TemporaryError(f"hash collision with controller revision {name}", delay=0.005)
        return created

    async def truncate(self, revisions: Revisions, pods: list[PodSummary]) -> None:
        """Delete the oldest revisions above the limit that no pod has."""
        limit = spec_of(self._daemon_set).revision_history_limit
        surplus = len(revisions.old) - (10 if limit is None else limit)
        digests = {pod.labels.get(POD_REVISION_LABEL) for pod in pods}
        for each in revisions.old:
            if surplus <= 0:
                return
            if (each.metadata.labels or {}).get(POD_REVISION_LABEL) not in digests:
                await self._history.delete(each)
                surplus -= 1
