"""ReplicaSet and ReplicationController: keep a number of pods running.

Permissions: get, list, watch and patch of ReplicaSets (or ReplicationControllers) and their status; list,
watch, create, patch and delete of Pods; create and patch of Events.
"""

from __future__ import annotations

import asyncio
from typing import Any, Generic, TypeVar

from kubewright.api.apps.v1 import ReplicaSet, ReplicaSetCondition, ReplicaSetStatus
from kubewright.api.conditions import get_condition, remove_condition
from kubewright.api.core.v1 import (
    Pod,
    PodTemplateSpec,
    ReplicationController,
    ReplicationControllerCondition,
    ReplicationControllerStatus,
)
from kubewright.api.meta import LabelSelector
from kubewright.api.owners import controller_of
from kubewright.api.selectors.label_selectors import Selector, selector_from_labels, selector_of
from kubewright.controller import ControllerBuilder, Request, Result
from kubewright.workloads.component_manager import ComponentManager
from kubewright.workloads.controller_refs import ControllerRefs
from kubewright.workloads.deletion_order import pods_to_delete
from kubewright.workloads.owned_objects import PodOwnerHandler
from kubewright.workloads.pod_control import (
    MAX_BATCH,
    PodControl,
    is_namespace_terminating,
    pod_from_template,
    slow_start,
)
from kubewright.workloads.pods import PodSummary, next_availability

SetT = TypeVar("SetT", bound=ReplicaSet | ReplicationController)
WORKERS = 5
REPLICA_FAILURE = "ReplicaFailure"


def add_replica_set_controller(manager: ComponentManager) -> None:
    """Add the controller of ReplicaSets."""
    _ReplicaController(manager, ReplicaSet).add("replicaset-controller")


def add_replication_controller_controller(manager: ComponentManager) -> None:
    """Add the controller of ReplicationControllers."""
    _ReplicaController(manager, ReplicationController).add("replicationcontroller-controller")


def _relevant(pod: PodSummary) -> object:
    """Return the fields of a pod that affect the status or the number of replicas."""
    return (
        pod.is_active,
        pod.is_terminating,
        pod.is_finished,
        pod.is_ready,
        pod.ready_since,
        pod.metadata.labels,
    )


