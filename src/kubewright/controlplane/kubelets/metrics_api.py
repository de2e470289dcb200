"""The API group metrics.k8s.io, which `kubectl top` reads: usage of pods and nodes at the time of a request.

The values of simulated nodes and their pods are those of `Workloads.metrics`. Other nodes report their usage
(`kubelet_usage`); what they have not reported is not in a list, and not found. The group is served if the
control plane runs nodes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import json

from kubewright.api.errors import not_found
from kubewright.api.gvk import GroupResource
from kubewright.api.values.times import format_time, now
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.resource import Resource, Version
from kubewright.apiserver.rest.options import parse_list_options
from kubewright.apiserver.rest.selection import make_selection

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubewright.apiserver.resources.subresource import SubresourceRequest
    from kubewright.apiserver.server import APIServer
    from kubewright.workloads.pod_metrics import MetricsSource, Usage

    from .kubelet_usage import NodeUsage

GROUP = "metrics.k8s.io"
VERSION = "v1beta1"
WINDOW = "30s"
"""The interval that a metrics server would have measured."""


class MetricsAPI:
    """Serves PodMetrics and NodeMetrics."""

    def __init__(self, server: APIServer, source: Callable[[], MetricsSource]) -> None:
        self._server = server
        self._source = source

    def resources(self) -> list[Resource]:
        """Return the resources of the group."""
        return [
            Resource(
                group=GROUP,
                kind="PodMetrics",
                plural="pods",
                versions=(Version(name=VERSION),),
                verbs=("get", "list"),
                storage_version_hash=False,
                handlers={"get": self._get_pod, "list": self._list_pods},
            ),
            Resource(
                group=GROUP,
                kind="NodeMetrics",
                plural="nodes",
                versions=(Version(name=VERSION),),
                namespaced=False,
                verbs=("get", "list"),
                storage_version_hash=False,
                handlers={"get": self._get_node, "list": self._list_nodes},
            ),
        ]

    async def _objects(self, plural: str, namespace: str = "") -> list[Object]:
        store = self._server.store("", plural)
        assert store is not None
        version = store.resource.version("v1")
        assert version is not None
        found, _ = await store.list_objects(version, namespace)
        return list(found)

    async def _real_nodes(self) -> dict[str, NodeUsage | None]:
        """Return the usage of the nodes that are not simulated; `None` if it is not available."""
        from .kubelets import kubelet_address, read_usage

        nodes = await self._objects("nodes")
        real = [node for node in nodes if (found := kubelet_address(node)) and not found.is_simulated]
        usages = await asyncio.gather(*(read_usage(self._server, node) for node in real))
        return {node["metadata"]["name"]: usage for node, usage in zip(real, usages, strict=True)}

    async def _containers(self, pod: Object, real: dict[str, NodeUsage | None]) -> dict[str, Usage]:
        node = (pod.get("spec") or {}).get("nodeName") or ""
        if node in real:
            usage, metadata = real[node], pod["metadata"]
            return usage.pod(metadata["namespace"], metadata["name"]) if usage is not None else {}
        # The types of the core group are imported with the first request, not when the server starts.
        from kubewright.api.core.v1 import Pod
        from kubewright.api.encoding.codec import decode

        return await self._source().containers(decode(json.encode(pod), Pod))

    async def _pod_metrics(self, obj: Object, real: dict[str, NodeUsage | None]) -> Object | None:
        containers = await self._containers(obj, real)
        if not containers:
            return None
        return {
            "kind": "PodMetrics",
            **_header(obj, real.get((obj.get("spec") or {}).get("nodeName") or "")),
            "containers": [{"name": name, "usage": _usage(usage)} for name, usage in containers.items()],
        }

    async def _node_metrics(
        self, obj: Object, pods: list[Object], real: dict[str, NodeUsage | None]
    ) -> Object | None:
        from kubewright.workloads.pod_metrics import total_usage

        name = obj["metadata"]["name"]
        if name in real:
            found = real[name]
            if found is None or found.node is None:
                return None
            return {"kind": "NodeMetrics", **_header(obj, found), "usage": _usage(found.node)}
        usages: list[Usage] = []
        for pod in pods:
            if (pod.get("spec") or {}).get("nodeName") == name:
                usages += (await self._containers(pod, real)).values()
        usage = _usage(total_usage(usages)) or {"cpu": "0", "memory": "0"}
        return {"kind": "NodeMetrics", **_header(obj), "usage": usage}

    async def _get_pod(self, request: SubresourceRequest) -> Object:
        real = await self._real_nodes()
        for obj in await self._objects("pods", request.namespace):
            if obj["metadata"]["name"] == request.name and (found := await self._pod_metrics(obj, real)):
                return found
        raise not_found(GroupResource(GROUP, "pods"), f"{request.namespace}/{request.name}")

    async def _list_pods(self, request: SubresourceRequest) -> Object:
        real = await self._real_nodes()
        found = [await self._pod_metrics(obj, real) for obj in await self._objects("pods", request.namespace)]
        return _list(request, "PodMetricsList", [item for item in found if item is not None])

    async def _get_node(self, request: SubresourceRequest) -> Object:
        real, pods = await self._real_nodes(), await self._objects("pods")
        for obj in await self._objects("nodes"):
            if obj["metadata"]["name"] == request.name and (
                found := await self._node_metrics(obj, pods, real)
            ):
                return found
        raise not_found(GroupResource(GROUP, "nodes"), request.name)

    async def _list_nodes(self, request: SubresourceRequest) -> Object:
        real, pods = await self._real_nodes(), await self._objects("pods")
        found = [await self._node_metrics(obj, pods, real) for obj in await self._objects("nodes")]
        return _list(request, "NodeMetricsList", [item for item in found if item is not None])


def _header(obj: Object, measured: NodeUsage | None = None) -> Object:
    moment = format_time(now())
    meta = obj["metadata"]
    metadata = {"name": meta["name"], "creationTimestamp": moment}
    for key in ("namespace", "labels"):
        if meta.get(key):
            metadata[key] = meta[key]
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "metadata": metadata,
        "timestamp": moment,
        "window": f"{measured.window:.3f}s" if measured is not None else WINDOW,
    }


def _usage(usage: Usage) -> dict[str, str]:
    return {name: str(value) for name, value in usage.items()}


def _list(request: SubresourceRequest, kind: str, items: list[Object]) -> Object:
    options = parse_list_options(request.request)
    selection = make_selection(request.resource, request.version, options.labels, options.fields)
    if selection is not None:
        items = [item for item in items if selection.matches(selection.selectable(json.encode(item)))]
    return {"kind": kind, "apiVersion": f"{GROUP}/{VERSION}", "metadata": {}, "items": items}
