"""One reconcile of a Job: evaluate how it ends, create or delete pods, count finished ones."""

from __future__ import annotations

from kubewright.api.batch.v1 import Job, JobCondition, JobStatus
from kubewright.api.conditions import get_condition, is_condition_true
from kubewright.api.core.v1 import Pod
from kubewright.controller import ControllerBuilder, Request, Result
from kubewright.workloads.component_manager import ComponentManager
from kubewright.workloads.write_intervals import WriteIntervals

from .ownership import claim_pods, job_of_pod, release_tracked_pods
from .pod_creation import create_pods, delete_pods, new_pod
from .pod_states import (
    completion_index,
    deletion_order,
    finished_at,
    is_failed,
    is_terminating,
    phase_of,
    replaces_only_failed_pods,
    restarts,
)
from .policies import match_failure_policy, match_success_policy
from .progress import (
    BackoffStore,
    Progress,
    failures_of,
    is_finished,
    new_condition,
    remaining_delay,
    set_job_condition,
)
from .tracking import track_finished_pods

CONTROLLER_NAME = "kubernetes.io/job-controller"
MAX_PODS_PER_RECONCILE = 500
BATCH_SECONDS = 0.3
"""Minimum seconds between reconciles of a Job whose pods change continuously."""


class JobReconciler:
    """Reconciles Jobs."""

    def __init__(self, manager: ComponentManager) -> None:
        self._manager = manager
        self._backoffs = BackoffStore()
        self._intervals = WriteIntervals(BATCH_SECONDS)

    async def reconcile(self, request: Request) -> Result | None:
        """Bring one Job closer to its end."""
        manager = self._manager
        job = await manager.client.get_or_none(Job, request.name, namespace=request.namespace)
        if job is None or is_finished(job):
            self._backoffs.remove(request)
            if job is None or not _is_managed_elsewhere(job):
                await release_tracked_pods(manager, request, job)
            return None
        if _is_managed_elsewhere(job) or job.spec is None:
            return None
        if job.spec.completion_mode not in (None, "NonIndexed", "Indexed"):
            text = "Skipped Job sync because completion mode is unknown"
            manager.recorder.event(job, "Warning", "UnknownCompletionMode", text)
            return None
        wait = self._intervals.remaining(request)
        if wait > 0:
            return Result(requeue_after=wait)
        version = job.metadata.resource_version
        delay = await self._sync(job, request)
        if job.metadata.resource_version != version:
            self._intervals.record(request)
        return Result(requeue_after=delay) if delay > 0 else None

    async def _sync(self, job: Job, request: Request) -> float:
        """Reconcile a Job that has not finished; return the seconds until the next reconcile, 0 for none."""
        manager, now = self._manager, self._manager.now().replace(microsecond=0)
        if job.status is None:
            job.status = JobStatus()
        progress = Progress(job, await claim_pods(manager, job), now)
        progress.count(self._backoffs.get(request, job.metadata.uid))
        status = progress.status
        if status.start_time is None and not progress.is_suspended:
            status.start_time = now
        delay = self._evaluate(progress)
        error: Exception | None = None
        try:
            if progress.finished is not None:
                deleted, ready = await delete_pods(manager, job, progress.active_pods, release=False)
                progress.active -= deleted
                progress.terminating += deleted
                progress.ready -= ready
            else:
                delay = _sooner(delay, await self._manage(progress))
        except Exception as failure:
            # Finished pods are counted even if others cannot be created.
            error, progress.finished = failure, None
        status.active = progress.active or None
        status.ready = progress.ready
        status.terminating = progress.terminating
        finished = await track_finished_pods(manager, progress)
        self._backoffs.put(request, job.metadata.uid, progress.backoff)
        if error is not None:
            raise error
        return 0.0 if finished else delay

    # End of a Job

    def _evaluate(self, progress: Progress) -> float:
        """Find the condition that ends the Job; return the seconds until its deadline, 0 for none."""
        job, spec, now = progress.job, progress.spec, progress.now
        delay = 0.0
        target = get_condition(progress.status, "FailureTarget")
        if is_condition_true(progress.status, "SuccessCriteriaMet"):
            progress.finished = get_condition(progress.status, "SuccessCriteriaMet")
        elif target is not None and target.status == "True":
            progress.finished = new_condition(
                "Failed", "True", target.reason or "", target.message or "", now
            )
        elif message := _failure_of_policy(job, progress.pods):
            progress.finished = new_condition("FailureTarget", "True", "PodFailurePolicy", message, now)
        elif progress.failed > (spec.backoff_limit or 0) or _exceeds_restarts(progress):
            text = "Job has reached the specified backoff limit"
            progress.finished = _failure(progress, "BackoffLimitExceeded", text)
        elif spec.active_deadline_seconds is not None and not progress.is_suspended:
            assert progress.status.start_time is not None
            elapsed = (self._manager.now() - progress.status.start_time).total_seconds()
            if elapsed >= spec.active_deadline_seconds:
                text = "Job was active longer than specified deadline"
                progress.finished = _failure(progress, "DeadlineExceeded", text)
            else:
                delay = spec.active_deadline_seconds - elapsed
        if progress.is_indexed:
            progress.find_indexes()
            _evaluate_indexes(progress)
        return delay

    # Pods

    async def _manage(self, progress: Progress) -> float:
        """Create and delete pods, and find whether the Job is complete; return the delay of the backoff."""
        delay = 0.0
        deleting = progress.job.metadata.deletion_timestamp is not None
        if not deleting:
            delay = await self._adjust_pods(progress)
        completions = progress.spec.completions
        reached = progress.succeeded > 0 if completions is None else progress.succeeded >= completions
        if reached and progress.active == 0:
            text = "Reached expected number of succeeded pods"
            progress.finished = new_condition(
                "SuccessCriteriaMet", "True", "CompletionsReached", text, progress.now
            )
        elif not deleting:
            self._set_suspended(progress)
        return delay

    def _set_suspended(self, progress: Progress) -> None:
        job, status, now, record = progress.job, progress.status, progress.now, self._manager.recorder.event
        if progress.is_suspended:
            if set_job_condition(
                status, new_condition("Suspended", "True", "JobSuspended", "Job suspended", now)
            ):
                record(job, "Normal", "Suspended", "Job suspended")
                status.start_time = None
        elif set_job_condition(status, new_condition("Suspended", "False", "JobResumed", "Job resumed", now)):
            record(job, "Normal", "Resumed", "Job resumed")
            status.start_time = now

    async def _adjust_pods(self, progress: Progress) -> float:
        job, spec = progress.job, progress.spec
        if progress.is_suspended:
            await self._delete(progress, progress.active_pods)
            return 0.0
        parallelism = spec.parallelism or 0
        if spec.completions is None:
            wanted = progress.active if progress.succeeded > 0 else parallelism
        else:
            wanted = max(min(spec.completions - progress.succeeded, parallelism), 0)
        surplus = _surplus_pods(progress, max(progress.active - wanted, 0))
        if surplus:
            await self._delete(progress, surplus[:MAX_PODS_PER_RECONCILE])
            return 0.0
        missing = wanted - progress.active
        if replaces_only_failed_pods(job):
            missing -= progress.terminating
        if missing <= 0:
            return 0.0
        now = self._manager.now()
        if spec.backoff_limit_per_index is None and (delay := progress.backoff.remaining(now)) > 0:
            return delay
        missing = min(missing, MAX_PODS_PER_RECONCILE)
        if not progress.is_indexed:
            pods = [new_pod(job, None) for _ in range(missing)]
        else:
            indexes = _pending_indexes(progress, missing)
            delays = {index: _index_delay(progress, index, self._manager) for index in indexes}
            indexes = [index for index in indexes if delays[index] <= 0]
            if not indexes:
                return min(delays.values(), default=0.0)
            pods = [new_pod(job, index, progress.delayed.get(index)) for index in indexes]
        before = progress.active
        progress.active += len(pods)
        try:
            created = await create_pods(self._manager, job, pods)
        except Exception:
            progress.active = before
            raise
        progress.active = before + created
        return 0.0

    async def _delete(self, progress: Progress, pods: list[Pod]) -> None:
        deleted, ready = await delete_pods(self._manager, progress.job, pods, release=True)
        progress.active -= deleted
        progress.terminating += deleted
        progress.ready -= ready


