"""Prometheus metrics of requests, under the names of kube-apiserver.

Labelled children are cached per combination, which keeps the cost per request low.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

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


class ServerMetrics:
    """The metrics of one server, in their own `registry`, which accepts further collectors."""

    content_type = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("verb", "group", "version", "resource", "subresource", "scope")
        self.requests = Counter(
            "apiserver_request_total",
            "Counter of apiserver requests broken out for each verb, group, version, resource, scope and "
            "code.",
            ("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "code"),
            registry=self.registry,
        )
        self.durations = Histogram(
            "apiserver_request_duration_seconds",
            "Response latency in seconds for each verb, group, version, resource, subresource and scope.",
            labels,
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.sizes = Histogram(
            "apiserver_response_sizes",
            "Response size in bytes for each group, version, verb, resource, subresource and scope.",
            labels,
            buckets=_BYTES,
            registry=self.registry,
        )
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
            labels,
            registry=self.registry,
        )
        self.storage = StorageMetrics()
        self.registry.register(self.storage)
        self.is_served: Callable[[RequestInfo], bool] = lambda info: False
        """Whether the path of a request is served. Other requests share one set of labels, so that clients
        cannot create series without limit."""
        self._children: dict[tuple[Any, ...], tuple[Any, Any, Any, tuple[str, ...], tuple[str, ...]]] = {}

    def observe(self, info: RequestInfo, response: HTTPResponse, elapsed: float) -> None:
        """Count a finished request, or a started stream."""
        key = (
            info.verb,
            info.group,
            info.version,
            info.resource,
            info.subresource,
            info.scope,
            response.status,
        )
        found = self._children.get(key)
        if found is None:
            if len(self._children) > 5000:
                self._children.clear()
            verb = _VERBS.get(info.verb, info.verb.upper() or "OTHER")
            common = (verb, info.group, info.version, info.resource, info.subresource, info.scope)
            if response.status >= 400 and not self.is_served(info):
                common = (verb, "", "", "", "", "")
            elif not info.resource:
                common = (verb, "", "", "", info.path, "")
            counted = (verb, "", *common[1:], str(response.status))
            found = (
                self.requests.labels(*counted),
                self.durations.labels(*common),
                self.sizes.labels(*common),
                counted,
                common,
            )
            self._children[key] = found
        found[0].inc()
        if response.stream is None:
            found[1].observe(elapsed)
            found[2].observe(response.length)

    def forget(self, group: str, resource: str) -> None:
        """Remove the series of a resource that is no longer served."""
        gone = [key for key in self._children if key[1] == group and key[3] == resource]
        for key in gone:
            *_, counted, common = self._children.pop(key)
            if not common[3]:
                continue
            for family, labels in (
                (self.requests, counted),
                (self.durations, common),
                (self.sizes, common),
            ):
                # Responses with different codes share the other series.
                with contextlib.suppress(KeyError):
                    family.remove(*labels)
        with contextlib.suppress(KeyError):
            self.long_running.remove("WATCH", group, "", resource, "", "")

    def watch_counter(self, resource: Resource) -> Callable[[int], object]:
        """Return a function that changes the number of active watches."""
        gauge = self.long_running.labels("WATCH", resource.group, "", resource.plural, "", "")
        return gauge.inc

    def render(self) -> bytes:
        """Return the text of `/metrics`."""
        return generate_latest(self.registry)
