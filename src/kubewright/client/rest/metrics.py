"""Prometheus metrics of the client, with the names of client-go.

`rest_client_requests_total{code,method,host}`, `rest_client_request_duration_seconds{verb,host}` and
`rest_client_rate_limiter_duration_seconds{verb,host}`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_collectors: WeakKeyDictionary[Any, tuple[Any, Any, Any]] = WeakKeyDictionary()


class ClientMetrics:
    """Metrics of the requests to one host; clients of one process share the collectors of a registry."""

    def __init__(self, host: str, registry: CollectorRegistry | None = None) -> None:
        from prometheus_client import REGISTRY, Counter, Histogram

        registry = registry or REGISTRY
        collectors = _collectors.get(registry)
        if collectors is None:
            labels = ("verb", "host")
            collectors = _collectors[registry] = (
                Counter(
                    "rest_client_requests_total",
                    "Requests by status code, method and host.",
                    ("code", "method", "host"),
                    registry=registry,
                ),
                Histogram(
                    "rest_client_request_duration_seconds",
                    "Request latency in seconds, by verb and host.",
                    labels,
                    buckets=_BUCKETS,
                    registry=registry,
                ),
                Histogram(
                    "rest_client_rate_limiter_duration_seconds",
                    "Seconds that requests waited for the rate limiter of the client.",
                    labels,
                    buckets=_BUCKETS,
                    registry=registry,
                ),
            )
        self._host = host
        self._requests: Any = collectors[0]
        self._durations: Any = collectors[1]
        self._limited: Any = collectors[2]
        self._children: dict[tuple[str, str], Any] = {}

    def record_response(self, method: str, verb: str, code: str, seconds: float) -> None:
        """Count one attempt; `code` is `<error>` without a response."""
        children = self._children
        counter = children.get((code, method))
        if counter is None:
            counter = children[code, method] = self._requests.labels(code, method, self._host)
        counter.inc()
        histogram = children.get((verb, ""))
        if histogram is None:
            histogram = children[verb, ""] = self._durations.labels(verb, self._host)
        histogram.observe(seconds)

    def record_rate_limit(self, verb: str, seconds: float) -> None:
        """Record the delay of a request by the rate limiter."""
        self._limited.labels(verb, self._host).observe(seconds)