def _is_managed_elsewhere(job: Job) -> bool:
    manager = job.spec.managed_by if job.spec is not None else None
    return manager is not None and manager != CONTROLLER_NAME


def _sooner(one: float, other: float) -> float:
    """Return the shorter of two delays; 0 means none."""
    return min(each for each in (one, other) if each > 0) if one > 0 or other > 0 else 0.0


def _failure(progress: Progress, reason: str, message: str) -> JobCondition:
    return new_condition("FailureTarget", "True", reason, message, progress.now)


def _failure_of_policy(job: Job, pods: list[Pod]) -> str:
    for pod in pods:
        if is_failed(pod, job) and (message := match_failure_policy(job, pod).job_failure):
            return message
    return ""


def _exceeds_restarts(progress: Progress) -> bool:
    """Whether containers that are restarted in place have failed too often."""
    template = progress.spec.template
    if template is None or template.spec is None or template.spec.restart_policy != "OnFailure":
        return False
    total = sum(restarts(pod) for pod in progress.pods if phase_of(pod) in ("Running", "Pending"))
    limit = progress.spec.backoff_limit or 0
    return total > 0 if limit == 0 else total >= limit


def _evaluate_indexes(progress: Progress) -> None:
    spec, failed = progress.spec, progress.failed_indexes
    if progress.finished is None and failed is not None:
        if spec.max_failed_indexes is not None and len(failed) > spec.max_failed_indexes:
            text = "Job has exceeded the specified maximal number of failed indexes"
            progress.finished = _failure(progress, "MaxFailedIndexesExceeded", text)
        elif failed and len(failed) + len(progress.succeeded_indexes) >= progress.completions:
            progress.finished = _failure(progress, "FailedIndexes", "Job has failed indexes")
    if progress.finished is None and (
        message := match_success_policy(progress.job, progress.succeeded_indexes)
    ):
        progress.finished = new_condition(
            "SuccessCriteriaMet", "True", "SuccessPolicy", message, progress.now
        )


