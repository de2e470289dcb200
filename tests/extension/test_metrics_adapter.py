"""The metrics adapter with a Prometheus API: both metrics APIs, and autoscalers that scale on them."""

from __future__ import annotations

import copy
import json
import re
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

import metrics_adapter
from kubewright import Client
from kubewright.api.apps.v1 import Deployment
from kubewright.api.autoscaling.v2 import HorizontalPodAutoscaler
from kubewright.testing import TestServer, run_app, start_test_server
from kubewright.workloads.controllers.pod_autoscaler import controller
from metrics_adapter import app

from .kubectl import Kubectl, requires_kubectl

CUSTOM = "/apis/custom.metrics.k8s.io/v1beta2"
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1"
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web"}]},
        },
    },
}


class PrometheusAPI:
    """Responds to queries: the objects of a query share `rate` requests per second, each queue has a length.

    An autoscaler that adds pods reaches its target and stays there.
    """

    def __init__(self) -> None:
        self.rate = 10.0
        self.queues = {"mail": 12.0, "orders": 30.0}
        self.queries: list[str] = []

    def result(self, query: str) -> list[object]:
        """Return the series of a query."""
        self.queries.append(query)
        if query.startswith("sum(queue_length"):
            chosen = re.search(r'queue="(\w+)"', query)
            names = [chosen[1]] if chosen else list(self.queues)
            found = {name: self.queues[name] for name in names if name in self.queues}
            return [_series({"queue": name}, value) for name, value in found.items()]
        label = re.search(r"by \((\w+)\)", query)
        names_of = re.search(rf'{label[1]}=~"([^"]*)"', query) if label else None
        assert label is not None
        assert names_of is not None
        found_names = names_of[1].split("|")
        return [_series({label[1]: name}, self.rate / len(found_names)) for name in found_names]


def _series(labels: dict[str, str], value: float) -> object:
    return {"metric": labels, "value": [time.time(), str(value)]}


@contextmanager
def start_prometheus(monkeypatch: pytest.MonkeyPatch) -> Iterator[PrometheusAPI]:
    prometheus = PrometheusAPI()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)["query"][0]
            body = {"status": "success", "data": {"resultType": "vector", "result": prometheus.result(query)}}
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    monkeypatch.setattr(metrics_adapter.prometheus, "url", f"http://127.0.0.1:{server.server_port}")
    try:
        yield prometheus
    finally:
        server.shutdown()
        server.server_close()


@asynccontextmanager
async def start_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[tuple[TestServer, Client, PrometheusAPI]]:
    monkeypatch.setattr(controller, "SYNC_SECONDS", 0.3)
    with start_prometheus(monkeypatch) as prometheus:
        async with start_test_server("tls", nodes=2) as server:
            client = server.client()
            async with run_app(app, client):
                await client.create(copy.deepcopy(DEPLOYMENT))
                await wait_for_replicas(client, 1)
                yield server, client, prometheus


async def wait_for_replicas(client: Client, count: int) -> None:
    def is_scaled(found: Deployment | None) -> bool:
        return bool(found and found.status and found.status.ready_replicas == count)

    await client.wait(Deployment, "web", namespace="default", until=is_scaled, timeout=60)


async def get(client: Client, path: str, query: str = "") -> tuple[int, dict[str, object]]:
    response = await client.rest.transport.send("GET", path, query)
    return response.status, json.loads(response.body)


def autoscaler(metric: dict[str, object]) -> dict[str, object]:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 8,
            "metrics": [metric],
        },
    }


