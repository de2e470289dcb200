"""Counting of finished pods, exactly once each.

Pods have a finalizer until they are counted. First their uids are written to
`status.uncountedTerminatedPods`, then their finalizers are removed, then the uids are removed from the status
and the counters increased. A crash at any point neither loses a pod nor counts it twice. Of indexed Jobs,
succeeded pods are counted by their index.
"""

from __future__ import annotations

import asyncio

from kubewright.api.conditions import is_condition_true
from kubewright.api.core.v1 import Pod
from kubewright.client.patches import has_changes
from kubewright.workloads.component_manager import ComponentManager

from .ownership import remove_tracking_finalizer
from .pod_states import completion_index, format_indexes, is_failed, is_tracked, phase_of
from .policies import match_failure_policy
from .progress import Progress, new_condition, set_job_condition

MAX_UNCOUNTED_PODS = 500
"""Limit of the uids in the status, and of the finalizers that one reconcile removes."""


async def track_finished_pods(manager: ComponentManager, progress: Progress) -> bool:
    """Count finished pods, write the status, and end the Job if it is finished; return whether it is."""
    job, status, client = progress.job, progress.status, manager.client
    tracked = {pod.metadata.uid or "" for pod in progress.pods if is_tracked(pod)}
    _move_to_counters(progress, tracked)
    removable, reached_limit = _collect(progress)
    if progress.is_indexed:
        status.succeeded = len(progress.succeeded_indexes)
        status.completed_indexes = format_indexes(progress.succeeded_indexes) or None
        failed = progress.failed_indexes
        status.failed_indexes = None if failed is None else format_indexes(failed)
    _set_interim_condition(progress)
    if has_changes(job, part="status"):
        await client.update_status(job)
    await asyncio.gather(*(remove_tracking_finalizer(client, pod) for pod in removable))
    _move_to_counters(progress, tracked - {pod.metadata.uid or "" for pod in removable})
    finished = not reached_limit and _finish(progress)
    if has_changes(job, part="status"):
        await client.update_status(job)
    if finished:
        _record_finished(manager, progress)
    return finished


def _move_to_counters(progress: Progress, tracked: set[str]) -> None:
    """Count the pods in the uncounted lists that no longer have the finalizer."""
    status, uncounted = progress.status, progress.uncounted
    succeeded = [uid for uid in uncounted.succeeded or () if uid in tracked]
    failed = [uid for uid in uncounted.failed or () if uid in tracked]
    if done := len(uncounted.succeeded or ()) - len(succeeded):
        status.succeeded = (status.succeeded or 0) + done
        uncounted.succeeded = succeeded or None
    if done := len(uncounted.failed or ()) - len(failed):
        status.failed = (status.failed or 0) + done
        uncounted.failed = failed or None


def _collect(progress: Progress) -> tuple[list[Pod], bool]:
    """Add finished pods to the status; return those whose finalizer can be removed.

    The second value is whether the limit was reached, so that there may be more.
    """
    uncounted = progress.uncounted
    succeeded, failed = list(uncounted.succeeded or ()), list(uncounted.failed or ())
    removable: list[Pod] = []
    new_indexes = 0
    pods = progress.pods
    if progress.is_indexed:
        pods = sorted(pods, key=lambda pod: -1 if (index := completion_index(pod)) is None else index)
    for pod in pods:
        if not is_tracked(pod) or not _can_release(progress, pod):
            continue
        removable.append(pod)
        uid = pod.metadata.uid or ""
        if phase_of(pod) == "Succeeded" and uid not in failed:
            if progress.is_indexed:
                index = progress.valid_index(pod)
                new_indexes += index is not None and index not in progress.counted_indexes
            elif uid not in succeeded:
                succeeded.append(uid)
        elif (
            (is_failed(pod, progress.job) or _ends_with_failure(progress))
            and uid not in failed
            and not (progress.is_indexed and progress.valid_index(pod) is None)
            and match_failure_policy(progress.job, pod).counts
        ):
            failed.append(uid)
        if new_indexes + len(succeeded) + len(failed) >= MAX_UNCOUNTED_PODS:
            break
    uncounted.succeeded, uncounted.failed = succeeded or None, failed or None
    return removable, new_indexes + len(succeeded) + len(failed) >= MAX_UNCOUNTED_PODS


def _ends_with_failure(progress: Progress) -> bool:
    """Whether pods that still run count as failed because the Job has failed."""
    return progress.finished is not None and progress.finished.type != "SuccessCriteriaMet"


def _can_release(progress: Progress, pod: Pod) -> bool:
    if (
        progress.job.metadata.deletion_timestamp is not None
        or progress.finished is not None
        or phase_of(pod) == "Succeeded"
    ):
        return True
    if not is_failed(pod, progress.job):
        return False
    index = completion_index(pod)
    kept = progress.delayed.get(index) if index is not None else None
    return kept is None or kept.metadata.uid != pod.metadata.uid


def _set_interim_condition(progress: Progress) -> None:
    """Write why the Job ends before pods are released; the final condition follows when all are counted."""
    finished, status = progress.finished, progress.status
    if finished is None or finished.type not in ("FailureTarget", "SuccessCriteriaMet"):
        return
    if not is_condition_true(status, finished.type):
        status.conditions = [*(status.conditions or ()), finished]
    final = "Failed" if finished.type == "FailureTarget" else "Complete"
    progress.finished = new_condition(
        final, "True", finished.reason or "", finished.message or "", progress.now
    )


def _finish(progress: Progress) -> bool:
    """Set the final condition unless pods are uncounted or terminating; return whether it is set."""
    finished, status = progress.finished, progress.status
    uncounted = progress.uncounted
    if finished is None or uncounted.succeeded or uncounted.failed or progress.terminating:
        return False
    set_job_condition(status, finished)
    if finished.type == "Complete":
        status.completion_time = finished.last_transition_time
    return True


def _record_finished(manager: ComponentManager, progress: Progress) -> None:
    job, finished, record = progress.job, progress.finished, manager.recorder.event
    assert finished is not None
    if finished.type != "Complete":
        record(job, "Warning", finished.reason or "", finished.message or "")
        return
    if progress.spec.completions is not None and (progress.status.succeeded or 0) > progress.spec.completions:
        text = "Too many succeeded pods running after completion count reached"
        record(job, "Warning", "TooManySucceededPods", text)
    record(job, "Normal", "Completed", "Job completed")
