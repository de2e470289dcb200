"""Metrics of schedulers, with the names of kube-scheduler.

A scheduler counts in plain numbers, which are converted when metrics are collected. `scheduler_metrics`
returns those of a profile; a second scheduler with the same name continues its counters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from kubewright.histogram import Histogram, NamedMetrics

Result = Literal["scheduled", "unschedulable", "error"]
RESULTS: tuple[Result, ...] = ("scheduled", "unschedulable", "error")
_SECONDS = tuple(0.001 * 2**exponent for exponent in range(15))


def _no_pods() -> Mapping[str, int]:
    return {}


class SchedulerMetrics:
    """Counters of one profile."""

    __slots__ = ("pending", "preemption_attempts", "seconds")

    def __init__(self) -> None:
        self.seconds = {result: Histogram(_SECONDS) for result in RESULTS}
        """Duration of attempts, from the start of the cycle to the binding or the failure."""
        self.preemption_attempts = 0
        """Number of pods for which no node was found and PostFilter was called."""
        self.pending: Callable[[], Mapping[str, int]] = _no_pods
        """Returns the number of pods by part of the queue."""

    def detach(self) -> None:
        """The scheduler has stopped and has no pending pods."""
        self.pending = _no_pods

    def observe(self, result: Result, seconds: float) -> None:
        """Count one attempt to schedule a pod."""
        self.seconds[result].observe(seconds)


def _families(profiles: Mapping[str, SchedulerMetrics]) -> Iterable[Any]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    labels = ["result", "profile"]
    attempts = CounterMetricFamily(
        "scheduler_schedule_attempts_total", "Number of attempts to schedule pods", labels=labels
    )
    seconds = HistogramMetricFamily(
        "scheduler_scheduling_attempt_duration_seconds",
        "Duration of attempts and bindings",
        labels=labels,
    )
    preemptions = CounterMetricFamily(
        "scheduler_preemption_attempts_total", "Number of pods for which preemption was attempted"
    )
    pending = GaugeMetricFamily(
        "scheduler_pending_pods", "Number of pending pods by part of the queue", labels=["queue"]
    )
    counts = dict.fromkeys(("active", "backoff", "unschedulable", "gated"), 0)
    seen: list[Callable[[], Mapping[str, int]]] = []
    for name, metrics in profiles.items():
        for result, histogram in metrics.seconds.items():
            attempts.add_metric([result, name], histogram.count)
            seconds.add_metric([result, name], *histogram.collect())
        # Profiles of one scheduler share its queue.
        if metrics.pending not in seen:
            seen.append(metrics.pending)
            for queue, number in metrics.pending().items():
                counts[queue] += number
    preemptions.add_metric([], sum(each.preemption_attempts for each in profiles.values()))
    for queue, number in counts.items():
        pending.add_metric([queue], number)
    return attempts, seconds, preemptions, pending


scheduler_metrics = NamedMetrics(SchedulerMetrics, _families)
"""Returns the metrics that are collected under the name of a profile."""