def _surplus_pods(progress: Progress, at_least: int) -> list[Pod]:
    """Return the active pods to delete: too many, or with a missing, invalid or repeated index."""
    surplus: list[Pod] = []
    kept = sorted(progress.active_pods, key=deletion_order)
    if progress.is_indexed:
        by_index: dict[int, Pod] = {}
        for pod in kept:
            index = progress.valid_index(pod)
            if index is None:
                surplus.append(pod)
            else:
                if index in by_index:
                    surplus.append(by_index[index])
                by_index[index] = pod
        kept = [pod for pod in kept if pod not in surplus]
    return [*surplus, *kept[: max(at_least - len(surplus), 0)]]


def _pending_indexes(progress: Progress, count: int) -> list[int]:
    taken = {completion_index(pod) for pod in progress.active_pods}
    if replaces_only_failed_pods(progress.job):
        taken |= {completion_index(pod) for pod in progress.pods if is_terminating(pod)}
    used = progress.succeeded_indexes | (progress.failed_indexes or set())
    found: list[int] = []
    for index in range(progress.completions):
        if len(found) == count:
            break
        if index not in used and index not in taken:
            found.append(index)
    return found


def _index_delay(progress: Progress, index: int, manager: ComponentManager) -> float:
    pod = progress.delayed.get(index)
    if pod is None:
        return 0.0
    return remaining_delay(failures_of(pod) + 1, finished_at(pod), manager.now())


def add_job_controller(manager: ComponentManager) -> None:
    """Add the controller of Jobs."""
    (
        ControllerBuilder[Request](manager, "job-controller")
        .for_(Job)
        .watches(Pod, handler=job_of_pod)
        .with_options(workers=5)
        .complete(JobReconciler(manager))
    )
