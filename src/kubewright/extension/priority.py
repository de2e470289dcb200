"""Priority and fairness of an extension API server, with the FlowSchemas and priority levels of its cluster.

Go API servers do the same: a request is assigned to the first FlowSchema that matches, by precedence; its
priority level gets a part of `max_requests_in_flight`, in the ratio of the shares of all levels.

Without permission to read them, or with a cluster that does not have them, the limits per user of the server
apply.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from kubewright.api.codec import to_plain
from kubewright.api.errors import APIError
from kubewright.api.flowcontrol.v1 import FlowSchema, PriorityLevelConfiguration
from kubewright.apiserver.flow_control import EXEMPT, Flow, FlowControl, PriorityLevel
from kubewright.cache import Cache
from kubewright.client.errors import NoKindMatch
from kubewright.controlplane.flow_classifier import by_precedence, matching_schema

if TYPE_CHECKING:
    from kubewright.apiserver.authentication.user import User
    from kubewright.apiserver.http.request_info import RequestInfo
    from kubewright.apiserver.server import APIServer
    from kubewright.client import Client

logger = logging.getLogger(__name__)

Object = dict[str, Any]
KINDS = (FlowSchema, PriorityLevelConfiguration)


class ClusterPriorities:
    """Watches FlowSchemas and PriorityLevelConfigurations of a cluster, and updates a `FlowControl`."""

    def __init__(self, cache: Cache, seats: int) -> None:
        self._cache = cache
        self._total = seats
        self._schemas: list[Object] | None = None
        self.control = FlowControl({}, self.classify)

    async def update(self) -> None:
        """Read the objects from the cache."""
        schemas = [to_plain(each) for each in await self._cache.list(FlowSchema)]
        self._schemas = by_precedence(schemas)
        levels = await self._cache.list(PriorityLevelConfiguration)
        self.control.set_levels(priority_levels([to_plain(each) for each in levels], self._total))

    def classify(self, user: User, info: RequestInfo) -> Flow:
        """Return the level and flow of a request."""
        schema = matching_schema(self._schemas or (), user, info)
        if schema is None:
            return Flow("", "")
        spec = schema["spec"]
        method = (spec.get("distinguisherMethod") or {}).get("type")
        flow = {"ByUser": user.name, "ByNamespace": info.namespace}.get(method or "", "")
        return Flow(spec["priorityLevelConfiguration"]["name"], f"{schema['metadata']['name']}/{flow}")


def priority_levels(objects: list[Object], seats: int) -> dict[str, PriorityLevel]:
    """Return the levels of PriorityLevelConfigurations, with their parts of the seats, rounded up."""
    limits = {
        each["metadata"]["name"]: each["spec"].get("limited") or {}
        for each in objects
        if each["spec"].get("type") == "Limited"
    }
    shares = {name: _shares(limit) for name, limit in limits.items()}
    total = sum(shares.values()) or 1
    levels = {each["metadata"]["name"]: EXEMPT for each in objects if each["spec"].get("type") == "Exempt"}
    for name, limit in limits.items():
        response = limit.get("limitResponse") or {}
        queuing = response.get("queuing") or {}
        length = queuing.get("queueLengthLimit", 50) if response.get("type") == "Queue" else 0
        levels[name] = PriorityLevel(seats=-(-seats * shares[name] // total), queue_length=length)
    return levels


def _shares(limit: Object) -> int:
    shares = limit.get("nominalConcurrencyShares")
    return 30 if shares is None else int(shares)


@asynccontextmanager
async def cluster_priorities(client: Client, server: APIServer) -> AsyncIterator[None]:
    """Set the flow control of a server from its cluster, until the block ends."""
    cache = Cache(client, allow=KINDS, resync=None)
    priorities = ClusterPriorities(cache, server.max_in_flight + server.max_mutating_in_flight)
    try:
        for kind in KINDS:
            await client.list(kind, limit=1)
    except (APIError, NoKindMatch) as error:
        logger.warning("cannot read priority levels of the cluster", extra={"error": str(error)})
        yield
        return
    changed = asyncio.Event()
    await cache.start()
    try:
        for kind in KINDS:
            informer = await cache.informer(kind)
            informer.add_handler(lambda *_: changed.set())
        await cache.wait_for_sync()
        await priorities.update()
        server.flow_control = priorities.control

        async def follow() -> None:
            while True:
                await changed.wait()
                changed.clear()
                await priorities.update()

        following = asyncio.create_task(follow(), name="priority levels")
        try:
            yield
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            server.flow_control = None
    finally:
        await cache.stop()


__all__ = ["ClusterPriorities", "cluster_priorities", "priority_levels"]
