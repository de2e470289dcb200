"""The API group metrics.k8s.io of a control plane with nodes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from multidict import CIMultiDict

from kubewright.client.rest.request import APIRequest
from kubewright.testing.server import start_test_server


async def test_usage_of_pods_and_nodes() -> None:
    async with start_test_server("in-process", nodes=1) as server:
        client = server.client()
        requests = {"requests": {"cpu": "200m", "memory": "64Mi"}}
        pod: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "web",
                "namespace": "default",
                "labels": {"app": "web"},
                "annotations": {"sim.kubewright.dev/memory": "20Mi"},
            },
            "spec": {
                "nodeName": "node-0",
                "containers": [{"name": "c", "image": "i", "resources": requests}],
            },
        }
        async with asyncio.timeout(60):
            while await client.get_or_none("serviceaccounts", "default", namespace="default") is None:
                await asyncio.sleep(0.01)
            await client.create(pod)
            while not (found := list(await client.list("pods.metrics.k8s.io", namespace="default"))):
                await asyncio.sleep(0.02)
        (container,) = found[0].raw["containers"]
        assert container == {"name": "c", "usage": {"cpu": "100m", "memory": "20Mi"}}
        assert found[0].raw["window"] == "30s"
        (node,) = await client.list("nodes.metrics.k8s.io")
        assert node.raw["usage"]["cpu"] == "100m"
        # kubectl prefers protobuf, which these kinds do not have.
        accept = CIMultiDict({"Accept": "application/vnd.kubernetes.protobuf,application/json"})
        path = "/apis/metrics.k8s.io/v1beta1/nodes"
        response = await client.rest.send(APIRequest("list", "GET", path, "", accept))
        assert json.loads(response.body)["kind"] == "NodeMetricsList"
        assert not list(await client.list("pods.metrics.k8s.io", namespace="default", labels={"app": "x"}))
