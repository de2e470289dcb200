"""Status and conditions of a Deployment.

Counters come from the ReplicaSets. Available compares the available replicas with the number that must be
available. Progressing records the last progress of a rollout; it becomes false without any for
`progressDeadlineSeconds`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from kubewright.api.apps.v1 import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet
from kubewright.api.conditions import get_condition, remove_condition

from .replica_sets import (
    desired_replicas,
    max_unavailable,
    spec_of,
    status_of,
    total_available,
    total_replicas,
)

AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
REPLICA_FAILURE: Final = "ReplicaFailure"

NEW_REPLICA_SET_CREATED: Final = "NewReplicaSetCreated"
FOUND_NEW_REPLICA_SET: Final = "FoundNewReplicaSet"
REPLICA_SET_UPDATED: Final = "ReplicaSetUpdated"
REPLICA_SET_CREATE_ERROR: Final = "ReplicaSetCreateError"
NEW_REPLICA_SET_AVAILABLE: Final = "NewReplicaSetAvailable"
PROGRESS_DEADLINE_EXCEEDED: Final = "ProgressDeadlineExceeded"
PAUSED: Final = "DeploymentPaused"
RESUMED: Final = "DeploymentResumed"

_NO_LIMIT: Final = (1 << 31) - 1


def has_progress_deadline(deployment: Deployment) -> bool:
    """Whether progress is checked at all."""
    return spec_of(deployment).progress_deadline_seconds not in (None, _NO_LIMIT)


def current_status(deployment: Deployment) -> DeploymentStatus:
    """Return the status, created if missing."""
    if deployment.status is None:
        deployment.status = DeploymentStatus()
    return deployment.status


def set_condition(
    status: DeploymentStatus, now: datetime, type: str, value: str, reason: str | None, message: str | None
) -> None:
    """Add or replace a condition with its fields, see `put_condition`."""
    now = now.replace(microsecond=0)
    condition = DeploymentCondition(
        type=type,
        status=value,
        reason=reason,
        message=message,
        last_update_time=now,
        last_transition_time=now,
    )
    put_condition(status, condition)


def put_condition(status: DeploymentStatus, condition: DeploymentCondition) -> None:
    """Add or replace a condition, unless it has the same status and reason already."""
    conditions = status.conditions or []
    existing = get_condition(conditions, condition.type or "")
    if existing is not None and existing.status == condition.status:
        if existing.reason == condition.reason:
            return
        condition.last_transition_time = existing.last_transition_time
    status.conditions = [each for each in conditions if each.type != condition.type] + [condition]


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Whether all replicas are updated and available, and no others exist."""
    desired = desired_replicas(deployment)
    return (
        (status.updated_replicas or 0) == desired
        and (status.replicas or 0) == desired
        and (status.available_replicas or 0) == desired
        and (status.observed_generation or 0) >= (deployment.metadata.generation or 0)
    )


def new_status(
    deployment: Deployment, replica_sets: list[ReplicaSet], new: ReplicaSet | None, now: datetime
) -> DeploymentStatus:
    """Return the status with counters and the condition Available."""
    old = deployment.status or DeploymentStatus()
    available = total_available(replica_sets)
    status = DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=sum(status_of(each).replicas or 0 for each in replica_sets) or None,
        updated_replicas=(status_of(new).replicas if new is not None else None) or None,
        ready_replicas=sum(status_of(each).ready_replicas or 0 for each in replica_sets) or None,
        available_replicas=available or None,
        unavailable_replicas=max(0, total_replicas(replica_sets) - available) or None,
        terminating_replicas=_terminating(replica_sets),
        collision_count=old.collision_count,
        conditions=[each.copy() for each in old.conditions or ()],
    )
    if available >= desired_replicas(deployment) - max_unavailable(deployment):
        message = "Deployment has minimum availability."
        set_condition(status, now, AVAILABLE, "True", "MinimumReplicasAvailable", message)
    else:
        message = "Deployment does not have minimum availability."
        set_condition(status, now, AVAILABLE, "False", "MinimumReplicasUnavailable", message)
    return status


def _terminating(replica_sets: list[ReplicaSet]) -> int | None:
    total = 0
    for each in replica_sets:
        status = status_of(each)
        if status.terminating_replicas is None and status.observed_generation:
            return None
        total += status.terminating_replicas or 0
    return total


