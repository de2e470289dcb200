"""A metrics server: CPU and memory of nodes and pods from the summaries of the kubelets.

`kubectl top` and HorizontalPodAutoscalers read this API. Its objects are computed and not stored, so each
kind has a `Rest`. The summaries are requested through the API server, which authenticates to the kubelets.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from kubewright import APIServerApp, Column, resource
from kubewright.api import Duration, MetaObject, ObjectMeta, Quantity, Rbac, Struct, now
from kubewright.api.core.v1 import Node, Pod
from kubewright.client import Client, metadata_of
from kubewright.extension import Rest

GROUP = "metrics.k8s.io"
RESOLUTION = 15.0
"""Seconds for which a summary is used again."""
COLUMNS = (Column("CPU", ".usage.cpu"), Column("Memory", ".usage.memory"), Column("Window", ".window"))

log = logging.getLogger("metrics-server")


@resource(group=GROUP, version="v1beta1", plural="nodes", scope="Cluster", columns=COLUMNS)
class NodeMetrics(MetaObject):
    """Usage of a node."""

    timestamp: datetime | None = None
    """When the usage was measured."""
    window: Duration = Duration("10s")
    """The interval before the timestamp that it was measured over."""
    usage: dict[str, Quantity] = {}
    """CPU in cores and memory in bytes."""


class ContainerMetrics(Struct):
    """Usage of a container."""

    name: str
    usage: dict[str, Quantity]


@resource(group=GROUP, version="v1beta1", plural="pods")
class PodMetrics(MetaObject):
    """Usage of the containers of a pod."""

    timestamp: datetime | None = None
    """When the usage was measured."""
    window: Duration = Duration("10s")
    """The interval before the timestamp that it was measured over."""
    containers: list[ContainerMetrics] = []
    """Usage of each container."""


class Summaries:
    """The summaries of all kubelets, requested concurrently at most every `RESOLUTION` seconds."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._read = -RESOLUTION
        self._found: dict[str, Any] = {}

    async def get(self, client: Client) -> dict[str, Any]:
        """Return summaries by name of the node; nodes whose kubelet does not respond are missing."""
        async with self._lock:
            if time.monotonic() - self._read >= RESOLUTION:
                names = [node.name for node in await client.list(metadata_of(Node))]
                found = await asyncio.gather(*(self._summary(client, name) for name in names))
                self._found = {name: each for name, each in zip(names, found, strict=True) if each}
                self._read = time.monotonic()
            return self._found

    async def _summary(self, client: Client, node: str) -> Any:
        path = f"/api/v1/nodes/{node}/proxy/stats/summary"
        response = await client.rest.transport.send("GET", path, "only_cpu_and_memory=true", timeout=10.0)
        if response.status == 200:
            return json.loads(response.body)
        log.warning("kubelet did not respond", extra={"node": node, "status": response.status})
        return None


def usage_of(statistics: dict[str, Any]) -> dict[str, Quantity]:
    """Return the usage of a node or container in a summary."""
    return {
        "cpu": Quantity(f"{statistics['cpu'].get('usageNanoCores', 0)}n"),
        "memory": Quantity(f"{statistics['memory'].get('workingSetBytes', 0) // 1024}Ki"),
    }


class NodeUsage(Rest[NodeMetrics]):
    """Computes NodeMetrics."""

    async def list(self, *, namespace: str) -> list[NodeMetrics]:
        """Return the usage of all nodes."""
        found = await summaries.get(self.client)
        nodes = [node for node in await self.client.list(metadata_of(Node)) if node.name in found]
        return [
            NodeMetrics(
                metadata=ObjectMeta(name=node.name, labels=node.metadata.labels, creation_timestamp=now()),
                timestamp=datetime.fromisoformat(found[node.name]["node"]["cpu"]["time"]),
                usage=usage_of(found[node.name]["node"]),
            )
            for node in nodes
        ]


class PodUsage(Rest[PodMetrics]):
    """Computes PodMetrics."""

    async def list(self, *, namespace: str) -> list[PodMetrics]:
        """Return the usage of the pods of a namespace, or of all."""
        pods = {
            (pod.namespace, pod.name): pod.metadata.labels
            for pod in await self.client.list(metadata_of(Pod), namespace=namespace or None)
        }
        summaries_of_nodes = (await summaries.get(self.client)).values()
        return [each for summary in summaries_of_nodes for each in self._metrics(summary, pods)]

    def _metrics(self, summary: Any, pods: dict[tuple[str, str], Any]) -> Iterator[PodMetrics]:
        for pod in summary["pods"]:
            key = pod["podRef"]["namespace"], pod["podRef"]["name"]
            if key in pods and pod.get("containers"):
                namespace, name = key
                metadata = ObjectMeta(
                    name=name, namespace=namespace, labels=pods[key], creation_timestamp=now()
                )
                yield PodMetrics(
                    metadata=metadata,
                    timestamp=datetime.fromisoformat(pod["containers"][0]["cpu"]["time"]),
                    containers=[
                        ContainerMetrics(name=each["name"], usage=usage_of(each))
                        for each in pod["containers"]
                    ],
                )


summaries = Summaries()
app = APIServerApp("metrics-server")
app.add_permissions(
    Rbac(groups=("core",), resources=("nodes/proxy",), verbs=("get",)),
    Rbac(groups=("core",), resources=("nodes", "pods"), verbs=("get", "list")),
)
app.add(NodeMetrics, rest=NodeUsage(), verbs=("get", "list"))
app.add(PodMetrics, rest=PodUsage(), verbs=("get", "list"))
