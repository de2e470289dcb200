"""Runs a fleet: a manager for each cluster, from when it joins until it leaves.

Each cluster has its own client, cache, event recorder, controllers and queues, so that a cluster that does
not respond, or whose reconciles are slow, does not delay the others. The task of a cluster

1. checks the connection,
2. in development installs the CRDs,
3. runs a `Manager` with the functions of the fleet, which shares the leadership of the operator,
4. checks the connection periodically, and after an interruption retries watches and failed requests.

After a failure it starts again with a growing delay. When a cluster leaves, its manager is stopped as at the
end of the process: running reconciles finish, queued requests are dropped. The operator is ready
independently of the clusters of its fleets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any

from kubewright.api.errors import APIError, Unauthorized
from kubewright.background import run_forever
from kubewright.client import Client
from kubewright.client.backoff import Backoff
from kubewright.client.config.cluster_config import ClusterConfig
from kubewright.controller.causes import SOURCE
from kubewright.controller.queues.queue import LOW_PRIORITY
from kubewright.controller.request import Request, current_cluster
from kubewright.manager.cluster import Cluster
from kubewright.manager.events import EventRecorder
from kubewright.manager.manager import Manager
from kubewright.manager.observability.trace_feed import controllers_of
from kubewright.manager.operators.cluster_runtime import ClusterRuntime, FleetWatch, add_functions
from kubewright.manager.operators.installation import install_definitions, require_served
from kubewright.manager.operators.installed_kinds import installed_kinds, required_kinds
from kubewright.manager.operators.operator import Operator
from kubewright.manager.operators.settings import Settings
from kubewright.runnable import BaseRunnable

from .cluster_providers import ClusterSet
from .clusters import Clusters, ClusterStatus
from .fleet import Fleet
from .fleet_metrics import add_fleet, remove_fleet

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT = 10.0
"""Seconds in which a cluster must respond."""
CHECK_INTERVAL = 10.0
"""Seconds between checks of a connected cluster."""
MIN_RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 60.0


def add_fleets(runtime: ClusterRuntime, operator: Operator, client: Client) -> None:
    """Add the fleets of an operator to its manager."""
    for fleet in operator.fleets:
        if fleet.local:
            local = ClusterRuntime(
                fleet,
                runtime.manager,
                runtime.recorder,
                failure_events=operator.settings.failure_events,
                clusters=runtime.clusters,
            )
            add_functions(local)
        watches = [each for each in runtime.fleet_watches if each.fleet is fleet]
        if fleet.local:
            for watch in watches:
                watch.controller.watch(watch.source_in(runtime.manager.cache))
        runtime.manager.add(FleetRuntime(fleet, runtime, client, operator.settings, watches))


class _Member:
    """A cluster of the fleet: the connection that the provider reports, and the task that uses it."""

    def __init__(self, name: str, target: ClusterConfig | Client) -> None:
        self.status = ClusterStatus(name)
        self.target: ClusterConfig | Client | None = target
        """`None` when the cluster leaves."""
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.manager: Manager | None = None

    def set_target(self, target: ClusterConfig | Client | None) -> None:
        """Connect with another configuration, or leave."""
        if target is self.target or (isinstance(target, ClusterConfig) and target == self.target):
            return
        self.target = target
        self.changed.set()


class FleetRuntime(BaseRunnable):
    """The clusters of a fleet. A runnable of the manager."""

    needs_leader = False
    group = "caches"
    name = "fleet"

    def __init__(
        self,
        fleet: Fleet,
        parent: ClusterRuntime,
        client: Client,
        settings: Settings,
        watches: Sequence[FleetWatch] = (),
    ) -> None:
        """`client`: of the cluster of the operator, for the provider. `settings`: of the operator."""
        self._fleet = fleet
        self._parent = parent
        self._client = client
        self._settings = settings
        self._watches = tuple(watches)
        self._members: dict[str, _Member] = {}

    @property
    def clusters(self) -> Clusters:
        """The connected clusters of all fleets of the operator."""
        return self._parent.clusters

    @property
    def statuses(self) -> list[ClusterStatus]:
        """The connections to the clusters of this fleet."""
        return [member.status for _, member in sorted(self._members.items())]

    @property
    def managers(self) -> dict[str, Manager]:
        """The managers of the connected clusters."""
        return {name: member.manager for name, member in self._members.items() if member.manager is not None}

    async def run(self, stop: asyncio.Event) -> None:
        """Run the managers of all clusters until `stop` is set."""
        add_fleet(self)
        watching = run_forever(self._watch_provider, name="cluster provider")
        try:
            await stop.wait()
        except asyncio.CancelledError:
            for manager in self.managers.values():
                manager.graceful_shutdown_timeout = 0.0
            raise
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            members = list(self._members.values())
            for member in members:
                member.set_target(None)
            await asyncio.gather(
                *(member.task for member in members if member.task is not None), return_exceptions=True
            )
            remove_fleet(self)

    async def _watch_provider(self) -> None:
        """Apply each set of clusters from the provider; call it again after a failure."""
        backoff = Backoff(initial=MIN_RETRY_SECONDS, maximum=MAX_RETRY_SECONDS)
        provider = self._fleet.provider
        while True:
            try:
                async with AsyncExitStack() as stack:
                    sets: Any = provider.clusters(self._client)
                    if hasattr(sets, "aclose"):
                        await stack.enter_async_context(aclosing(sets))
                    async for clusters in sets:
                        self._update(clusters)
                return
            except Exception as error:
                delay = backoff.next_delay(asyncio.get_running_loop().time())
                logger.error(
                    "cluster provider failed, retrying",
                    extra={
                        "provider": type(provider).__name__,
                        "delay_seconds": round(delay, 1),
                        "error": f"{type(error).__name__}: {error}",
                    },
                )
                await asyncio.sleep(delay)

    def _update(self, clusters: ClusterSet) -> None:
        """Start the tasks of clusters that joined, and end those of clusters that left."""
        for name, member in self._members.items():
            if name not in clusters:
                member.set_target(None)
        for name, target in clusters.items():
            known = self._members.get(name)
            if known is not None:
                known.set_target(target)
                continue
            member = _Member(name, target)
            try:
                if not name:
                    raise ValueError("the name of a cluster must not be empty")
                self.clusters.join(member.status)
            except ValueError as error:
                logger.error("could not add cluster", extra={"cluster": name, "error": str(error)})
                continue
            self._members[name] = member
            member.task = asyncio.create_task(self._run_member(member), name=f"cluster {name}")

    async def _run_member(self, member: _Member) -> None:
        """Connect to a cluster, again after each failure and change, until it leaves."""
        status = member.status
        current_cluster.set(status.name)
        backoff = Backoff(initial=MIN_RETRY_SECONDS, maximum=MAX_RETRY_SECONDS)
        try:
            while member.target is not None:
                member.changed.clear()
                try:
                    await self._connect(member, member.target)
                except Exception as error:
                    if member.changed.is_set():
                        continue
                    delay = backoff.next_delay(asyncio.get_running_loop().time())
                    self._record_failure(member, error)
                    logger.log(
                        logging.WARNING,
                        "could not run cluster, retrying",
                        extra={"delay_seconds": round(delay, 1), "error": status.error},
                    )
                    await _cancel_when(member.changed, asyncio.sleep(delay))
        finally:
            del self._members[status.name]
            self.clusters.leave(status.name)

    def _record_failure(self, member: _Member, error: BaseException) -> None:
        status = member.status
        status.failures += 1
        status.state = "unreachable" if member.manager is not None else "connecting"
        status.error = f"{type(error).__name__}: {error}"

    async def _connect(self, member: _Member, target: ClusterConfig | Client) -> None:
        """Run the manager of a cluster until `member.changed` is set; raise the error that stops it."""
        async with AsyncExitStack() as stack:
            client = target
            if isinstance(client, ClusterConfig):
                client = Client.connect(client, user_agent=self._client.rest.user_agent)
                stack.push_async_callback(client.aclose)
            if not await _cancel_when(member.changed, self._prepare(client)):
                return
            runtime = self._build(member.status.name, client)
            await self._run_manager(member, runtime, client)

    async def _prepare(self, client: Client) -> None:
        """Check the connection, and in development install the CRDs."""
        await _check(client)
        if self._settings.development:
            await install_definitions(
                client.with_field_manager(self._fleet.name),
                installed_kinds(self._fleet),
                adopt=self._settings.adopt_crds,
            )
            await require_served(client, required_kinds(self._fleet))

    def _build(self, name: str, client: Client) -> ClusterRuntime:
        fleet, settings = self._fleet, self._settings
        cluster = Cluster(
            client.with_field_manager(fleet.name),
            name=name,
            scheme=fleet.scheme,
            namespaces=fleet.settings.namespaces,
            kinds=fleet.settings.kinds,
            allow=fleet.settings.allow,
            resync=settings.resync,
        )
        manager = Manager(
            cluster,
            graceful_shutdown_timeout=settings.graceful_shutdown_timeout,
            handle_signals=False,
            parent=self._parent.manager,
        )
        recorder = EventRecorder(client.with_interceptor(cluster.calls), fleet.name)
        manager.add(recorder)
        runtime = ClusterRuntime(
            fleet, manager, recorder, failure_events=settings.failure_events, clusters=self.clusters
        )
        add_functions(runtime)
        return runtime

    async def _run_manager(self, member: _Member, runtime: ClusterRuntime, client: Client) -> None:
        manager, status = runtime.manager, member.status
        await manager.cluster.start()
        member.manager = manager
        status.state, status.error = "ready", ""
        self.clusters.connect(manager.cluster)
        logger.info("cluster connected")
        sources = [(watch.controller, watch.source_in(manager.cache)) for watch in self._watches]
        for controller, source in sources:
            controller.watch(source)
        self._enqueue_all()
        running = asyncio.create_task(manager.run(member.changed))
        try:
            while not running.done():
                await asyncio.wait([running], timeout=CHECK_INTERVAL)
                if not running.done():
                    await _cancel_when(member.changed, self._monitor(member, client))
        finally:
            member.manager = None
            status.state = "connecting"
            self.clusters.disconnect(status.name)
            for controller, source in sources:
                if member.target is None:
                    source.report_deletions()
                await controller.unwatch(source)
            self._enqueue_all()
            if not running.done():
                running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            logger.info("cluster disconnected")
        await running

    async def _monitor(self, member: _Member, client: Client) -> None:
        """Check a connected cluster, and retry what has failed when it responds again."""
        status, manager = member.status, member.manager
        assert manager is not None
        try:
            await _check(client)
        except Exception as error:
            was_ready = status.state == "ready"
            self._record_failure(member, error)
            if was_ready:
                logger.warning("cluster is unreachable", extra={"error": status.error})
            return
        if status.state == "ready":
            return
        status.state, status.error = "ready", ""
        logger.info("cluster is reachable again")
        manager.cache.retry_now()
        for controller in controllers_of(manager.runnables):
            if controller.queue is not None:
                for request in controller.failing:
                    controller.queue.add(request, priority=LOW_PRIORITY, causes=SOURCE)

    def _enqueue_all(self) -> None:
        """Enqueue all objects of the operator's reconcilers that use the clusters of fleets."""
        cache = self._parent.manager.cache
        for kind, controller in self._parent.clusters_users:
            informer = cache.existing_informer(kind)
            if informer is not None and controller.queue is not None:
                for key, _ in informer.store.entries():
                    controller.queue.add(Request(*key), priority=LOW_PRIORITY, causes=SOURCE)


async def _check(client: Client) -> None:
    """Raise an error if a cluster does not respond or does not accept the credentials."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            await client.version()
    except Unauthorized:
        raise
    except APIError:
        return
    except TimeoutError:
        raise TimeoutError(f"no response within {CONNECT_TIMEOUT:g} s") from None


async def _cancel_when(event: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Run a coroutine, or cancel it when an event is set; return whether it has completed."""
    task = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            return False
        await task
        return True
    finally:
        for each in (task, waiting):
            each.cancel()
        await asyncio.gather(task, waiting, return_exceptions=True)
