"""Metrics of priority levels, under the names of kube-apiserver.

Levels and FlowSchemas are labels, as in kube-apiserver. Requests of exempt levels are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from kubewright.apiserver.priority.flow_control import FlowControl, LevelSeats, WaitingRequest
from kubewright.apiserver.priority.flow_statistics import FlowSchemaStatistics
from kubewright.histogram import Histogram

_PREFIX = "apiserver_flowcontrol_"
_LEVEL = ("priority_level",)
_SCHEMA = ("priority_level", "flow_schema")

Waiting = list[WaitingRequest]

_GAUGES: tuple[tuple[str, str, Callable[[FlowSchemaStatistics, Waiting], int]], ...] = (
    (
        "current_executing_requests",
        "Requests that are processed now; watches until their initial events have been sent",
        lambda statistics, waiting: statistics.executing,
    ),
    (
        "current_executing_seats",
        "Seats that requests occupy now",
        lambda statistics, waiting: statistics.occupied,
    ),
    (
        "current_inqueue_requests",
        "Requests that wait for seats now",
        lambda statistics, waiting: len(waiting),
    ),
    (
        "current_inqueue_seats",
        "Seats that waiting requests need now",
        lambda statistics, waiting: sum(each.width for each in waiting),
    ),
)
_COUNTERS: tuple[tuple[str, str, Callable[[FlowSchemaStatistics], int]], ...] = (
    (
        "dispatched_requests",
        "Requests that got their seats",
        lambda statistics: statistics.dispatched,
    ),
    (
        "request_dispatch_no_accommodation",
        "Attempts to serve a waiting request for which too few seats were free",
        lambda statistics: statistics.not_accommodated,
    ),
)


class FlowMetrics(Collector):
    """Seats, queues, dispatched and rejected requests of each limited level."""

    def __init__(self, control: FlowControl, seats: int) -> None:
        """`seats` is the number of seats of all levels."""
        self._control = control
        self._total = seats

    def collect(self) -> Iterable[Metric]:
        """Return the current values."""
        levels = {name: each for name, each in self._control.levels.items() if not each.level.exempt}
        yield from self._limits(levels)
        rows = [
            ((name, schema), statistics, _waiting(level, statistics), level.level.queue_length > 0)
            for name, level in levels.items()
            for schema, statistics in level.schemas.items()
        ]
        for name, text, number in _GAUGES:
            gauge = GaugeMetricFamily(_PREFIX + name, text, labels=_SCHEMA)
            for labels, statistics, waiting, _ in rows:
                gauge.add_metric(labels, number(statistics, waiting))
            yield gauge
        for name, text, count in _COUNTERS:
            counter = CounterMetricFamily(_PREFIX + name, text, labels=_SCHEMA)
            for labels, statistics, _, _ in rows:
                counter.add_metric(labels, count(statistics))
            yield counter
        rejected = CounterMetricFamily(
            _PREFIX + "rejected_requests",
            "Requests that were rejected with 429, by reason",
            labels=(*_SCHEMA, "reason"),
        )
        seats = _histogram(
            "work_estimated_seats",
            "Seats that requests were estimated to need",
        )
        lengths = _histogram(
            "request_queue_length_after_enqueue",
            "Length of the queue of a request, with the request",
        )
        waits = _histogram(
            "request_wait_duration_seconds", "Seconds that requests waited for seats", "execute"
        )
        for labels, statistics, waiting, has_queue in rows:
            for reason, number_ in statistics.rejected.items():
                rejected.add_metric((*labels, reason), number_)
            _add(seats, labels, statistics.estimated_seats(len(waiting)))
            if has_queue:
                _add(lengths, labels, statistics.queue_lengths())
            for dispatched in (True, False):
                _add(waits, (*labels, str(dispatched).lower()), statistics.waits(dispatched=dispatched))
        yield from (rejected, seats, lengths, waits)

    def _limits(self, levels: dict[str, LevelSeats]) -> Iterator[Metric]:
        def upper(level: LevelSeats) -> int:
            borrowable = level.level.borrowable
            return level.level.seats + (self._total if borrowable is None else borrowable)

        limits: tuple[tuple[str, str, Callable[[LevelSeats], int]], ...] = (
            (
                "nominal_limit_seats",
                "Seats of the priority level by its shares",
                lambda level: level.level.seats,
            ),
            (
                "lower_limit_seats",
                "Seats of the priority level without those that it lends",
                lambda level: level.level.seats - level.level.lendable,
            ),
            (
                "upper_limit_seats",
                "Seats of the priority level with those that it may borrow",
                upper,
            ),
            (
                "current_limit_seats",
                "Seats that requests of the priority level could occupy now",
                lambda level: level.limit,
            ),
        )
        for name, text, value in limits:
            gauge = GaugeMetricFamily(_PREFIX + name, text, labels=_LEVEL)
            for level, seats in levels.items():
                gauge.add_metric((level,), value(seats))
            yield gauge


def _waiting(level: LevelSeats, statistics: FlowSchemaStatistics) -> Waiting:
    """Return the requests of a FlowSchema that wait."""
    return [each for queue in level.waiting.values() for each in queue if each.statistics is statistics]


def _histogram(name: str, text: str, *labels: str) -> HistogramMetricFamily:
    return HistogramMetricFamily(_PREFIX + name, text, labels=(*_SCHEMA, *labels))


def _add(family: HistogramMetricFamily, labels: tuple[str, ...], values: Histogram) -> None:
    if values.count:
        family.add_metric(labels, *values.collect())
