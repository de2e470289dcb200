"""Exponential delay before a failed pod is replaced: 10 s, doubled with each failure, at most 10 minutes."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from kubewright.api.core.v1 import Pod
from kubewright.controller import Request

from .pod_states import finished_at

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
