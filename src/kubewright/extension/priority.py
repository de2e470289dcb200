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
from typing import TYPE_CHECKING

from kubewright.api.encoding.codec import to_plain
from kubewright.api.errors import APIError
from kubewright.api.flowcontrol.v1 import FlowSchema, PriorityLevelConfiguration
from kubewright.apiserver.priority.flow_control import Flow, FlowControl
from kubewright.apiserver.priority.work_estimate import WorkEstimator
from kubewright.apiserver.resources.objects import Object
from kubewright.background import run_forever
from kubewright.cache import Cache
from kubewright.client.errors import NoKindMatch
from kubewright.controlplane.priority.flow_classifier import (
    by_precedence,
    flow_of,
    matching_schema,
    priority_levels,
)
from kubewright.controlplane.priority.flow_metrics import FlowMetrics

if TYPE_CHECKING:
    from kubewright.apiserver.authentication.user import User
    from kubewright.apiserver.http.request_info import RequestInfo
    from kubewright.apiserver.server import APIServer
    from kubewright.client import Client

logger = logging.getLogger(__name__)

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
        return Flow("", "") if schema is None else flow_of(schema, user, info)


@asynccontextmanager
async def cluster_priorities(client: Client, server: APIServer) -> AsyncIterator[None]:
    """Set the flow control of a server from its cluster, until the block ends."""
    cache = Cache(client, allow=KINDS, resync=0)
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
        priorities.control.estimate = WorkEstimator(server).estimate
        server.flow_control = priorities.control
        metrics = FlowMetrics(priorities.control, server.max_in_flight + server.max_mutating_in_flight)
        server.metrics.registry.register(metrics)

        async def follow() -> None:
            while True:
                await changed.wait()
                changed.clear()
                await priorities.update()

        following = run_forever(follow, name="priority levels")
        try:
            yield
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            server.flow_control = None
            server.metrics.registry.unregister(metrics)
    finally:
        await cache.stop()