def set_progress(
    deployment: Deployment,
    status: DeploymentStatus,
    replica_sets: list[ReplicaSet],
    new: ReplicaSet | None,
    now: datetime,
) -> None:
    """Set the conditions Progressing and ReplicaFailure of a new status during a rollout."""
    conditions = status.conditions or []
    if not has_progress_deadline(deployment):
        remove_condition(conditions, PROGRESSING)
    old = deployment.status or DeploymentStatus()
    current = get_condition(old.conditions or [], PROGRESSING)
    was_complete = (
        (status.replicas or 0) == (status.updated_replicas or 0)
        and current is not None
        and current.reason == NEW_REPLICA_SET_AVAILABLE
    )
    if has_progress_deadline(deployment) and not was_complete:
        subject = f'ReplicaSet "{new.name}"' if new is not None else f'Deployment "{deployment.name}"'
        if is_complete(deployment, status):
            message = f"{subject} has successfully progressed."
            set_condition(status, now, PROGRESSING, "True", NEW_REPLICA_SET_AVAILABLE, message)
        elif _has_progressed(old, status):
            # With each progress the time of the last update is renewed.
            condition = DeploymentCondition(
                type=PROGRESSING,
                status="True",
                reason=REPLICA_SET_UPDATED,
                message=f"{subject} is progressing.",
                last_update_time=now.replace(microsecond=0),
                last_transition_time=now.replace(microsecond=0),
            )
            if current is not None and current.status == "True":
                condition.last_transition_time = current.last_transition_time
            status.conditions = [each for each in status.conditions or () if each.type != PROGRESSING]
            put_condition(status, condition)
        elif _has_timed_out(deployment, status, now):
            message = f"{subject} has timed out progressing."
            set_condition(status, now, PROGRESSING, "False", PROGRESS_DEADLINE_EXCEEDED, message)
    failure = _replica_failure(replica_sets, new)
    if failure is not None:
        put_condition(status, failure)
    else:
        remove_condition(status.conditions or [], REPLICA_FAILURE)


def _has_progressed(old: DeploymentStatus, new: DeploymentStatus) -> bool:
    old_updated, new_updated = old.updated_replicas or 0, new.updated_replicas or 0
    return (
        new_updated > old_updated
        or (new.replicas or 0) - new_updated < (old.replicas or 0) - old_updated
        or (new.ready_replicas or 0) > (old.ready_replicas or 0)
        or (new.available_replicas or 0) > (old.available_replicas or 0)
    )


def _has_timed_out(deployment: Deployment, status: DeploymentStatus, now: datetime) -> bool:
    condition = get_condition(status.conditions or [], PROGRESSING)
    if condition is None or condition.reason == NEW_REPLICA_SET_AVAILABLE:
        return False
    if condition.reason == PROGRESS_DEADLINE_EXCEEDED:
        return True
    seconds = spec_of(deployment).progress_deadline_seconds or 0
    return condition.last_update_time is not None and (
        condition.last_update_time + timedelta(seconds=seconds) < now
    )


def _replica_failure(replica_sets: list[ReplicaSet], new: ReplicaSet | None) -> DeploymentCondition | None:
    for each in [new, *replica_sets] if new is not None else replica_sets:
        condition = get_condition(status_of(each).conditions or [], REPLICA_FAILURE)
        if condition is not None:
            return DeploymentCondition(
                type=condition.type,
                status=condition.status,
                reason=condition.reason,
                message=condition.message,
                last_update_time=condition.last_transition_time,
                last_transition_time=condition.last_transition_time,
            )
    return None


def seconds_until_deadline(deployment: Deployment, now: datetime) -> float | None:
    """Return the time until progress has to be checked again; `None` if it does not have to be."""
    status = current_status(deployment)
    condition = get_condition(status.conditions or [], PROGRESSING)
    if not has_progress_deadline(deployment) or condition is None or condition.last_update_time is None:
        return None
    if is_complete(deployment, status) or condition.reason == PROGRESS_DEADLINE_EXCEEDED:
        return None
    seconds = spec_of(deployment).progress_deadline_seconds or 0
    # Times are whole seconds: one more, so that the deadline has passed then.
    due = condition.last_update_time + timedelta(seconds=seconds + 1)
    return max(0.1, (due - now).total_seconds())
