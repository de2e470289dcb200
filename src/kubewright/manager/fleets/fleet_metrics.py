"""Metrics of fleets: the state of each cluster, and the reconciles in it.

Controllers of a fleet exist once per cluster, so they are not part of the metrics of controller-runtime,
which have no label for it. There are no histograms: their number would grow with the number of clusters.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kubewright.manager.observability.trace_feed import controllers_of

if TYPE_CHECKING:
    from .fleet_runtime import FleetRuntime

_fleets: dict[int, FleetRuntime] = {}
_registered = False


def add_fleet(fleet: FleetRuntime) -> None:
    """Collect the metrics of a fleet until `remove_fleet`."""
    global _registered
    _fleets[id(fleet)] = fleet
    if not _registered:
        from prometheus_client import REGISTRY

        _registered = True
        REGISTRY.register(_Collector())


def remove_fleet(fleet: FleetRuntime) -> None:
    """Stop collecting the metrics of a fleet."""
    _fleets.pop(id(fleet), None)


class _Collector:
    """Converts the state of all fleets to metric families."""

    def describe(self) -> Iterable[Any]:
        """Return nothing: names are fixed, and registering must not trigger a collection."""
        return ()

    def collect(self) -> Iterable[Any]:
        """Return every family, with a sample per cluster."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        ready = GaugeMetricFamily(
            "kubewright_fleet_cluster_ready",
            "Whether a cluster is connected and responds",
            labels=["cluster"],
        )
        failures = CounterMetricFamily(
            "kubewright_fleet_cluster_failures_total",
            "Failed connections to a cluster and checks of it",
            labels=["cluster"],
        )
        labels = ["cluster", "controller"]
        total = CounterMetricFamily(
            "kubewright_fleet_reconcile_total", "Number of reconciles", labels=[*labels, "result"]
        )
        depth = GaugeMetricFamily(
            "kubewright_fleet_workqueue_depth", "Current number of ready keys", labels=labels
        )
        for fleet in list(_fleets.values()):
            for status in fleet.statuses:
                ready.add_metric([status.name], float(status.state == "ready"))
                failures.add_metric([status.name], status.failures)
            for name, manager in fleet.managers.items():
                for controller in controllers_of(manager.runnables):
                    outcomes = controller.metrics.outcomes
                    for result, count in (
                        ("success", outcomes["success"]),
                        ("requeue_after", outcomes["requeue_after"]),
                        ("error", controller.metrics.errors),
                    ):
                        total.add_metric([name, controller.name, result], count)
                    queue = controller.queue
                    depth.add_metric([name, controller.name], len(queue) if queue is not None else 0)
        return ready, failures, total, depth
