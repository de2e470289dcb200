"""Routes to the pods of nodes (`node-route-controller`).

For each pod CIDR of a node the cloud gets a route to the node. The condition NetworkUnavailable of the node
is False when its routes exist. Routes within the cluster CIDRs that no node needs are deleted.

Permissions: list and watch of Nodes, patch of their status; create and patch of Events.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Coroutine, Iterable, Sequence
from typing import Final

from kubewright.api.core.v1 import Node, NodeAddress
from kubewright.api.errors import NotFound
from kubewright.api.meta import ObjectReference
from kubewright.api.values.times import format_time, now
from kubewright.cache.stores.store import ObjectChange
from kubewright.client import patches
from kubewright.controller import Controller, ControllerBuilder, Request, Result
from kubewright.controller.manager_protocol import ManagerProtocol
from kubewright.manager.events import EventRecorder

from .provider import Route, Routes

logger = logging.getLogger(__name__)

NAME: Final = "node-route-controller"
EVENT_SOURCE: Final = "route_controller"
RECONCILE_INTERVAL: Final = 10.0
"""Seconds between two reconciles of all routes."""
MAX_CONCURRENT_CALLS: Final = 200
NETWORK_UNAVAILABLE: Final = "NetworkUnavailable"
_ALL_ROUTES: Final = Request("", "routes")


class RouteController:
    """Reconciles the routes of all nodes together."""

    def __init__(
        self,
        manager: ManagerProtocol,
        recorder: EventRecorder,
        routes: Routes,
        *,
        cluster_cidrs: Sequence[str],
        cluster: str = "kubernetes",
        interval: float = RECONCILE_INTERVAL,
    ) -> None:
        """`cluster_cidrs`: ranges of pod addresses; routes outside of them are not deleted."""
        self._manager = manager
        self._client = manager.client
        self._recorder = recorder
        self._routes = routes
        self._cluster = cluster
        self._cluster_cidrs = [ipaddress.ip_network(cidr) for cidr in cluster_cidrs]
        self._interval = interval
        self._next_reconcile = 0.0
        self._calls = asyncio.Semaphore(MAX_CONCURRENT_CALLS)

    def add(self) -> Controller[Request]:
        """Add the controller to the manager."""
        builder: ControllerBuilder[Request] = ControllerBuilder(self._manager, NAME)
        return builder.watches(Node, handler=self._on_node).complete(self.reconcile)

    def _on_node(self, change: ObjectChange) -> Iterable[Request]:
        if change.old is not None and change.new is not None:
            old, new = change.old.decode(Node), change.new.decode(Node)
            if _cidrs(old) == _cidrs(new) and _addresses(old) == _addresses(new):
                return ()
        return (_ALL_ROUTES,)

    async def reconcile(self, request: Request) -> Result:
        """Create missing routes, delete the others, and set the conditions of the nodes."""
        wait = self._next_reconcile - asyncio.get_running_loop().time()
        if wait > 0:
            return Result(requeue_after=wait)
        self._next_reconcile = asyncio.get_running_loop().time() + self._interval
        routes = await self._routes.list(self._cluster)
        nodes = [node for node in await self._client.list(Node) if node.metadata.deletion_timestamp is None]
        existing = {(route.target_node, _normalized(route.destination_cidr)): route for route in routes}
        wanted = {
            (node.name, _normalized(cidr)): Route(
                destination_cidr=cidr, target_node=node.name, target_addresses=_addresses(node)
            )
            for node in nodes
            for cidr in _cidrs(node)
        }
        present = {key for key in wanted if key in existing and _is_current(existing[key], wanted[key])}
        await self._run(
            self._delete(route)
            for route in routes
            if self._is_managed(route)
            and (route.blackhole or (route.target_node, _normalized(route.destination_cidr)) not in present)
        )
        by_name = {node.name: node for node in nodes}
        missing = [key for key in wanted if key not in present]
        results = await asyncio.gather(*(self._create(by_name[key[0]], wanted[key]) for key in missing))
        failed = {key[0] for key, created in zip(missing, results, strict=True) if not created}
        targets = {route.target_node for route in routes}
        await self._run(
            self._set_condition(node, bool(_cidrs(node)) and node.name not in failed)
            for node in nodes
            if _cidrs(node) or node.name in targets
        )
        return Result(requeue_after=self._interval)

    async def _run(self, calls: Iterable[Coroutine[object, object, None]]) -> None:
        await asyncio.gather(*calls)

    def _is_managed(self, route: Route) -> bool:
        """Whether a route is within the cluster CIDRs."""
        try:
            network = ipaddress.ip_network(route.destination_cidr, strict=False)
        except ValueError:
            return False
        return any(network.version == cidr.version and network.overlaps(cidr) for cidr in self._cluster_cidrs)

    async def _delete(self, route: Route) -> None:
        fields = {"node": route.target_node, "cidr": route.destination_cidr, "route": route.name}
        try:
            async with self._calls:
                await self._routes.delete(self._cluster, route)
        except Exception as error:
            logger.warning("could not delete route", extra={**fields, "error": str(error)})
        else:
            logger.info("deleted route", extra=fields)

    async def _create(self, node: Node, route: Route) -> bool:
        hint = node.metadata.uid or ""
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with self._calls:
                await self._routes.create(self._cluster, hint, route)
        except Exception as error:
            text = (
                f"Could not create route {hint} {route.destination_cidr} for node {node.name} "
                f"after {loop.time() - started:.3g}s: {error}"
            )
            about = ObjectReference(api_version="v1", kind="Node", name=node.name, uid=node.metadata.uid)
            self._recorder.event(about, "Warning", "FailedToCreateRoute", text)
            return False
        logger.info("created route", extra={"node": node.name, "cidr": route.destination_cidr})
        return True

    async def _set_condition(self, node: Node, created: bool) -> None:
        status, reason, message = (
            ("False", "RouteCreated", "RouteController created a route")
            if created
            else ("True", "NoRouteCreated", "RouteController failed to create a route")
        )
        conditions = (node.status.conditions if node.status is not None else None) or ()
        if any(
            one.type == NETWORK_UNAVAILABLE and one.status == status and one.reason == reason
            for one in conditions
        ):
            return
        stamp = format_time(now())
        condition = {
            "type": NETWORK_UNAVAILABLE,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": stamp,
            "lastTransitionTime": stamp,
        }
        patch = patches.strategic_merge_patch({"status": {"conditions": [condition]}})
        try:
            await self._client.patch(Node, node.name, patch, subresource="status")
        except NotFound:
            return


def _is_current(existing: Route, wanted: Route) -> bool:
    """Whether a route can stay: it has a target, which is the wanted one if the cloud reports addresses."""
    if existing.blackhole:
        return False
    if existing.target_addresses is None:
        return True
    return _pairs(existing.target_addresses) == _pairs(wanted.target_addresses or ())


def _pairs(addresses: Sequence[NodeAddress]) -> set[tuple[str | None, str | None]]:
    return {(one.type, one.address) for one in addresses}


def _cidrs(node: Node) -> list[str]:
    return list((node.spec.pod_cidrs if node.spec is not None else None) or ())


def _addresses(node: Node) -> list[NodeAddress]:
    return list((node.status.addresses if node.status is not None else None) or ())


def _normalized(cidr: str) -> str:
    try:
        return str(ipaddress.ip_network(cidr, strict=False))
    except ValueError:
        return cidr
