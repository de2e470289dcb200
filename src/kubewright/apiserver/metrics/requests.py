"""Prometheus metrics of requests, under the names of kube-apiserver.

A request is counted in plain numbers; samples are formatted when `/metrics` is read.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from kubewright.histogram import Histogram

from .admission import AdmissionMetrics
from .storage import BUCKETS, StorageMetrics

if TYPE_CHECKING:
    from kubewright.apiserver.http.messages import HTTPResponse
    from kubewright.apiserver.http.request_info import RequestInfo
    from kubewright.apiserver.resources.resource import Resource

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
_LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "component")
_TIMED_LABELS = ("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component")
_COUNTED_LABELS = (*_TIMED_LABELS, "code")
_COMPONENT = "apiserver"
_DEPRECATED_LABELS = ("group", "version", "resource", "subresource", "removed_release")
_BUILD_LABELS = {
    "major": "major",
    "minor": "minor",
    "git_version": "gitVersion",
    "git_commit": "gitCommit",
    "git_tree_state": "gitTreeState",
    "build_date": "buildDate",
    "go_version": "goVersion",
    "compiler": "compiler",
    "platform": "platform",
}
_MAX_SERIES = 5000
_REMOVED = re.compile(r"unavailable in v(\d+\.\d+)")


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
        self._deprecated: set[tuple[str, str, str, str, str]] = set()
        self.is_served: Callable[[RequestInfo], bool] = lambda info: False
        """Whether the path of a request is served. Other requests share one set of labels, so that clients
        cannot create series without limit."""

    def observe(self, info: RequestInfo, response: HTTPResponse, elapsed: float, dry_run: str = "") -> None:
        """Count a finished request, or a started stream; `dry_run` is the value of the query parameter."""
        status = response.status
        if dry_run not in ("", "All"):
            dry_run = "invalid"
        key = (
            dry_run,
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
            series = self._find(info, status, dry_run)
            if status < 400 or self.is_served(info):
                if len(self._by_request) > _MAX_SERIES:
                    self._by_request.clear()
                self._by_request[key] = series
        series.codes[status] = series.codes.get(status, 0) + 1
        if response.stream is None:
            series.durations.observe(elapsed)
            series.sizes.observe(response.length)

    def _find(self, info: RequestInfo, status: int, dry_run: str) -> _Series:
        method = info.verb.upper()
        verb = _VERBS.get(info.verb) or (method if method in _METHODS else "OTHER")
        labels = (verb, dry_run, info.group, info.version, info.resource, info.subresource, info.scope)
        if status >= 400 and not self.is_served(info):
            labels = (verb, "", "", "", "", "", "")
        elif not info.resource:
            labels = (verb, "", "", "", "", info.path, "")
        return self._series.setdefault(labels, _Series())

    def count_deprecated(self, info: RequestInfo, warning: str) -> None:
        """Record the request of a deprecated API; the warning may name the release that removes it."""
        removed = _REMOVED.search(warning)
        release = removed[1] if removed is not None else ""
        self._deprecated.add((info.group, info.version, info.resource, info.subresource, release))

    def forget(self, group: str, resource: str) -> None:
        """Remove the series of a resource that is no longer served."""
        self._deprecated = {each for each in self._deprecated if (each[0], each[2]) != (group, resource)}
        for labels in [each for each in self._series if (each[2], each[4]) == (group, resource)]:
            del self._series[labels]
        for key in [each for each in self._by_request if (each[2], each[4]) == (group, resource)]:
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
            labels=_TIMED_LABELS,
        )
        sizes = HistogramMetricFamily(
            "apiserver_response_sizes",
            "Response size in bytes for each group, version, verb, resource, subresource and scope.",
            labels=_LABELS,
        )
        merged: dict[tuple[str, ...], Histogram] = {}
        for labels, series in list(self._series.items()):
            for code, count in list(series.codes.items()):
                requests.add_metric((*labels, _COMPONENT, str(code)), count)
            if series.durations.count:
                durations.add_metric((*labels, _COMPONENT), *series.durations.collect())
            if series.durations.count:
                key = (labels[0], *labels[2:], _COMPONENT)
                merged[key] = merged[key].merged(series.sizes) if key in merged else series.sizes
        for key, found in merged.items():
            sizes.add_metric(key, *found.collect())
        deprecated = GaugeMetricFamily(
            "apiserver_requested_deprecated_apis",
            "Deprecated APIs that were requested, with the release that removes them.",
            labels=_DEPRECATED_LABELS,
        )
        for each in sorted(self._deprecated):
            deprecated.add_metric(each, 1)
        yield from (requests, durations, sizes, deprecated)


class ServerMetrics:
    """The metrics of one server, in their own `registry`, which accepts further collectors."""

    content_type = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"

    def __init__(self, build: Mapping[str, str] | None = None) -> None:
        """`build` is the document at `/version`."""
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
        if build is not None:
            information = Gauge(
                "kubernetes_build_info",
                "The version of Kubernetes whose API is served, with the constant value 1.",
                tuple(_BUILD_LABELS),
                registry=self.registry,
            )
            information.labels(*(build[key] for key in _BUILD_LABELS.values())).set(1)
        self.admission = AdmissionMetrics()
        self.registry.register(self.admission)
        self.storage = StorageMetrics()
        self.registry.register(self.storage)

    def forget(self, group: str, resource: str) -> None:
        """Remove the series of a resource that is no longer served."""
        self.requests.forget(group, resource)
        with contextlib.suppress(KeyError):
            self.long_running.remove("WATCH", group, "", resource, "", "", _COMPONENT)

    def watch_counter(self, resource: Resource) -> Callable[[int], object]:
        """Return a function that changes the number of active watches."""
        gauge = self.long_running.labels("WATCH", resource.group, "", resource.plural, "", "", _COMPONENT)
        return gauge.inc

    def render(self) -> bytes:
        """Return the text of `/metrics`."""
        return generate_latest(self.registry)