class _ReplicaController(Generic[SetT]):
    """Reconciles one of the two kinds."""

    def __init__(self, manager: ComponentManager, kind: type[SetT]) -> None:
        self.manager = manager
        self.kind = kind
        self.control = PodControl(manager)

    def add(self, name: str) -> None:
        """Add the controller to the manager."""
        builder: ControllerBuilder[Request] = ControllerBuilder(self.manager, name)
        handler = PodOwnerHandler(self.manager, self.kind, relevant=_relevant)
        builder.for_(self.kind).watches(Pod, handler=handler)
        builder.with_options(workers=WORKERS).complete(self.reconcile)

    async def reconcile(self, request: Request) -> Result | None:
        """Create or delete pods, then update the status."""
        found: Any = await self.manager.client.get_or_none(
            self.kind, request.name, namespace=request.namespace
        )
        if found is None or found.spec is None:
            return None
        replica_set: SetT = found
        selector = _selector_of(replica_set)
        uid = replica_set.metadata.uid or ""
        pods = await self.manager.pods.owned_by(uid, request.namespace, orphans=True)
        refs = ControllerRefs(self.manager.client, replica_set, Pod, selector)
        active = await refs.claim([pod for pod in pods if pod.is_active])
        terminating = [pod for pod in pods if _is_terminating(pod, uid, selector)]
        failure: Exception | None = None
        if replica_set.metadata.deletion_timestamp is None:
            try:
                active = await self._manage(replica_set, active)
            except Exception as error:
                failure = error
        now = self.manager.now()
        spec: Any = replica_set.spec
        min_ready = spec.min_ready_seconds or 0
        await self._update_status(replica_set, active, len(terminating), failure)
        if failure is not None:
            raise failure
        delay = next_availability(active, min_ready, now)
        return Result(requeue_after=delay) if delay is not None else None

    async def _manage(self, replica_set: SetT, active: list[PodSummary]) -> list[PodSummary]:
        """Create missing pods or delete surplus ones; return the pods that the status counts.

        As kube-controller-manager does, pods that are created or deleted now are counted by the reconcile
        that their events cause.
        """
        spec: Any = replica_set.spec
        difference = len(active) - (1 if spec.replicas is None else spec.replicas)
        if difference < 0:
            await self._create(replica_set, min(-difference, MAX_BATCH))
        elif difference > 0:
            await self._delete(replica_set, active, min(difference, MAX_BATCH))
        return active

    async def _create(self, replica_set: SetT, count: int) -> None:
        spec: Any = replica_set.spec
        pod = pod_from_template(spec.template or PodTemplateSpec(), replica_set)

        async def create(number: int) -> None:
            await self.control.create(pod, replica_set)

        try:
            await slow_start(count, create)
        except Exception as error:
            if not is_namespace_terminating(error):
                raise

    async def _delete(self, replica_set: SetT, active: list[PodSummary], count: int) -> None:
        related = await self._related_pods(replica_set)
        chosen = pods_to_delete(active, related, count, self.manager.now())
        results = await asyncio.gather(
            *(self.control.delete(pod, replica_set) for pod in chosen), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _related_pods(self, replica_set: SetT) -> list[PodSummary]:
        """Return the pods of all ReplicaSets with the same owner."""
        owner = controller_of(replica_set)
        pods = self.manager.pods
        if owner is None or self.kind is not ReplicaSet:
            return await pods.owned_by(replica_set.metadata.uid or "", replica_set.namespace)
        siblings = await self._siblings(replica_set, owner.uid)
        return [
            pod
            for sibling in siblings
            for pod in await pods.owned_by(sibling.metadata.uid or "", replica_set.namespace)
        ]

    async def _siblings(self, replica_set: SetT, owner: str) -> list[ReplicaSet]:
        return await self.manager.cache.list(ReplicaSet, namespace=replica_set.namespace, owner=owner)

    async def _update_status(
        self, replica_set: SetT, active: list[PodSummary], terminating: int, failure: Exception | None
    ) -> None:
        spec: Any = replica_set.spec
        is_replica_set = isinstance(replica_set, ReplicaSet)
        old: Any = replica_set.status
        status: Any = (ReplicaSetStatus if is_replica_set else ReplicationControllerStatus)()
        template = spec.template.metadata.labels if spec.template and spec.template.metadata else None
        labelled = selector_from_labels(template)
        now = self.manager.now()
        min_ready = spec.min_ready_seconds or 0
        ready = [pod for pod in active if pod.is_ready]
        status.replicas = len(active)
        status.fully_labeled_replicas = sum(labelled.matches(pod.labels) for pod in active) or None
        status.ready_replicas = len(ready) or None
        status.available_replicas = sum(pod.is_available(min_ready, now) for pod in ready) or None
        status.observed_generation = replica_set.metadata.generation
        if is_replica_set:
            status.terminating_replicas = terminating
        status.conditions = list(old.conditions or ()) if old is not None else []
        existing = get_condition(status.conditions, REPLICA_FAILURE)
        if failure is not None and existing is None:
            difference = len(active) - (1 if spec.replicas is None else spec.replicas)
            reason = "FailedCreate" if difference < 0 else "FailedDelete" if difference > 0 else None
            condition = ReplicaSetCondition if is_replica_set else ReplicationControllerCondition
            status.conditions.append(
                condition(
                    type=REPLICA_FAILURE,
                    status="True",
                    reason=reason,
                    message=str(failure),
                    last_transition_time=now.replace(microsecond=0),
                )
            )
        elif failure is None and existing is not None:
            remove_condition(status.conditions, REPLICA_FAILURE)
        status.conditions = status.conditions or None
        if status != old:
            replica_set.status = status
            await self.manager.client.patch(replica_set, subresource="status")


def _selector_of(replica_set: ReplicaSet | ReplicationController) -> Selector:
    selector: LabelSelector | dict[str, str] | None = replica_set.spec.selector if replica_set.spec else None
    return selector_of(selector) if isinstance(selector, LabelSelector) else selector_from_labels(selector)


def _is_terminating(pod: PodSummary, owner: str, selector: Selector) -> bool:
    controller = pod.controller
    return (
        pod.is_terminating
        and not pod.is_finished
        and controller is not None
        and controller.uid == owner
        and selector.matches(pod.labels)
    )
