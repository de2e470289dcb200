"""Prometheus metrics of requests, under the names of kube-apiserver.

A request is counted in plain numbers; samples are formatted when `/metrics` is read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from kubewright.histogram import Histogram

from .storage import BUCKETS, StorageMetrics

if TYPE_CHECKING:
    from kubewright.apiserver.http.messages import HTTPResponse
    from kubewright.apiserver.http.request_info import RequestInfo
    from kubewright.apiserver.resource import Resource

_BYTES = (1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000)
_VERBS = {
    "get": "GET",
    "list": "LIST",
    "watch": "WATCH",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETECOLLECTION",
}


_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT"))
"""Other methods share one label: clients can send any."""
_LABELS = ("verb", "group", "version", "resource", "subresource", "scope")
_COUNTED_LABELS = ("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "code")
_MAX_SERIES = 5000


class _Series:
    """Requests with the same labels."""

    __slots__ = ("codes", "durations", "sizes")

    def __init__(self) -> None:
        self.codes: dict[int, int] = {}
        self.durations = Histogram(BUCKETS)
        self.sizes = Histogram(_BYTES)


class RequestMetrics(Collector):
    """Counts, durations and response sizes of requests."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, ...], _Series] = {}
        self._by_request: dict[tuple[Any, ...], _Series] = {}
        """The series of requests that were seen before."""
        self.is_served: Callable[[RequestInfo], bool] = lambda info: False
        """Whether the path of a request is served. Other requests share one set of labels, so that clients
        cannot create series without limit."""

    def observe(self, info: RequestInfo, response: HTTPResponse, elapsed: float) -> None:
        """Count a finished request, or a started stream."""
        status = response.status
        key = (
            info.verb,
            info.group,
            info.version,
            info.resource,
            info.subresource,
            info.scope,
            status >= 400,
        )
        series = self._by_request.get(key)
        if series is None:
            series = self._find(info, status)
            if status < 400 or self.is_served(info):
                if len(self._by_request) > _MAX_SERIES:
                    self._by_request.clear()
                self._by_request[key] = series
        series.codes[status] = series.codes.get(status, 0) + 1
        if response.stream is None:
            series.durations.observe(elapsed)
            series.sizes.observe(response.length)

    def _find(self, info: RequestInfo, status: int) -> _Series:
        method = info.verb.upper()
        verb = _VERBS.get(info.verb) or (method if method in _METHODS else "OTHER")
        labels = (verb, info.group, info.version, info.resource, info.subresource, info.scope)
        if status >= 400 and not self.is_served(info):
            labels = (verb, "", "", "", "", "")
        elif not info.resource:
            labels = (verb, "", "", "", info.path, "")
        return self._series.setdefault(labels, _Series())

    def forget(self, group: str, resource: str) -> None:
        """Remove the series of a resource that is no longer served."""
        for labels in [each for each in self._series if (each[1], each[3]) == (group, resource)]:
            del self._series[labels]
        for key in [each for each in self._by_request if (each[1], each[3]) == (group, resource)]:
            del self._by_request[key]

    def collect(self) -> Iterator[Metric]:
        """Return the samples."""
        requests = CounterMetricFamily(
            "apiserver_request",
            "Counter of apiserver requests broken out for each verb, group, version, resource, scope and "
            "code.",
            labels=_COUNTED_LABELS,
        )
        durations = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "Response latency in seconds for each verb, group, version, resource, subresource and scope.",
            labels=_LABELS,
        )
        sizes = HistogramMetricFamily(
            "apiserver_response_sizes",
            "Response size in bytes for each group, version, verb, resource, subresource and scope.",
            labels=_LABELS,
        )
        for labels, series in list(self._series.items()):
            for code, count in list(series.codes.items()):
                requests.add_metric((labels[0], "", *labels[1:], str(code)), count)
            if series.durations.count:
                durations.add_metric(labels, *series.durations.collect())
                sizes.add_metric(labels, *series.sizes.collect())
        yield from (requests, durations, sizes)


class ServerMetrics:
    """The metrics of one server, in their own `registry`, which accepts further collectors."""

    content_type = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = RequestMetrics()
        self.registry.register(self.requests)
        self.observe = self.requests.observe
        in_flight = Gauge(
            "apiserver_current_inflight_requests",
            "Requests being served now, by kind.",
            ("request_kind",),
            registry=self.registry,
        )
        self.in_flight = (in_flight.labels("readOnly"), in_flight.labels("mutating"))
        self.long_running = Gauge(
            "apiserver_longrunning_requests",
            "Watches and other long-running requests being served now.",
            _LABELS,
            registry=self.registry,
        )
        self.storage = StorageMetrics()
        self.registry.register(self.storage)

    def forget(self, group: str, resource: str) -> None:
        """Remove the series of a resource that is no longer served."""
        self.requests.forget(group, resource)
        with contextlib.suppress(KeyError):
            self.long_running.remove("WATCH", group, "", resource, "", "")

    def watch_counter(self, resource: Resource) -> Callable[[int], object]:
        """Return a function that changes the number of active watches."""
        gauge = self.long_running.labels("WATCH", resource.group, "", resource.plural, "", "")
        return gauge.inc

    def render(self) -> bytes:
        """Return the text of `/metrics`."""
        return generate_latest(self.registry)
