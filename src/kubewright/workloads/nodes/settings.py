"""`SimulationSettings`: delays and limits of the simulated kubelet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

CRASH_BACKOFF_SECONDS: Final = 10.0
CRASH_BACKOFF_LIMIT_SECONDS: Final = 300.0
CRASH_BACKOFF_RESET_SECONDS: Final = 600.0
"""A container that ran for this long restarts without back-off again."""
MISSING_IMAGES: Final = (
    "*:404",
    "*nonexistent*",
    "*non-existent*",
    "*.invalid/*",
    "*.invalid:*/*",
    "invalid.*/*",
)
"""Images that do not exist unless declared otherwise, by their names or registries."""


@dataclass(slots=True, kw_only=True)
class SimulationSettings:
    """Settings of all simulated nodes; annotations and rules change them for single pods.

    Delays are in seconds. With `start_delay` 0 a pod gets its running status in one write, without a
    ContainerCreating status before it.
    """

    start_delay: float = 0.05
    """From the scheduling of a pod, or the exit of a container that restarts, to its start."""
    start_jitter: float = 0.0
    """Up to this many seconds are added to `start_delay`, at random."""
    init_duration: float = 0.05
    """How long an init container runs."""
    ready_delay: float = 0.0
    """From the start of a container to its readiness."""
    completion_delay: float = 0.2
    """How long the containers of pods run that are owned by a Job, or have an exit code declared."""
    termination_delay: float = 0.0
    """From the deletion of a pod to the exit of its containers; never longer than the grace period."""
    probe_delays: bool = False
    """Whether `initialDelaySeconds` of probes delay readiness, as with real containers."""
    crash_backoff: float = CRASH_BACKOFF_SECONDS
    crash_backoff_limit: float = CRASH_BACKOFF_LIMIT_SECONDS
    lease_interval: float = 10.0
    """Seconds between renewals of the Lease of a node."""
    status_interval: float = 300.0
    """Seconds between updates of a node status that has not changed."""
    events: Literal["all", "warnings", "none"] = "all"
    event_rate: float = 500.0
    """Events per second of all nodes, with a burst of twice as many; a real kubelet sends 50."""
    complete_jobs: bool = True
    """Whether pods that are owned by a Job complete without being asked to."""
    missing_images: tuple[str, ...] = MISSING_IMAGES
    """Patterns (`*`, `?`) of images that cannot be pulled; all others exist."""
    writers: int = 16
    """How many status writes are sent concurrently."""