async def test_the_apis(monkeypatch: pytest.MonkeyPatch) -> None:
    async with start_cluster(monkeypatch) as (_, client, prometheus):
        status, listed = await get(client, CUSTOM)
        assert [each["name"] for each in listed["resources"]] == [  # type: ignore[attr-defined]
            "namespaces/http_requests",
            "pods/http_requests",
            "services/http_requests",
        ]
        path = f"{CUSTOM}/namespaces/default/pods/*/http_requests"
        status, found = await get(client, path, "labelSelector=app%3Dweb&metricLabelSelector=verb%3DGET")
        assert (status, found["kind"]) == (200, "MetricValueList")
        (item,) = found["items"]  # type: ignore[misc]
        assert (item["describedObject"]["kind"], item["value"]) == ("Pod", "10")
        assert item["metric"] == {"name": "http_requests", "selector": {"matchLabels": {"verb": "GET"}}}
        assert 'namespace="default",pod=~"web-' in prometheus.queries[-1]
        assert ',verb="GET"' in prometheus.queries[-1]
        status, found = await get(client, f"{CUSTOM}/namespaces/default/metrics/http_requests")
        assert found["items"][0]["describedObject"] == {  # type: ignore[index]
            "kind": "Namespace",
            "apiVersion": "/v1",
            "name": "default",
        }
        _, found = await get(client, path.replace("v1beta2", "v1beta1"))
        assert found["items"][0]["metricName"] == "http_requests"  # type: ignore[index]
        status, found = await get(client, f"{CUSTOM}/namespaces/default/pods/web/latency")
        assert (status, found["message"]) == (
            404,
            "the server could not find the metric latency for pods web",
        )
        status, found = await get(
            client, f"{EXTERNAL}/namespaces/default/queue_length", "labelSelector=queue%3Dmail"
        )
        (item,) = found["items"]  # type: ignore[misc]
        assert (item["metricName"], item["metricLabels"], item["value"]) == (
            "queue_length",
            {"queue": "mail"},
            "12",
        )
        status, found = await get(client, f"{EXTERNAL}/namespaces/default/unknown")
        assert status == 404
        response = await client.rest.transport.send("DELETE", f"{EXTERNAL}/namespaces/default/queue_length")
        assert response.status == 405


async def test_an_autoscaler_scales_on_a_custom_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    async with start_cluster(monkeypatch) as (_, client, prometheus):
        target = {"type": "AverageValue", "averageValue": "4"}
        metric = {"type": "Pods", "pods": {"metric": {"name": "http_requests"}, "target": target}}
        await client.create(autoscaler(metric))
        await wait_for_replicas(client, 3)  # 10 requests per second, 4 per pod are wanted
        assert any('pod=~"web-' in query for query in prometheus.queries)


async def test_an_autoscaler_scales_on_an_external_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    async with start_cluster(monkeypatch) as (_, client, prometheus):
        prometheus.queues["mail"] = 50.0
        target = {"type": "AverageValue", "averageValue": "10"}
        name = {"name": "queue_length", "selector": {"matchLabels": {"queue": "mail"}}}
        await client.create(autoscaler({"type": "External", "external": {"metric": name, "target": target}}))
        await wait_for_replicas(client, 5)
        del prometheus.queues["mail"]

        def has_failed(found: HorizontalPodAutoscaler | None) -> bool:
            conditions = (found.status.conditions if found and found.status else None) or []
            return any(each.type == "ScalingActive" and each.status == "False" for each in conditions)

        failed = await client.wait(
            HorizontalPodAutoscaler, "web", namespace="default", until=has_failed, timeout=60
        )
        assert "no metrics returned from external metrics API" in str(failed.status)


@requires_kubectl
async def test_kubectl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with start_cluster(monkeypatch) as (server, _, _):
        kubectl = Kubectl(server, tmp_path)
        assert '"MetricValueList"' in await kubectl(
            "get", "--raw", f"{CUSTOM}/namespaces/default/pods/*/http_requests"
        )
        assert '"queue_length"' in await kubectl(
            "get", "--raw", f"{EXTERNAL}/namespaces/default/queue_length"
        )
        services = await kubectl("get", "apiservices")
        assert "v1beta2.custom.metrics.k8s.io" in services
