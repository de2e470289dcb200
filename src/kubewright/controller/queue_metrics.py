"""What a queue reports, under the names that client-go uses.

`QueueMetrics` is the interface that the queue calls; `PrometheusQueueMetrics` keeps bound children, since
looking up labels costs more than counting.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

_SECONDS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10, 100, 1000)


class QueueMetrics:
    """Counts nothing; the base of those that do."""

    def add(self) -> None:
        """A key was queued that was not queued before."""

    def depth(self, priority: int, change: int) -> None:
        """The number of ready keys of a priority changed."""

    def get(self, waited: float) -> None:
        """A worker took a key that had been ready for so many seconds."""

    def done(self, worked: float) -> None:
        """A worker gave a key back after so many seconds."""

    def retries(self) -> None:
        """A key was queued with a delay."""


NO_METRICS = QueueMetrics()


@lru_cache(maxsize=1)
def _families() -> dict[str, Any]:
    from prometheus_client import Counter, Gauge, Histogram

    labels = ("name", "controller")
    return {
        "depth": Gauge("workqueue_depth", "Ready keys", (*labels, "priority")),
        "adds": Counter("workqueue_adds_total", "Keys queued", labels),
        "waited": Histogram(
            "workqueue_queue_duration_seconds", "Time from ready to taken", labels, buckets=_SECONDS
        ),
        "worked": Histogram(
            "workqueue_work_duration_seconds", "Time from taken to done", labels, buckets=_SECONDS
        ),
        "retries": Counter("workqueue_retries_total", "Keys queued with a delay", labels),
        "unfinished": Gauge("workqueue_unfinished_work_seconds", "Age of all work in progress", labels),
        "longest": Gauge("workqueue_longest_running_processor_seconds", "Age of the oldest work", labels),
    }


class PrometheusQueueMetrics(QueueMetrics):
    """Reports to the default Prometheus registry."""

    def __init__(self, name: str) -> None:
        families = _families()
        self._name = name
        self._depth_family = families["depth"]
        self._depths: dict[int, Any] = {}
        self._adds = families["adds"].labels(name, name)
        self._waited = families["waited"].labels(name, name)
        self._worked = families["worked"].labels(name, name)
        self._retries = families["retries"].labels(name, name)
        self._unfinished = families["unfinished"].labels(name, name)
        self._longest = families["longest"].labels(name, name)

    def observe_running(self, ages: list[float]) -> None:
        """Report work in progress, by its age; called when metrics are collected."""
        self._unfinished.set(sum(ages))
        self._longest.set(max(ages, default=0.0))

    def add(self) -> None:
        """A key was queued that was not queued before."""
        self._adds.inc()

    def depth(self, priority: int, change: int) -> None:
        """The number of ready keys of a priority changed."""
        gauge = self._depths.get(priority)
        if gauge is None:
            gauge = self._depths[priority] = self._depth_family.labels(self._name, self._name, str(priority))
        gauge.inc(change)

    def get(self, waited: float) -> None:
        """A worker took a key that had been ready for so many seconds."""
        self._waited.observe(waited)

    def done(self, worked: float) -> None:
        """A worker gave a key back after so many seconds."""
        self._worked.observe(worked)

    def retries(self) -> None:
        """A key was queued with a delay."""
        self._retries.inc()
