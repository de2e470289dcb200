"""What a reconcile of a Job has found: pods by state, counts, indexes and the condition that ends the Job.

A failed pod is replaced after an exponential delay: 10 s, doubled with each failure, at most 10 minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from kubewright.api.batch.v1 import Job, JobCondition, JobSpec, JobStatus, UncountedTerminatedPods
from kubewright.api.conditions import get_condition, is_condition_true
from kubewright.api.core.v1 import Pod
from kubewright.controller import Request

from .pod_states import (
    completion_index,
    finished_at,
    ignored_failure_count,
    index_failure_count,
    is_active,
    is_failed,
    is_ready,
    is_terminating,
    is_tracked,
    parse_indexes,
    phase_of,
)
from .policies import match_failure_policy

INITIAL_SECONDS = 10.0
MAX_SECONDS = 600.0


class Backoff(NamedTuple):
    """Failures since the last success, and the time of the last one."""

    failures: int = 0
    last_failure: datetime | None = None

    def after(self, succeeded: list[Pod], failed: list[Pod]) -> Backoff:
        """Return the state after these pods have finished."""
        times = sorted(finished_at(pod) for pod in failed)
        if not succeeded:
            return Backoff(self.failures + len(times), times[-1]) if times else self
        last_success = max(finished_at(pod) for pod in succeeded)
        later = [moment for moment in times if moment > last_success]
        return Backoff(len(later), later[-1] if later else None)

    def remaining(self, now: datetime) -> float:
        """Return the seconds until the next pod is created."""
        return remaining_delay(self.failures, self.last_failure, now)


def remaining_delay(failures: int, last_failure: datetime | None, now: datetime) -> float:
    """Return the seconds until a pod may be created after this many failures."""
    if failures == 0 or last_failure is None:
        return 0.0
    delay = min(INITIAL_SECONDS * 2.0 ** min(failures - 1, 30), MAX_SECONDS)
    return max(delay - (now - last_failure).total_seconds(), 0.0)


class BackoffStore:
    """Backoff of each unfinished Job."""

    def __init__(self) -> None:
        self._records: dict[Request, tuple[str | None, Backoff]] = {}

    def get(self, job: Request, uid: str | None) -> Backoff:
        """Return the backoff of a Job."""
        known, backoff = self._records.get(job, (None, Backoff()))
        return backoff if known == uid else Backoff()

    def put(self, job: Request, uid: str | None, backoff: Backoff) -> None:
        """Record the backoff of a Job."""
        self._records[job] = (uid, backoff)

    def remove(self, job: Request) -> None:
        """Drop the backoff of a finished or deleted Job."""
        self._records.pop(job, None)


def new_condition(type_: str, status: str, reason: str, message: str, now: datetime) -> JobCondition:
    """Return a condition of a Job."""
    return JobCondition(
        type=type_,
        status=status,
        reason=reason,
        message=message,
        last_probe_time=now,
        last_transition_time=now,
    )


def set_job_condition(status: JobStatus, wanted: JobCondition) -> bool:
    """Add or replace a condition; return whether it changed. A condition that never was true is not added."""
    existing = get_condition(status, wanted.type or "")
    if existing is None:
        if wanted.status != "False":
            status.conditions = [*(status.conditions or ()), wanted]
            return True
        return False
    if (existing.status, existing.reason, existing.message) == (wanted.status, wanted.reason, wanted.message):
        return False
    status.conditions = [wanted if each is existing else each for each in status.conditions or ()]
    return True


def is_finished(job: Job) -> bool:
    """Whether a Job is complete or has failed."""
    return is_condition_true(job.status, "Complete") or is_condition_true(job.status, "Failed")


@dataclass(slots=True)
class Progress:
    """The state of one reconcile of a Job."""

    job: Job
    pods: list[Pod]
    now: datetime
    active_pods: list[Pod] = field(init=False)
    active: int = field(init=False)
    ready: int = field(init=False)
    terminating: int = field(init=False)
    succeeded: int = field(init=False)
    failed: int = field(init=False)
    counted_indexes: set[int] = field(default_factory=set)
    """Completed indexes of the status."""
    succeeded_indexes: set[int] = field(default_factory=set)
    failed_indexes: set[int] | None = None
    delayed: dict[int, Pod] = field(default_factory=dict)
    """Failed pods, by index, that are kept until their replacement has their failure count."""
    finished: JobCondition | None = None
    """The condition that ends the Job."""
    backoff: Backoff = field(default_factory=Backoff)

    def __post_init__(self) -> None:
        self.active_pods = [pod for pod in self.pods if is_active(pod)]
        self.active = len(self.active_pods)
        self.ready = sum(map(is_ready, self.active_pods))
        self.terminating = sum(map(is_terminating, self.pods))

    @property
    def spec(self) -> JobSpec:
        """The spec of the Job."""
        assert self.job.spec is not None
        return self.job.spec

    @property
    def status(self) -> JobStatus:
        """The status of the Job."""
        assert self.job.status is not None
        return self.job.status

    @property
    def uncounted(self) -> UncountedTerminatedPods:
        """Finished pods that still have their finalizer."""
        status = self.status
        if status.uncounted_terminated_pods is None:
            status.uncounted_terminated_pods = UncountedTerminatedPods()
        return status.uncounted_terminated_pods

    @property
    def is_indexed(self) -> bool:
        """Whether pods have completion indexes."""
        return self.spec.completion_mode == "Indexed"

    @property
    def is_suspended(self) -> bool:
        """Whether the Job is suspended."""
        return bool(self.spec.suspend)

    @property
    def completions(self) -> int:
        """The number of completions, 0 if it is not set."""
        return self.spec.completions or 0

    def valid_index(self, pod: Pod) -> int | None:
        """Return the completion index of a pod if it is less than the number of completions."""
        index = completion_index(pod)
        return index if index is not None and index < self.completions else None

    def count(self, backoff: Backoff) -> None:
        """Count finished pods, including those that are not in the counters of the status yet."""
        uncounted = self.uncounted
        counted_before = {*(uncounted.succeeded or ()), *(uncounted.failed or ())}
        succeeded = self._new_pods(counted_before, lambda pod: phase_of(pod) == "Succeeded")
        failed = self._new_pods(counted_before, lambda pod: is_failed(pod, self.job))
        relevant = [pod for pod in failed if match_failure_policy(self.job, pod).counts]
        self.succeeded = (self.status.succeeded or 0) + len(succeeded) + len(uncounted.succeeded or ())
        self.failed = (self.status.failed or 0) + len(relevant) + len(uncounted.failed or ())
        self.backoff = backoff.after(succeeded, failed)

    def _new_pods(self, counted: set[str], test: Callable[[Pod], bool]) -> list[Pod]:
        return [
            pod
            for pod in self.pods
            if is_tracked(pod)
            and (pod.metadata.uid or "") not in counted
            and not (self.is_indexed and self.valid_index(pod) is None)
            and test(pod)
        ]

    def find_indexes(self) -> None:
        """Find succeeded and failed indexes."""
        self.counted_indexes = parse_indexes(self.status.completed_indexes, self.completions)
        new = {
            index
            for pod in self.pods
            if is_tracked(pod)
            and phase_of(pod) == "Succeeded"
            and (index := self.valid_index(pod)) is not None
        }
        self.succeeded_indexes = self.counted_indexes | new
        self.succeeded = len(self.succeeded_indexes)
        if self.spec.backoff_limit_per_index is None:
            return
        failed = parse_indexes(self.status.failed_indexes, self.completions)
        for pod in self.pods:
            index = self.valid_index(pod)
            if index is not None and is_tracked(pod) and self._fails_index(pod):
                failed.add(index)
        self.failed_indexes = failed
        self._find_delayed()

    def _fails_index(self, pod: Pod) -> bool:
        if not is_failed(pod, self.job):
            return False
        match = match_failure_policy(self.job, pod)
        if match.action == "FailIndex":
            return True
        return match.counts and index_failure_count(pod) >= (self.spec.backoff_limit_per_index or 0)

    def _find_delayed(self) -> None:
        replaced = {completion_index(pod) for pod in self.active_pods}
        for pod in self.pods:
            index = self.valid_index(pod)
            if index is None or not is_tracked(pod) or not is_failed(pod, self.job):
                continue
            if index in self.succeeded_indexes or index in (self.failed_indexes or ()) or index in replaced:
                continue
            other = self.delayed.get(index)
            if other is None or (failures_of(other), finished_at(other)) <= (
                failures_of(pod),
                finished_at(pod),
            ):
                self.delayed[index] = pod


def failures_of(pod: Pod) -> int:
    """Return the number of failures of an index before this pod."""
    return index_failure_count(pod) + ignored_failure_count(pod)
