"""The controller of StatefulSets.

Permissions: get, list, watch and patch of StatefulSets and their status; list, watch, create, patch and
delete of Pods, PersistentVolumeClaims (without delete) and ControllerRevisions; create and patch of Events.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from kubewright.api.apps.v1 import ControllerRevision, StatefulSet, StatefulSetStatus
from kubewright.api.core.v1 import Pod
from kubewright.api.errors import AlreadyExists, APIError
from kubewright.api.selectors.label_selectors import selector_of
from kubewright.client.patches import merge_patch
from kubewright.controller import ControllerBuilder, Request, Result
from kubewright.workloads.component_manager import ComponentManager
from kubewright.workloads.controller_refs import ControllerRefs
from kubewright.workloads.owned_objects import PodOwnerHandler
from kubewright.workloads.pod_control import slow_start
from kubewright.workloads.pods import PodSummary, next_availability
from kubewright.workloads.revisions import RevisionHistory, template_of

from .claims import ClaimControl
from .replicas import (
    Replica,
    has_max_unavailable,
    identity_labels,
    is_parallel,
    max_unavailable,
    new_pod,
    ordinal_of,
    ordinal_range,
    partition_of,
    replica_count,
    spec_of,
    start_ordinal,
)

WORKERS = 5


def add_stateful_set_controller(manager: ComponentManager) -> None:
    """Add the controller of StatefulSets."""
    builder: ControllerBuilder[Request] = ControllerBuilder(manager, "statefulset-controller")
    handler = PodOwnerHandler(manager, StatefulSet, relevant=_relevant)
    builder.for_(StatefulSet).watches(Pod, handler=handler)
    builder.with_options(workers=WORKERS).complete(StatefulSetController(manager).reconcile)


def _relevant(pod: PodSummary) -> object:
    return pod.status.phase, pod.is_terminating, pod.is_ready, pod.ready_since, pod.metadata.labels


@dataclass(slots=True)
class _Sync:
    """The state of one reconcile."""

    set: StatefulSet
    current: ControllerRevision
    update: ControllerRevision
    replicas: list[Replica]
    surplus: list[Replica]
    """Pods above the desired number, the highest ordinal first."""
    now: datetime
    deleted_for_update: int = 0

    @property
    def min_ready(self) -> int:
        return spec_of(self.set).min_ready_seconds or 0

    @property
    def first_unavailable(self) -> Replica | None:
        pods = [*self.replicas, *reversed(self.surplus)]
        return next((each for each in pods if each.is_unavailable(self.min_ready, self.now)), None)


class StatefulSetController:
    """Reconciles StatefulSets."""

    def __init__(self, manager: ComponentManager) -> None:
        self.manager = manager
        self.client = manager.client
        self.recorder = manager.recorder
        self.claims = ClaimControl(manager)

    async def reconcile(self, stateful_set: StatefulSet) -> Result | None:
        """Create, replace or delete pods in the order of their ordinals, then update the status."""
        if stateful_set.spec is None:
            return None
        spec = stateful_set.spec
        selector = selector_of(spec.selector)
        history = RevisionHistory(self.manager, stateful_set, selector)
        revisions = await history.load()
        found = await self.manager.pods.owned_by(
            stateful_set.metadata.uid or "", stateful_set.namespace, orphans=True
        )
        refs = ControllerRefs(self.client, stateful_set, Pod, selector)
        pods = await refs.claim(found, accepts=lambda pod: ordinal_of(pod.name, stateful_set) is not None)
        old = stateful_set.status or StatefulSetStatus()
        assert spec.template is not None
        update, collisions = await history.sync(revisions, spec.template, old.collision_count or 0)
        current = next((each for each in revisions if each.name == old.current_revision), update)
        sync = _Sync(stateful_set, current, update, *_replicas(stateful_set, pods), self.manager.now())
        failure: Exception | None = None
        if stateful_set.metadata.deletion_timestamp is None:
            try:
                await self._sync(sync)
            except Exception as error:
                failure = error
        await self._update_status(sync, collisions)
        in_use = [current.name, update.name, *(each.revision for each in (*sync.replicas, *sync.surplus))]
        await history.truncate(revisions, in_use, spec.revision_history_limit)
        if failure is not None:
            raise failure
        delay = next_availability(pods, sync.min_ready, sync.now)
        return Result(requeue_after=delay) if delay is not None else None

    async def _sync(self, sync: _Sync) -> None:
        ordered = not is_parallel(sync.set)
        if await _for_each(sync.replicas, lambda each: self._sync_replica(sync, each, ordered), ordered):
            return
        for each in sync.surplus:
            if each.pod is not None and spec_of(sync.set).volume_claim_templates:
                await self.claims.set_owners(sync.set, each.ordinal, each.pod)
        if await _for_each(sync.surplus, lambda each: self._delete_surplus(sync, each, ordered), ordered):
            return
        strategy = spec_of(sync.set).update_strategy
        if strategy is None or strategy.type != "OnDelete":
            await self._roll(sync)

    async def _sync_replica(self, sync: _Sync, replica: Replica, ordered: bool) -> bool:
        """Create or correct a pod; return whether the following pods have to wait."""
        pod = replica.pod
        if pod is not None and pod.is_finished:
            if not pod.is_terminating:
                await self._delete(sync.set, pod)
            return True
        has_claims = bool(spec_of(sync.set).volume_claim_templates)
        if pod is None:
            if has_claims and await self.claims.has_stale_owner(sync.set, replica.ordinal):
                return True
            await self._create(sync, replica.ordinal)
            return ordered
        if has_claims and pod.status.phase == "Pending":
            await self.claims.create_missing(sync.set, replica.ordinal)
        if ordered and (
            replica.is_terminating
            or not replica.is_ready
            or not replica.is_available(sync.min_ready, sync.now)
        ):
            return True
        if has_claims:
            await self.claims.set_owners(sync.set, replica.ordinal, pod)
        labels = identity_labels(sync.set, replica.ordinal)
        if any(pod.labels.get(key) != value for key, value in labels.items()):
            patch = merge_patch({"metadata": {"labels": labels}})
            await self.client.patch(Pod, pod.name, patch, namespace=pod.namespace)
            self._record(sync.set, pod.name, "Update")
        return False

    async def _delete_surplus(self, sync: _Sync, replica: Replica, ordered: bool) -> bool:
        assert replica.pod is not None
        if replica.is_terminating:
            return ordered
        available = replica.is_ready and replica.is_available(sync.min_ready, sync.now)
        if ordered and not available and replica is not sync.first_unavailable:
            return True
        await self._delete(sync.set, replica.pod)
        return True

    async def _roll(self, sync: _Sync) -> None:
        """Delete pods of other revisions from the highest ordinal on, so that they are created again."""
        budget = 1
        if has_max_unavailable(sync.set):
            unavailable = sum(each.is_unavailable(sync.min_ready, sync.now) for each in sync.replicas)
            budget = max_unavailable(sync.set) - unavailable
        for replica in reversed(sync.replicas[partition_of(sync.set) :]):
            if budget <= 0 or replica.pod is None:
                return
            if not replica.is_terminating and replica.revision != sync.update.name:
                await self._delete(sync.set, replica.pod)
                sync.deleted_for_update += replica.revision == sync.current.name
                budget -= 1
            elif not has_max_unavailable(sync.set) and replica.is_unavailable(sync.min_ready, sync.now):
                return

    # Pods

    async def _create(self, sync: _Sync, ordinal: int) -> None:
        stateful_set = sync.set
        revision = sync.current if _keeps_current(sync, ordinal) else sync.update
        template = spec_of(stateful_set).template if revision is sync.update else template_of(revision)
        assert template is not None
        pod = new_pod(stateful_set, template, revision.name, ordinal)
        name = f"{stateful_set.name}-{ordinal}"
        try:
            await self.claims.create_missing(stateful_set, ordinal)
            created = await self.client.create(pod)
        except AlreadyExists:
            raise
        except Exception as error:
            self._record(stateful_set, name, "Create", error)
            raise
        if spec_of(stateful_set).volume_claim_templates:
            summary = await self.manager.pods.get(created["metadata"]["name"], stateful_set.namespace)
            if summary is not None:
                await self.claims.set_owners(stateful_set, ordinal, summary)
        self._record(stateful_set, name, "Create")

    async def _delete(self, stateful_set: StatefulSet, pod: PodSummary) -> None:
        try:
            await self.client.delete(Pod, pod.name, namespace=pod.namespace, missing_ok=True)
        except APIError as error:
            self._record(stateful_set, pod.name, "Delete", error)
            raise
        self._record(stateful_set, pod.name, "Delete")

    def _record(self, stateful_set: StatefulSet, pod: str, verb: str, error: Exception | None = None) -> None:
        subject = f"{verb} Pod {pod} in StatefulSet {stateful_set.name}"
        if error is None:
            self.recorder.event(stateful_set, "Normal", f"Successful{verb}", f"{subject} successful")
        else:
            message = f"{subject} failed error: {error}"
            self.recorder.event(stateful_set, "Warning", f"Failed{verb}", message)

    # Status

    async def _update_status(self, sync: _Sync, collisions: int) -> None:
        stateful_set = sync.set
        existing = [each for each in (*sync.replicas, *sync.surplus) if each.pod is not None]
        alive = [each for each in existing if not each.is_terminating]
        ready = [each for each in existing if each.is_ready]
        current = sum(each.revision == sync.current.name for each in alive) - sync.deleted_for_update
        updated = sum(each.revision == sync.update.name for each in alive)
        status = StatefulSetStatus(
            observed_generation=stateful_set.metadata.generation,
            replicas=len(existing),
            ready_replicas=len(ready) or None,
            available_replicas=sum(each.is_available(sync.min_ready, sync.now) for each in ready),
            current_replicas=current or None,
            updated_replicas=updated or None,
            current_revision=sync.current.name,
            update_revision=sync.update.name,
            collision_count=collisions,
        )
        strategy = spec_of(stateful_set).update_strategy
        desired = replica_count(stateful_set)
        if (strategy is None or strategy.type != "OnDelete") and updated == len(ready) == len(
            existing
        ) == desired:
            status.current_replicas = status.updated_replicas
            status.current_revision = status.update_revision
        old = stateful_set.status
        status.conditions = old.conditions if old is not None else None
        if status != old:
            stateful_set.status = status
            await self.client.patch(stateful_set, subresource="status")


def _replicas(stateful_set: StatefulSet, pods: list[PodSummary]) -> tuple[list[Replica], list[Replica]]:
    """Return the desired replicas in order, and the surplus ones in reverse order."""
    wanted = ordinal_range(stateful_set)
    replicas = {ordinal: Replica(ordinal) for ordinal in wanted}
    surplus = []
    for pod in pods:
        ordinal = ordinal_of(pod.name, stateful_set)
        if ordinal is None:
            continue
        if ordinal in replicas:
            replicas[ordinal].pod = pod
        else:
            surplus.append(Replica(ordinal, pod))
    surplus.sort(key=lambda each: each.ordinal, reverse=True)
    return list(replicas.values()), surplus


def _keeps_current(sync: _Sync, ordinal: int) -> bool:
    """Whether a pod that is created now has the current revision, not the updated one."""
    strategy = spec_of(sync.set).update_strategy
    start = start_ordinal(sync.set)
    if strategy is not None and strategy.rolling_update is not None:
        return ordinal < start + partition_of(sync.set)
    if strategy is not None and strategy.type == "OnDelete":
        return False
    status = sync.set.status or StatefulSetStatus()
    return ordinal < start + (status.current_replicas or 0)


async def _for_each(
    replicas: Sequence[Replica], call: Callable[[Replica], Awaitable[bool]], ordered: bool
) -> bool:
    """Call a function for each replica, until one returns true or, if not ordered, all at a time."""
    if ordered:
        for each in replicas:
            if await call(each):
                return True
        return False
    await slow_start(len(replicas), lambda number: call(replicas[number]))
    return False
