"""Metrics of controllers, with the names of controller-runtime; every series exists from the start.

As in `queue_metrics`, a controller counts in plain numbers, which are converted when metrics are collected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from kubewright.histogram import Histogram, NamedMetrics

Outcome = Literal["success", "requeue_after", "error", "terminal", "timeout", "panic"]

_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)


class ControllerMetrics:
    """Counters of one controller."""

    __slots__ = ("active", "hot_loops", "outcomes", "seconds", "workers")

    def __init__(self) -> None:
        self.outcomes: dict[Outcome, int] = dict.fromkeys(
            ("success", "requeue_after", "error", "terminal", "timeout", "panic"), 0
        )
        self.seconds = Histogram(_BUCKETS)
        """Duration of reconciles."""
        self.workers = 0
        self.active = 0
        """Number of busy workers."""
        self.hot_loops = 0
        """Number of reports of reconciles that trigger themselves."""

    def observe(self, outcome: Outcome, seconds: float) -> None:
        """Count one reconcile."""
        self.outcomes[outcome] += 1
        self.seconds.observe(seconds)

    @property
    def reconciles(self) -> int:
        """Total number of reconciles."""
        return sum(self.outcomes.values())

    @property
    def errors(self) -> int:
        """Number of failed reconciles, for any reason."""
        return self.reconciles - self.outcomes["success"] - self.outcomes["requeue_after"]


def _families(controllers: Mapping[str, ControllerMetrics]) -> Iterable[Any]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    prefix, labels = "controller_runtime", ["controller"]
    total = CounterMetricFamily(
        f"{prefix}_reconcile_total", "Total number of reconciles", labels=[*labels, "result"]
    )
    failures = {
        field: CounterMetricFamily(f"{prefix}_{name}_total", text, labels=labels)
        for field, name, text in (
            ("errors", "reconcile_errors", "Total number of failed reconciles"),
            (
                "terminal",
                "terminal_reconcile_errors",
                "Total number of reconciles that failed with a terminal error",
            ),
            (
                "panic",
                "reconcile_panics",
                "Total number of reconciles that failed with a programming error",
            ),
            ("timeout", "reconcile_timeouts", "Total number of reconciles that timed out"),
        )
    }
    seconds = HistogramMetricFamily(
        f"{prefix}_reconcile_time_seconds", "Duration of reconciles", labels=labels
    )
    workers = GaugeMetricFamily(f"{prefix}_max_concurrent_reconciles", "Number of workers", labels=labels)
    active = GaugeMetricFamily(f"{prefix}_active_workers", "Number of busy workers", labels=labels)
    hot_loops = CounterMetricFamily(
        "kubewright_controller_hot_loops_total", "Reconciles that triggered themselves", labels=labels
    )
    for name, metrics in controllers.items():
        outcomes = metrics.outcomes
        for result, count in (
            ("success", outcomes["success"]),
            ("error", metrics.errors),
            ("requeue", 0),
            ("requeue_after", outcomes["requeue_after"]),
        ):
            total.add_metric([name, result], count)
        failures["errors"].add_metric([name], metrics.errors)
        failures["terminal"].add_metric([name], outcomes["terminal"])
        failures["panic"].add_metric([name], outcomes["panic"])
        failures["timeout"].add_metric([name], outcomes["timeout"])
        seconds.add_metric([name], *metrics.seconds.collect())
        workers.add_metric([name], metrics.workers)
        active.add_metric([name], metrics.active)
        hot_loops.add_metric([name], metrics.hot_loops)
    return total, *failures.values(), seconds, workers, active, hot_loops


controller_metrics = NamedMetrics(ControllerMetrics, _families)
"""Returns the metrics that are collected under the name of a controller."""
