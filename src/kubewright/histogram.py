"""Histogram that is cheap to update, exported in the Prometheus format.

Work queues and API servers observe thousands of values per second. The metrics of prometheus_client take a
lock per value; this one adds to a plain list on the event loop and is converted when metrics are collected.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


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


def _text(bound: float) -> str:
    """Return a bound as Go formats it: `0.005`, `1`, `1e+07`."""
    return "+Inf" if bound == float("inf") else f"{bound:g}"
