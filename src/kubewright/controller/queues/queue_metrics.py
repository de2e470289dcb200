"""Metrics of work queues, with the names of client-go.

A queue counts in a `QueueMetrics` of plain numbers. `queue_metrics(name)` returns one that is collected under
its name; a second queue with the same name continues the counters of the first, and reports its own keys.
Ages of work in progress are computed when metrics are collected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kubewright.histogram import Histogram, NamedMetrics

_SECONDS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10, 100, 1000)


def _no_work() -> list[float]:
    return []


class QueueMetrics:
    """Counters of one queue."""

    __slots__ = ("adds", "depths", "retries", "running", "waited", "worked")

    def __init__(self) -> None:
        self.adds = 0
        """Keys added that were not queued before."""
        self.retries = 0
        """Keys added with a delay."""
        self.depths: dict[int, int] = {}
        """Ready keys by priority."""
        self.waited = Histogram(_SECONDS)
        """Seconds from ready to the start of processing."""
        self.worked = Histogram(_SECONDS)
        """Seconds from the start of processing to done."""
        self.running: Callable[[], list[float]] = _no_work
        """Returns the ages of the work in progress."""


def _families(queues: Mapping[str, QueueMetrics]) -> Iterable[Any]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    labels = ["name", "controller"]
    depth = GaugeMetricFamily("workqueue_depth", "Current number of ready keys", labels=[*labels, "priority"])
    adds = CounterMetricFamily("workqueue_adds_total", "Total number of keys added", labels=labels)
    retries = CounterMetricFamily(
        "workqueue_retries_total", "Total number of keys added with a delay", labels=labels
    )
    waited = HistogramMetricFamily(
        "workqueue_queue_duration_seconds",
        "Time that keys spend in the queue before processing",
        labels=labels,
    )
    worked = HistogramMetricFamily(
        "workqueue_work_duration_seconds", "Time that processing a key takes", labels=labels
    )
    unfinished = GaugeMetricFamily(
        "workqueue_unfinished_work_seconds", "Sum of the ages of all work in progress", labels=labels
    )
    longest = GaugeMetricFamily(
        "workqueue_longest_running_processor_seconds", "Age of the oldest work in progress", labels=labels
    )
    for name, metrics in queues.items():
        label = [name, name]
        for priority, count in list((metrics.depths or {0: 0}).items()):
            depth.add_metric([*label, str(priority)], count)
        adds.add_metric(label, metrics.adds)
        retries.add_metric(label, metrics.retries)
        waited.add_metric(label, *metrics.waited.collect())
        worked.add_metric(label, *metrics.worked.collect())
        ages = metrics.running()
        unfinished.add_metric(label, sum(ages))
        longest.add_metric(label, max(ages, default=0.0))
    return depth, adds, retries, waited, worked, unfinished, longest


queue_metrics = NamedMetrics(QueueMetrics, _families)
"""Returns the metrics that are collected under the name of a queue."""
