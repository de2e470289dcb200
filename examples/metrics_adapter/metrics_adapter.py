"""An adapter between Prometheus and autoscaling: custom.metrics.k8s.io and external.metrics.k8s.io.

As prometheus-adapter does, it computes metrics of pods and services with queries; as KEDA does, it serves the
length of queues outside of the cluster. HorizontalPodAutoscalers scale on both.
"""

from __future__ import annotations

import asyncio
import json
import os
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from kubewright import APIServerApp
from kubewright.api import APIError, NotFound, Quantity, Rbac, Selector
from kubewright.extension import (
    CustomMetric,
    CustomMetrics,
    ExternalMetrics,
    ExternalMetricValue,
    MetricValue,
)


class Prometheus:
    """The HTTP API of a Prometheus server."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def query(self, expression: str) -> list[Any]:
        """Return the series of an instant query: labels, and time and value of the last sample."""
        address = f"{self.url}/api/v1/query?{urlencode({'query': expression})}"
        try:
            return await asyncio.to_thread(self._get, address)
        except (OSError, ValueError) as error:
            raise APIError(f"unable to query Prometheus: {error}", code=503) from None

    def _get(self, address: str) -> list[Any]:
        with urllib.request.urlopen(address, timeout=10) as response:
            body = json.load(response)
        if body["status"] != "success":
            raise ValueError(body.get("error"))
        return list(body["data"]["result"])


def sample(series: Any) -> tuple[datetime, Quantity]:
    """Return time and value of a series."""
    seconds, value = series["value"]
    return datetime.fromtimestamp(seconds, UTC), Quantity(f"{round(float(value) * 1000)}m")


def matchers(selector: Selector) -> str:
    """Return a label selector as matchers of a query, each with a comma before it."""
    operators = {"=": "=", "==": "=", "!=": "!=", "in": "=~", "notin": "!~"}
    parts = []
    for each in selector.requirements:
        if each.operator in operators:
            value = "|".join(sorted(each.values))
            parts.append(f',{each.key}{operators[each.operator]}"{value}"')
        else:
            parts.append(f',{each.key}{"!=" if each.operator == "exists" else "="}""')
    return "".join(parts)


RATE = 'sum(rate(http_requests_total{{{labels}=~"{names}"{matchers}}}[2m])) by ({label})'
QUERIES = {CustomMetric(each, "http_requests"): RATE for each in ("pods", "services", "namespaces")}
"""Metrics and the query of each one, which returns a series per object."""


class RequestRates(CustomMetrics):
    """Requests per second of pods, services and namespaces."""

    async def metrics(self) -> list[CustomMetric]:
        """Return the metrics that have a query."""
        return list(QUERIES)

    async def values(
        self, metric: CustomMetric, names: list[str], *, namespace: str, selector: Selector
    ) -> Mapping[str, MetricValue]:
        """Query the values of objects."""
        query = QUERIES.get(metric)
        if query is None:
            return {}
        label = metric.resource.removesuffix("s")
        labels = f'namespace="{namespace}",{label}' if namespace else label
        text = query.format(labels=labels, names="|".join(names), matchers=matchers(selector), label=label)
        found = {}
        for series in await prometheus.query(text):
            time, value = sample(series)
            found[series["metric"][label]] = MetricValue(value, time, window_seconds=120)
        return found


class QueueLengths(ExternalMetrics):
    """Lengths of queues outside of the cluster."""

    async def metrics(self) -> list[str]:
        """Return the names of the metrics."""
        return ["queue_length"]

    async def values(self, name: str, *, namespace: str, selector: Selector) -> list[ExternalMetricValue]:
        """Query the queues that match."""
        if name != "queue_length":
            raise NotFound(f"the server could not find the metric {name}")
        found = await prometheus.query(f"sum({name}{{{matchers(selector).removeprefix(',')}}}) by (queue)")
        values = []
        for series in found:
            time, value = sample(series)
            values.append(ExternalMetricValue(value, time, labels=series["metric"]))
        return values


prometheus = Prometheus(os.environ.get("PROMETHEUS_URL", "http://prometheus.monitoring.svc:9090"))
app = APIServerApp("metrics-adapter")
app.add_permissions(
    Rbac(groups=("core",), resources=("pods", "services", "namespaces"), verbs=("get", "list"))
)
app.add_custom_metrics(RequestRates())
app.add_external_metrics(QueueLengths())
