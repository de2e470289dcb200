"""Deletion of finished Jobs after `spec.ttlSecondsAfterFinished` (`ttl-after-finished-controller`)."""

from __future__ import annotations

from datetime import timedelta

from kubewright.api.batch.v1 import Job
from kubewright.api.conditions import get_condition
from kubewright.api.meta import Preconditions
from kubewright.controller import ControllerBuilder, Request, Result
from kubewright.workloads.component_manager import ComponentManager


def add_ttl_after_finished_controller(manager: ComponentManager) -> None:
    """Add the controller that deletes finished Jobs."""

    def remaining(job: Job) -> float | None:
        """Return the seconds until a Job is deleted; `None` if it is not."""
        ttl = job.spec.ttl_seconds_after_finished if job.spec is not None else None
        if ttl is None or job.metadata.deletion_timestamp is not None:
            return None
        for type_ in ("Complete", "Failed"):
            condition = get_condition(job.status, type_)
            if condition is not None and condition.status == "True" and condition.last_transition_time:
                expires = condition.last_transition_time + timedelta(seconds=ttl)
                return (expires - manager.now()).total_seconds()
        return None

    async def reconcile(job: Job) -> Result | None:
        left = remaining(job)
        if left is None:
            return None
        if left > 0:
            return Result(requeue_after=left)
        # The TTL may have been changed since the object was cached.
        current = await manager.client.uncached.get_or_none(Job, job.name, namespace=job.namespace)
        left = remaining(current) if current is not None else None
        if current is None or left is None:
            return None
        if left > 0:
            return Result(requeue_after=left)
        await manager.client.delete(
            current,
            propagation="Foreground",
            preconditions=Preconditions(uid=current.metadata.uid),
            missing_ok=True,
        )
        return None

    ControllerBuilder[Request](manager, "ttl-after-finished-controller").for_(Job).complete(reconcile)
