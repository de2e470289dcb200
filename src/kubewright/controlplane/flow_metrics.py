"""Metrics of priority levels, under the names of kube-apiserver."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kubewright.apiserver.flow_control import FlowControl, LevelSeats

_PREFIX = "apiserver_flowcontrol_"
_GAUGES: tuple[tuple[str, str, Callable[[LevelSeats], int]], ...] = (
    ("nominal_limit_seats", "Seats of a priority level.", lambda seats: seats.level.seats),
    ("current_executing_requests", "Requests that are being processed.", lambda seats: seats.executing),
    ("current_executing_seats", "Occupied seats.", lambda seats: seats.occupied),
    (
        "current_inqueue_requests",
        "Requests that wait for a seat.",
        lambda seats: sum(map(len, seats.waiting.values())),
    ),
)


class FlowMetrics(Collector):
    """Seats, queues, dispatched and rejected requests of each limited level."""

    def __init__(self, control: FlowControl) -> None:
        self._control = control

    def collect(self) -> Iterable[Metric]:
        """Return the current values."""
        levels = {name: each for name, each in self._control.levels.items() if not each.level.exempt}
        for name, text, value in _GAUGES:
            gauge = GaugeMetricFamily(_PREFIX + name, text, labels=("priority_level",))
            for level, seats in levels.items():
                gauge.add_metric((level,), value(seats))
            yield gauge
        dispatched = CounterMetricFamily(
            _PREFIX + "dispatched_requests", "Requests that got a seat.", labels=("priority_level",)
        )
        rejected = CounterMetricFamily(
            _PREFIX + "rejected_requests", "Rejected requests.", labels=("priority_level", "reason")
        )
        for level, seats in levels.items():
            dispatched.add_metric((level,), seats.dispatched)
            for reason, count in seats.rejected.items():
                rejected.add_metric((level, reason), count)
        yield dispatched
        yield rejected


__all__ = ["FlowMetrics"]
