"""Initialization of nodes from the cloud (`cloud-node-controller`).

A kubelet with an external cloud provider registers its node with the taint `uninitialized`. This controller
sets the provider ID, the addresses and the labels of instance type, zone and region, and removes the taint,
so that pods are scheduled. Later it updates the addresses periodically and keeps the deprecated and the
current labels equal.

Permissions: get, list, watch and patch of Nodes, patch of their status; create and patch of Events.

Addresses of a node: those of the cloud, restricted by the node IP that its kubelet was started with.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from kubewright.api.core.v1 import Node, NodeAddress
from kubewright.api.encoding.codec import decoder, to_plain
from kubewright.api.errors import Conflict
from kubewright.api.objects import Struct
from kubewright.cache.stores.store import CacheEntry, ObjectChange, labels_of
from kubewright.client import patches
from kubewright.controller import Controller, ControllerBuilder, Request, Result
from kubewright.controller.manager_protocol import ManagerProtocol
from kubewright.manager.events import EventRecorder

from .node_taints import UNINITIALIZED, has_taint, taints_change, taints_of
from .provider import CloudProvider, InstanceMetadata, Instances, RetryAfter
from .service_fields import provider_id

logger = logging.getLogger(__name__)

NAME: Final = "cloud-node-controller"
STATUS_INTERVAL: Final = 300.0
"""Seconds between updates of the addresses of a node."""
CONFLICT_RETRY: Final = 0.1

INSTANCE_TYPE: Final = ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type")
ZONE: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
REGION: Final = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
"""Deprecated and current label; the deprecated one has priority if they differ."""

_RESERVED: Final = re.compile(r"(^|\.)(kubernetes|k8s)\.io/")


class _TaintView(Struct):
    key: str | None = None


class _SpecView(Struct):
    taints: list[_TaintView] | None = None


class _NodeView(Struct):
    spec: _SpecView | None = None


_decode_view = decoder(_NodeView).decode


class NodeController:
    """Initializes nodes, and updates their addresses and labels."""

    def __init__(
        self,
        manager: ManagerProtocol,
        recorder: EventRecorder,
        provider: CloudProvider,
        *,
        interval: float = STATUS_INTERVAL,
        workers: int = 1,
    ) -> None:
        if provider.instances is None:
            raise ValueError(f"cloud provider {provider.name} does not support instances")
        self._manager = manager
        self._client = manager.client
        self._recorder = recorder
        self._provider = provider
        self._instances: Instances = provider.instances
        self._interval = interval
        self._workers = workers
        self._next_update: dict[str, float] = {}

    def add(self) -> Controller[Request]:
        """Add the controller to the manager."""
        builder: ControllerBuilder[Request] = ControllerBuilder(self._manager, NAME)
        builder.watches(Node, handler=self._on_node)
        return builder.with_options(workers=self._workers).complete(self.reconcile)

    def _on_node(self, change: ObjectChange) -> tuple[Request, ...]:
        """Enqueue new nodes, and nodes whose labels or taints have changed."""
        if change.new is None:
            self._next_update.pop(change.key.name, None)
            return ()
        if (
            change.old is not None
            and labels_of(change.old) == labels_of(change.new)
            and _is_uninitialized(change.old) == _is_uninitialized(change.new)
        ):
            return ()
        return (Request("", change.key.name),)

    async def reconcile(self, request: Request) -> Result | None:
        """Initialize a node, or update its labels and addresses."""
        node = await self._client.get_or_none(Node, request.name)
        if node is None:
            return None
        try:
            if has_taint(node, UNINITIALIZED):
                await self._initialize(node)
            else:
                await self._reconcile_labels(node)
        except Conflict:
            return Result(requeue_after=CONFLICT_RETRY)
        return await self._update_periodically(request.name)

    # Initialization

    async def _initialize(self, node: Node) -> None:
        metadata = await self._metadata(node)
        if metadata is None:
            return
        try:
            select_node_ips(node, metadata.addresses)
        except ValueError as error:
            raise ValueError(f'provided node ip for node "{node.name}" is not valid: {error}') from error
        kept = [taint for taint in taints_of(node) if taint.key != UNINITIALIZED]
        change: dict[str, Any] = taints_change(node, kept)
        change["metadata"]["labels"] = _labels(node, metadata)
        if not provider_id(node):
            change["spec"]["providerID"] = metadata.provider_id
        initialized = await self._client.patch(Node, node.name, patches.merge_patch(change))
        await self._set_addresses(initialized, metadata)
        self._schedule_update(node.name)
        self._recorder.event(node, "Normal", "Synced", "Node synced successfully")
        logger.info("initialized node", extra={"node": node.name, "provider_id": provider_id(initialized)})

    async def _metadata(self, node: Node) -> InstanceMetadata | None:
        try:
            found = await self._instances.metadata(node)
            if found is None:
                return None
            if self._provider.zones is not None and not found.zone and not found.region:
                zone = await self._provider.zones.zone(node)
                found = replace(found, zone=zone.zone, region=zone.region)
        except RetryAfter:
            raise
        except Exception as error:
            raise RuntimeError(f"failed to get instance metadata for node {node.name}: {error}") from error
        if not found.provider_id and not provider_id(node):
            raise RuntimeError(f"cloud provider does not set node provider ID for node {node.name}")
        return found

    # Updates

    async def _reconcile_labels(self, node: Node) -> None:
        labels = node.metadata.labels or {}
        change = {
            current: labels[deprecated]
            for deprecated, current in (ZONE, REGION, INSTANCE_TYPE)
            if deprecated in labels and labels.get(current) != labels[deprecated]
        }
        if change:
            patch = patches.merge_patch({"metadata": {"labels": change}})
            await self._client.patch(Node, node.name, patch)

    async def _update_periodically(self, name: str) -> Result:
        now = asyncio.get_running_loop().time()
        due = self._next_update.get(name, now)
        if now >= due:
            due = self._schedule_update(name)
            await self._update_addresses(name)
        return Result(requeue_after=due - now)

    def _schedule_update(self, name: str) -> float:
        due = self._next_update[name] = asyncio.get_running_loop().time() + self._interval
        return due

    async def _update_addresses(self, name: str) -> None:
        node = await self._client.get_or_none(Node, name)
        if node is None or has_taint(node, UNINITIALIZED):
            return
        try:
            metadata = await self._instances.metadata(node)
        except Exception as error:
            logger.warning("could not read addresses of node", extra={"node": name, "error": str(error)})
            return
        if metadata is not None:
            await self._set_addresses(node, metadata)

    async def _set_addresses(self, node: Node, metadata: InstanceMetadata) -> None:
        if not metadata.addresses:
            return
        try:
            wanted = node_addresses(node, metadata.addresses)
        except ValueError as error:
            logger.warning(
                "could not update addresses of node", extra={"node": node.name, "error": str(error)}
            )
            return
        if addresses_differ(node.status.addresses if node.status is not None else None, wanted):
            change = {"status": {"addresses": [to_plain(one) for one in wanted]}}
            await self._client.patch(Node, node.name, patches.merge_patch(change), subresource="status")


def _is_uninitialized(entry: CacheEntry) -> bool:
    spec = _decode_view(entry.raw).spec
    return any(taint.key == UNINITIALIZED for taint in (spec.taints if spec is not None else None) or ())


def _labels(node: Node, metadata: InstanceMetadata) -> dict[str, str]:
    """Return the labels to add to a node."""
    labels: dict[str, str] = {}
    for keys, value in (
        (INSTANCE_TYPE, metadata.instance_type),
        (ZONE, metadata.zone),
        (REGION, metadata.region),
    ):
        if value:
            labels.update(dict.fromkeys(keys, value))
    existing = node.metadata.labels or {}
    for key, value in metadata.labels.items():
        if _RESERVED.search(key) or key in existing:
            logger.debug("ignored label of cloud provider", extra={"node": node.name, "label": key})
        else:
            labels[key] = value
    return labels


PROVIDED_IP_ANNOTATION: Final = "alpha.kubernetes.io/provided-node-ip"
HOST_NAME: Final = "Hostname"

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def node_addresses(node: Node, addresses: Sequence[NodeAddress]) -> list[NodeAddress]:
    """Return the addresses that a node should have, from those of its instance.

    If the cloud reports no host name, the node keeps its own. A node IP of the kubelet becomes the first
    address, and the only one of its type. Raises `ValueError` if the cloud does not have that IP.
    """
    found = list(addresses)
    if not any(one.type == HOST_NAME for one in found):
        current = (node.status.addresses if node.status is not None else None) or ()
        found += [one for one in current if one.type == HOST_NAME]
    return select_node_ips(node, found)


def select_node_ips(node: Node, addresses: Sequence[NodeAddress]) -> list[NodeAddress]:
    """Apply the annotation with the node IPs of a kubelet; raises `ValueError` if an IP does not match."""
    provided = (node.metadata.annotations or {}).get(PROVIDED_IP_ANNOTATION)
    if provided is None:
        return list(addresses)
    chosen: list[NodeAddress] = []
    for text in provided.split(","):
        ip = _parse(text)
        if ip is None:
            raise ValueError(f'failed to parse node IP "{provided}"')
        matching = [one for one in addresses if _parse(one.address or "") == ip]
        if not matching:
            raise ValueError(f"failed to get node address from cloud provider that matches ip: {ip}")
        chosen += matching
    types = {one.type for one in chosen}
    return chosen + [one for one in addresses if one.type not in types]


def addresses_differ(current: Sequence[NodeAddress] | None, wanted: Sequence[NodeAddress]) -> bool:
    """Whether the addresses of a node have to be written."""
    return [(one.type, one.address) for one in current or ()] != [(one.type, one.address) for one in wanted]


def _parse(text: str) -> IPAddress | None:
    try:
        return ipaddress.ip_address(text.strip())
    except ValueError:
        return None
