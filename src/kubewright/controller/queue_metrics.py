"""What queues report, under the names that client-go uses.

A queue counts into a `QueueMetrics`, which is plain numbers. `queue_metrics(name)` gives one that is found
under its name when metrics are collected; a queue that takes the name of an earlier one goes on counting
where that one ended. Ages of work in progress are computed at collection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .histogram import Histogram

_SECONDS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10, 100, 1000)


def _nothing_runs() -> list[float]:
    return []


class QueueMetrics:
    """The numbers of one queue."""

    __slots__ = ("adds", "depths", "retries", "running", "waited", "worked")

    def __init__(self) -> None:
        self.adds = 0
        """Keys queued that were not queued before."""
        self.retries = 0
        """Keys queued with a delay."""
        self.depths: dict[int, int] = {}
        """Ready keys by priority."""
        self.waited = Histogram(_SECONDS)
        """Seconds from ready to taken."""
        self.worked = Histogram(_SECONDS)
        """Seconds from taken to done."""
        self.running: Callable[[], list[float]] = _nothing_runs
        """The ages of the work in progress."""


_queues: dict[str, QueueMetrics] = {}


def queue_metrics(name: str) -> QueueMetrics:
    """The metrics that are collected under this name."""
    metrics = _queues.get(name)
    if metrics is None:
        if not _queues:
            register_queue_metrics()
        metrics = _queues[name] = QueueMetrics()
    metrics.depths.clear()
    metrics.running = _nothing_runs
    return metrics


def register_queue_metrics(registry: Any = None) -> None:
    """Have a registry collect the metrics of all queues; the default registry does so by itself."""
    from prometheus_client import REGISTRY

    (registry or REGISTRY).register(_Collector())


class _Collector:
    """Turns the numbers of all queues into metric families."""

    def describe(self) -> Iterable[Any]:
        """Nothing: names are fixed and registering must not cost a collection."""
        return ()

    def collect(self) -> Iterable[Any]:
        """Every family, a sample per queue."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        labels = ["name", "controller"]
        depth = GaugeMetricFamily("workqueue_depth", "Ready keys", labels=[*labels, "priority"])
        adds = CounterMetricFamily("workqueue_adds_total", "Keys queued", labels=labels)
        retries = CounterMetricFamily("workqueue_retries_total", "Keys queued with a delay", labels=labels)
        waited = HistogramMetricFamily(
            "workqueue_queue_duration_seconds", "Time from ready to taken", labels=labels
        )
        worked = HistogramMetricFamily(
            "workqueue_work_duration_seconds", "Time from taken to done", labels=labels
        )
        unfinished = GaugeMetricFamily(
            "workqueue_unfinished_work_seconds", "Age of all work in progress, added up", labels=labels
        )
        longest = GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds", "Age of the oldest work in progress", labels=labels
        )
        for name, metrics in list(_queues.items()):
            label = [name, name]
            for priority, count in list((metrics.depths or {0: 0}).items()):
                depth.add_metric([*label, str(priority)], count)
            adds.add_metric(label, metrics.adds)
            retries.add_metric(label, metrics.retries)
            waited.add_metric(label, *metrics.waited.collected())
            worked.add_metric(label, *metrics.worked.collected())
            ages = metrics.running()
            unfinished.add_metric(label, sum(ages))
            longest.add_metric(label, max(ages, default=0.0))
        return depth, adds, retries, waited, worked, unfinished, longest
