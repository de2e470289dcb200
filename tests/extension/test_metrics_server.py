"""The metrics server on simulated nodes: API, kubectl top, and an autoscaler that reads it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import metrics_server
from kubewright import Client, ObjectMeta
from kubewright.api.apiregistration.v1 import APIService
from kubewright.api.core.v1 import Container, Pod, PodSpec
from kubewright.api.declaring.declarations import Rbac
from kubewright.api.errors import MethodNotAllowed, NotFound
from kubewright.testing import TestServer, run_app, start_test_server
from metrics_server import GROUP, NodeMetrics, PodMetrics, app

from .kubectl import Kubectl, requires_kubectl


@asynccontextmanager
async def start_cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[TestServer, Client]]:
    """Two simulated nodes with a pod, whose usage is set."""
    monkeypatch.setattr(metrics_server, "RESOLUTION", 0.0)
    async with start_test_server("tls", nodes=2) as server:
        client = server.client()
        server.plane.workloads.simulated_metrics.set_usage("default", "app=web", cpu="250m", memory="64Mi")
        containers = [Container(name="main", image="web"), Container(name="side", image="log")]
        metadata = ObjectMeta(name="web", namespace="default", labels={"app": "web"})
        await client.create(Pod(metadata=metadata, spec=PodSpec(containers=containers)))
        await client.wait(
            Pod,
            "web",
            namespace="default",
            until=lambda pod: bool(pod and pod.status and pod.status.phase == "Running"),
            timeout=60,
        )
        async with run_app(app, client):
            yield server, client


async def test_metrics_of_nodes_and_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    async with start_cluster(monkeypatch) as (server, client):
        service = await client.get(APIService, f"v1beta1.{GROUP}")
        assert service.spec is not None
        assert service.spec.service is not None  # it takes the place of the simulated metrics API
        pod = await client.get(PodMetrics, "web", namespace="default")
        assert {each.name: each.usage["cpu"].as_int(-3) for each in pod.containers} == {
            "main": 250,
            "side": 250,
        }
        assert str(pod.containers[0].usage["memory"]) == "64Mi"
        assert pod.metadata.labels == {"app": "web"}
        nodes = await client.list(NodeMetrics)
        assert sum(node.usage["cpu"].as_int(-3) for node in nodes) == 500
        assert len(nodes) == 2
        assert len(await client.list(PodMetrics, labels={"app": "other"})) == 0
        server.plane.workloads.simulated_metrics.set_usage("default", "app=web", cpu="100m")
        assert (
            str((await client.get(PodMetrics, "web", namespace="default")).containers[0].usage["cpu"])
            == "100m"
        )
        with pytest.raises(NotFound):
            await client.get(PodMetrics, "missing", namespace="default")
        with pytest.raises(MethodNotAllowed):
            await client.delete(PodMetrics, "web", namespace="default")


async def test_the_simulated_api_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    async with start_test_server("in-process", nodes=1) as server:
        client = server.client()
        async with run_app(app, client):
            pass
        async with asyncio.timeout(60):
            await client.wait(
                APIService,
                f"v1beta1.{GROUP}",
                until=lambda found: bool(found and found.spec and found.spec.service is None),
            )
            while (await client.rest.transport.send("GET", f"/apis/{GROUP}/v1beta1/nodes")).status != 200:
                await asyncio.sleep(0.05)


@requires_kubectl
async def test_kubectl_top(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with start_cluster(monkeypatch) as (server, _):
        kubectl = Kubectl(server, tmp_path)
        lines = [line.split() for line in (await kubectl("top", "pods", "--containers")).splitlines()]
        assert lines[0] == ["POD", "NAME", "CPU(cores)", "MEMORY(bytes)"]
        assert lines[1] == ["web", "main", "250m", "64Mi"]
        nodes = await kubectl("top", "nodes")
        assert "500m" in nodes
        assert "node-0" in nodes
        raw = await kubectl("get", "--raw", f"/apis/{GROUP}/v1beta1/namespaces/default/pods")
        assert '"kind":"PodMetricsList"' in raw
        explained = await kubectl("explain", "nodes.usage", f"--api-version={GROUP}/v1beta1")
        assert "CPU in cores" in explained
        applied = await kubectl.run("apply", "--server-side", "-f", "-", input=_MANIFEST)
        assert "does not allow this method" in applied.text or "not support" in applied.text, applied.text


_MANIFEST = b"""
apiVersion: metrics.k8s.io/v1beta1
kind: NodeMetrics
metadata:
  name: node-0
"""


def test_permissions_of_the_server() -> None:
    rules = {
        (resource, verb)
        for rule in app.server_declarations()
        if isinstance(rule, Rbac)
        for resource in rule.resources
        for verb in rule.verbs
    }
    assert {("nodes/proxy", "get"), ("nodes", "list"), ("pods", "list")} <= rules
    assert not app.stores_objects
