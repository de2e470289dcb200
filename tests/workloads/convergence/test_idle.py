"""Components without work send no requests: only Leases are renewed, and the status of nodes is refreshed."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from tests.workloads.controllers.conftest import manifest, template

from kubewright.api.apps.v1 import Deployment, StatefulSet
from kubewright.api.batch.v1 import Job
from kubewright.api.core.v1 import Pod
from kubewright.apiserver.http.messages import HTTPResponse
from kubewright.apiserver.http.request_info import RequestInfo
from kubewright.apiserver.metrics.requests import RequestMetrics
from kubewright.client import Client
from kubewright.client.wait import condition
from kubewright.testing.server import start_test_server


class RequestCounter:
    """Counts the requests that a server has completed, by verb and resource."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        observe = RequestMetrics.observe

        def count(metrics: RequestMetrics, info: RequestInfo, response: HTTPResponse, *rest: Any) -> None:
            self.counts["/".join(filter(None, (info.verb, info.resource, info.subresource)))] += 1
            observe(metrics, info, response, *rest)

        monkeypatch.setattr(RequestMetrics, "observe", count)


async def create_all_kinds(client: Client) -> None:
    labels = {"app": "web"}
    selecting = {"selector": {"matchLabels": labels}, "template": template(labels)}
    await client.create(manifest("Deployment", "web", {"replicas": 5, **selecting}))
    database = {"selector": {"matchLabels": {"app": "db"}}, "template": template({"app": "db"})}
    await client.create(manifest("StatefulSet", "db", {"replicas": 2, "serviceName": "db", **database}))
    agent = {"selector": {"matchLabels": {"app": "agent"}}, "template": template({"app": "agent"})}
    await client.create(manifest("DaemonSet", "agent", agent))
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    job: dict[str, Any] = {"apiVersion": "batch/v1", "kind": "Job"}
    job["metadata"] = {"name": "once", "namespace": "default"}
    await client.create({**job, "spec": {"completions": 2, "template": {"spec": pod}}})
    service: dict[str, Any] = {"apiVersion": "v1", "kind": "Service"}
    service["metadata"] = {"name": "web", "namespace": "default"}
    await client.create({**service, "spec": {"selector": labels, "ports": [{"port": 80}]}})
    budget: dict[str, Any] = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    budget["metadata"] = {"name": "web", "namespace": "default"}
    await client.create({**budget, "spec": {"minAvailable": 3, "selector": {"matchLabels": labels}}})


async def test_idle_components_send_no_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = RequestCounter(monkeypatch)
    async with start_test_server("in-process", nodes=3) as server:
        client = server.client()
        await create_all_kinds(client)
        await client.wait(Deployment, name="web", namespace="default", until=condition("Available"))
        await client.wait(Job, name="once", namespace="default", until=condition("Complete"))
        await asyncio.sleep(5)
        await server.plane.wait_until_idle()
        counter.counts.clear()
        await asyncio.sleep(60)
        assert set(counter.counts) == {"patch/leases"}, counter.counts
        assert counter.counts["patch/leases"] == 3 * 6


async def test_wait_until_idle_covers_workloads() -> None:
    async with start_test_server("in-process", nodes=2) as server:
        client = server.client()
        await create_all_kinds(client)
        await server.plane.wait_until_idle()
        pods = await client.list(Pod, namespace="default", labels={"app": "web"})
        assert [pod.status.phase for pod in pods if pod.status is not None] == ["Running"] * 5
        stateful_set = await client.get(StatefulSet, "db", namespace="default")
        assert stateful_set.status is not None
        assert stateful_set.status.ready_replicas == 2
