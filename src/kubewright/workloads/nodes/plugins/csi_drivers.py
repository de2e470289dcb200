"""`CSIDrivers`: the CSI drivers of one simulated node, and its CSINode object."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from kubewright.api.errors import Conflict, NotFound
from kubewright.api.gvk import GroupVersionResource
from kubewright.client.patches import merge_patch
from kubewright.node.csi.client import CSIClient
from kubewright.node.csi.messages import NodeGetInfoResponse
from kubewright.node.csi.services import NODE_GET_INFO
from kubewright.node.errors import InvalidArgument
from kubewright.node.messages import Empty
from kubewright.node.plugin_registration import PluginInfo
from kubewright.workloads.nodes.objects import Object
from kubewright.workloads.nodes.registration.node_registration import NODES
from kubewright.workloads.nodes.registration.node_state import NodeState

if TYPE_CHECKING:
    from kubewright.client.client import Client

CSI_NODES: Final = GroupVersionResource("storage.k8s.io", "v1", "csinodes")
NODE_ID: Final = "csi.volume.kubernetes.io/nodeid"
MANAGED_ATTACH: Final = "volumes.kubernetes.io/controller-managed-attach-detach"
_ATTEMPTS: Final = 5


class CSIDrivers:
    """Connections to the drivers, by name."""

    def __init__(self, node: NodeState, client: Client) -> None:
        self._node = node
        self._client = client
        self._clients: dict[str, CSIClient] = {}
        self._node_ids: dict[str, str] = {}

    def get(self, name: str) -> CSIClient | None:
        """Return a registered driver."""
        return self._clients.get(name)

    async def register(self, info: PluginInfo) -> None:
        """Connect to a driver and add it to the CSINode; raise `RPCError`, `APIError` or `TimeoutError`."""
        client = CSIClient(info.endpoint)
        try:
            await client.connect(node=True)
            if client.name != info.name:
                raise InvalidArgument(f"the driver is named {client.name}, but has registered as {info.name}")
            found = await client.call(NODE_GET_INFO, Empty())
            if not found.node_id:
                raise InvalidArgument("the driver has returned no node ID")
            await self._describe_node(info.name, found)
            await self._write(info.name, _entry(info.name, found))
        except BaseException:
            await client.close()
            raise
        before = self._clients.get(info.name)
        self._clients[info.name] = client
        if before is not None:
            await before.close()

    async def remove(self, name: str) -> None:
        """Remove a driver."""
        client = self._clients.pop(name, None)
        if client is not None:
            await client.close()
        await self._write(name, None)

    async def close(self) -> None:
        """Close all connections; the drivers stay in the CSINode."""
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.close()

    async def _describe_node(self, name: str, info: NodeGetInfoResponse) -> None:
        """Set the topology of the driver as labels of the node, and the annotations of a kubelet.

        The attach-detach controller of Kubernetes ignores nodes without the annotation.
        """
        self._node_ids[name] = info.node_id
        annotations = {MANAGED_ATTACH: "true", NODE_ID: json.dumps(self._node_ids, sort_keys=True)}
        change: Object = {"metadata": {"annotations": annotations}}
        if info.accessible_topology is not None:
            change["metadata"]["labels"] = dict(info.accessible_topology.segments)
        await self._client.patch(NODES, self._node.name, merge_patch(change))

    async def _write(self, name: str, entry: Object | None) -> None:
        """Replace the entry of a driver in the CSINode, which is created if it does not exist."""
        for attempt in range(_ATTEMPTS):
            try:
                node = (await self._client.get(CSI_NODES, self._node.name)).raw
            except NotFound:
                if entry is None:
                    return
                await self._create(entry)
                return
            drivers = (node.get("spec") or {}).get("drivers") or []
            kept = [each for each in drivers if each["name"] != name]
            node["spec"] = {"drivers": kept + ([entry] if entry is not None else [])}
            try:
                await self._client.update(node)
                return
            except Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise

    async def _create(self, entry: Object) -> None:
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._node.name, "uid": self._node.uid}
        node: Object = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": self._node.name, "ownerReferences": [owner]},
            "spec": {"drivers": [entry]},
        }
        await self._client.create(node)


def _entry(name: str, info: NodeGetInfoResponse) -> Object:
    topology = info.accessible_topology
    entry: Object = {
        "name": name,
        "nodeID": info.node_id,
        "topologyKeys": sorted(topology.segments) if topology is not None else None,
    }
    if info.max_volumes_per_node > 0:
        entry["allocatable"] = {"count": info.max_volumes_per_node}
    return entry
