"""What happened to the requests of one FlowSchema in a priority level, for the metrics of flow control.

Most requests occupy one seat and do not wait. They change two numbers, `dispatched` and `executing`; only
others are observed one by one. The histograms of all requests are computed from both when they are read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kubewright.histogram import Histogram

SEATS: Final = (1, 2, 4, 8, 16, 32, 64, 100)
SECONDS: Final = (0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)
LENGTHS: Final = (0, 10, 25, 50, 100, 250, 500, 1000)


@dataclass(slots=True, eq=False)
class FlowSchemaStatistics:
    """Numbers of the requests of one FlowSchema. Those that wait now are arguments, where they count."""

    dispatched: int = 0
    executing: int = 0
    """Requests that are processed, without those that are finished and still occupy final seats."""
    additional_seats: int = 0
    """Occupied seats in addition to one of each request that is processed."""
    rejected: dict[str, int] = field(default_factory=dict)
    """Rejected requests, by reason."""
    abandoned: int = 0
    """Requests whose client disconnected while they waited."""
    dequeued: int = 0
    """Dispatched requests that had waited."""
    not_accommodated: int = 0
    """Attempts to dispatch a request for which too few seats were free."""
    _wide: Histogram = field(default_factory=lambda: Histogram(SEATS))
    _waits: dict[bool, Histogram] = field(
        default_factory=lambda: {True: Histogram(SECONDS), False: Histogram(SECONDS)}
    )
    _queue_lengths: Histogram = field(default_factory=lambda: Histogram(LENGTHS))

    @property
    def occupied(self) -> int:
        """The number of occupied seats."""
        return self.executing + self.additional_seats

    def reject(self, reason: str) -> None:
        """Count a rejected request."""
        self.rejected[reason] = self.rejected.get(reason, 0) + 1

    def observe_width(self, seats: int) -> None:
        """Note the seats of a request, before it is dispatched, queued or rejected; one seat is not noted."""
        if seats > 1:
            self._wide.observe(seats)

    def observe_queue(self, length: int) -> None:
        """Note the length of a queue after a request was added."""
        self._queue_lengths.observe(length)

    def observe_wait(self, seconds: float, *, dispatched: bool) -> None:
        """Note how long a request was in a queue."""
        self._waits[dispatched].observe(seconds)
        if dispatched:
            self.dequeued += 1

    def estimated_seats(self, waiting: int) -> Histogram:
        """Return the seats of all requests."""
        total = self.dispatched + sum(self.rejected.values()) + self.abandoned + waiting
        return self._wide.plus(1, total - self._wide.count)

    def waits(self, *, dispatched: bool) -> Histogram:
        """Return the seconds that requests waited; most dispatched requests, and a full queue, took none."""
        observed = self._waits[dispatched]
        total = self.dispatched if dispatched else sum(self.rejected.values()) + self.abandoned
        return observed.plus(0, total - observed.count)

    def queue_lengths(self) -> Histogram:
        """Return the lengths of queues after a request was added; a request that did not wait was alone."""
        return self._queue_lengths.plus(1, self.dispatched - self.dequeued)
