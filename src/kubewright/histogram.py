"""Metrics that are cheap to update, exported in the Prometheus format.

Work queues and API servers observe thousands of values per second. The metrics of prometheus_client take a
lock per value; a `Histogram` adds to a plain list on the event loop and is converted when metrics are
collected. `NamedMetrics` collects the plain numbers of all queues, controllers or schedulers of a process.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

MetricsT = TypeVar("MetricsT")


class Histogram:
    """Counts of values by upper bound."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def plus(self, value: float, times: int) -> Histogram:
        """Return a copy in which `value` was observed a number of times more."""
        copy = Histogram(self._bounds)
        copy._counts = list(self._counts)
        copy._counts[bisect_left(self._bounds, value)] += times
        copy._sum = self._sum + value * times
        return copy

    def merged(self, other: Histogram) -> Histogram:
        """Return the sum of two histograms with the same bounds."""
        copy = Histogram(self._bounds)
        copy._counts = [mine + theirs for mine, theirs in zip(self._counts, other._counts, strict=True)]
        copy._sum = self._sum + other._sum
        return copy

    @property
    def count(self) -> int:
        """Number of observed values."""
        return sum(self._counts)

    @property
    def sum(self) -> float:
        """Sum of the observed values."""
        return self._sum

    def collect(self) -> tuple[list[tuple[str, float]], float]:
        """Return cumulative buckets by upper bound, and the sum, as `HistogramMetricFamily` takes them."""
        buckets: list[tuple[str, float]] = []
        total = 0
        for bound, count in zip((*self._bounds, float("inf")), list(self._counts), strict=True):
            total += count
            buckets.append((_text(bound), float(total)))
        return buckets, self._sum


class NamedMetrics(Generic[MetricsT]):
    """Metrics of components by their names; a second component of a name continues the counters of the first.

    It is a collector of prometheus_client, which is registered with the first name.
    """

    def __init__(
        self,
        create: Callable[[], MetricsT],
        families: Callable[[Mapping[str, MetricsT]], Iterable[Any]],
    ) -> None:
        """`families` converts all metrics when they are collected; each family is returned without a sample,
        too."""
        self._create = create
        self._families = families
        self._metrics: dict[str, MetricsT] = {}

    def __call__(self, name: str) -> MetricsT:
        """Return the metrics that are collected under a name."""
        metrics = self._metrics.get(name)
        if metrics is None:
            if not self._metrics:
                from prometheus_client import REGISTRY

                self.register(REGISTRY)
            metrics = self._metrics[name] = self._create()
        return metrics

    def register(self, registry: Any) -> None:
        """Collect the metrics in another registry than the default one, too."""
        registry.register(self)

    def describe(self) -> Iterable[Any]:
        """Return nothing: names are fixed, and registering must not trigger a collection."""
        return ()

    def collect(self) -> Iterable[Any]:
        """Return the metric families."""
        return self._families(dict(self._metrics))


def _text(bound: float) -> str:
    """Return a bound as Go formats it: `0.005`, `1`, `1e+07`."""
    return "+Inf" if bound == float("inf") else f"{bound:g}"
