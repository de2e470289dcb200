"""Manager: starts and stops the components of a process, and handles their failures.

Components (*runnables*) belong to groups. Groups start in this order, each after the previous one is ready:

    events -> http (probes, metrics) -> webhooks -> caches -> others -> warm-up -> election -> leader

They stop in the reverse order, within the graceful shutdown timeout: first controllers and other components,
which finish their current work while caches and clients are still available; then caches, webhooks, http and
the cleanup functions; then the Lease is released, and last the event recorder sends the remaining events.

A component that fails stops the process with its error. Losing the Lease stops the process immediately,
because another replica may be the leader already; from that moment every write is rejected (`Cluster.fence`).
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from kubewright.api.scheme import Scheme
from kubewright.cache import Cache, CachedClient
from kubewright.runnable import Runnable, complete
from kubewright.tracing.source import SpanSource

from .cluster import Cluster
from .elections.leader_election import LeaderElector, LeadershipLost
from .signals import stopping_on_signals

if TYPE_CHECKING:
    from .sharding.shard_member import ShardMember

logger = logging.getLogger(__name__)

GROUPS = ("events", "http", "webhooks", "caches", "others")
"""Groups of components that do not need leadership, in the order in which they start."""
LEADER = "leader"
GRACEFUL_SHUTDOWN_TIMEOUT = 30.0
_CANCELLATION_TIMEOUT = 1.0
"""Seconds to wait for a cancelled component; a thread cannot be cancelled at all."""


class ManagerStopped(RuntimeError):
    """A component was added to a manager that is stopping."""


class ShutdownTimeout(RuntimeError):
    """Components did not stop within the graceful shutdown timeout and were cancelled."""


class _Component:
    """A runnable with its task and its stop event."""

    def __init__(self, runnable: Runnable) -> None:
        self.added = runnable
        self.runnable = complete(runnable)
        self.name = f"{type(runnable).__name__} {self.runnable.name}".strip()
        needs_leader, group = self.runnable.needs_leader, self.runnable.group
        if not needs_leader and group not in GROUPS:
            raise ValueError(f"{self.name}: unknown group {group!r}; expected one of {', '.join(GROUPS)}")
        self.group = LEADER if needs_leader else group
        self.replay: Callable[[], None] | None = None
        self.stop = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class Manager:
    """Runs controllers, webhook servers and other components in one process."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        elector: LeaderElector | ShardMember | None = None,
        graceful_shutdown_timeout: float = GRACEFUL_SHUTDOWN_TIMEOUT,
        handle_signals: bool = True,
        spans: SpanSource | None = None,
        tracing: bool = False,
        parent: Manager | None = None,
    ) -> None:
        """`graceful_shutdown_timeout`: seconds that components have to stop.

        0 cancels them immediately, a negative value waits without a limit. With a `ShardMember` as the
        elector, controllers run on every replica, and each reconciles its part of the objects. `tracing`
        exports the spans of all components to OpenTelemetry (`ImportError` if it is not installed). `parent`:
        another manager of the process, whose leadership, shards and spans this one shares; for the clusters
        of a fleet.
        """
        self.cluster = cluster
        self.parent = parent
        self.elector = elector
        if spans is None:
            spans = parent.spans if parent is not None else SpanSource()
        self.spans: SpanSource = spans
        """Spans of reconciles, API calls and webhook calls of all components."""
        if tracing:
            from kubewright.tracing.opentelemetry import OpenTelemetrySink

            self.spans.subscribe(OpenTelemetrySink())
        self.graceful_shutdown_timeout = graceful_shutdown_timeout
        self.elected = asyncio.Event()
        """Set while this process is the leader, or once it has started without leader election."""
        self.handle_signals = handle_signals
        """Whether SIGINT and SIGTERM stop the manager."""
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop that the manager runs on; `None` before it was started."""
        self._components: list[_Component] = []
        self._reached = -1
        self._warming = False
        self._leading = False
        self._has_led = False
        self._ready = False
        self._stop_event = asyncio.Event()
        self._stopping = False
        self._failure: asyncio.Future[BaseException] | None = None
        self._cancelled: list[str] = []
        self._cleanups: list[Callable[[], Awaitable[object] | object]] = []
        self._warm_ups: set[asyncio.Task[None]] = set()
        self.add(cluster)

    @property
    def cluster_name(self) -> str:
        """Name of the cluster in a fleet; empty for the cluster that the operator runs in."""
        return self.cluster.name if self.parent is not None else ""

    @property
    def client(self) -> CachedClient:
        """Client of the cluster: reads from the cache, writes to the API server."""
        return self.cluster.client

    @property
    def cache(self) -> Cache:
        """Cache of the cluster."""
        return self.cluster.cache

    @property
    def scheme(self) -> Scheme:
        """The registered kinds."""
        return self.cluster.scheme

    @property
    def ready(self) -> bool:
        """Whether caches have synced and all components that do not need leadership are running."""
        return self._ready and not self._stopping

    @property
    def is_idle(self) -> bool:
        """Whether no component has work that is due now."""
        return all(component.runnable.is_idle for component in self._components)

    @property
    def runnables(self) -> list[Runnable]:
        """All components, in the order in which they were added."""
        return [component.added for component in self._components]

    def add(self, runnable: Runnable) -> None:
        """Add a component. In a running manager it starts as soon as its group has started."""
        if self._stopping:
            raise ManagerStopped("the manager is stopping; components can no longer be added")
        component = _Component(runnable)
        leader = self._leader
        if isinstance(runnable, Cluster) and leader.elector is not None:
            runnable.fence = leader._check_leadership
        self._components.append(component)
        for publisher in component.runnable.publishers:
            self.spans.add(publisher)
        if (shards := self._shards) is not None:
            component.replay = component.runnable.share(shards)
            if component.replay is not None:
                shards.on_gain.append(component.replay)
        started = (
            self._leading if component.group == LEADER else self._reached >= GROUPS.index(component.group)
        )
        if started:
            self._start(component)
        elif component.runnable.needs_warm_up and self._warming:
            task = asyncio.ensure_future(component.runnable.warm_up())
            self._warm_ups.add(task)
            task.add_done_callback(self._warmed_up)

    @property
    def _leader(self) -> Manager:
        """The manager whose elector applies to this one."""
        return self.parent if self.parent is not None else self

    @property
    def _shards(self) -> ShardMember | None:
        elector = self._leader.elector
        return None if elector is None or isinstance(elector, LeaderElector) else elector

    def on_stop(self, cleanup: Callable[[], Awaitable[object] | object]) -> None:
        """Call a function, plain or async, after components have stopped and before the Lease is released."""
        self._cleanups.append(cleanup)

    def _check_leadership(self) -> None:
        """Reject writes of a process that was the leader and may have lost leadership."""
        if self._has_led:
            assert self.elector is not None
            self.elector.check()

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Start all components and run until `stop` is set, a signal is received, or a component fails."""
        if self._reached >= 0 or self._stopping:
            raise RuntimeError("a manager can only run once; create another one")
        if stop is not None:
            self._stop_event = stop
        self.loop = asyncio.get_running_loop()
        self._failure = self.loop.create_future()
        error: BaseException | None = None
        signals = stopping_on_signals(self._stop_event) if self.handle_signals else contextlib.nullcontext()
        with signals:
            working = asyncio.create_task(self._work(), name="manager")
            try:
                error = await self._until_end(working)
            except asyncio.CancelledError as cancelled:
                error = cancelled
            await self._stop(working, lost=isinstance(error, LeadershipLost))
        if error is not None:
            raise error
        if self._cancelled:
            raise ShutdownTimeout(
                f"components did not stop within {self.graceful_shutdown_timeout:g} s and were cancelled: "
                f"{', '.join(self._cancelled)}"
            )

    async def _until_end(self, working: asyncio.Task[None]) -> BaseException | None:
        """Wait for a reason to stop, and return it if it is an error."""
        assert self._failure is not None
        stopped = asyncio.create_task(self._stop_event.wait())
        waiting: set[asyncio.Future[Any]] = {stopped, working, self._failure}
        try:
            while not (stopped.done() or self._failure.done() or _failed(working)):
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if working.done():
                    waiting.discard(working)
        finally:
            stopped.cancel()
        if self._failure.done():
            return self._failure.result()
        return working.exception() if _failed(working) else None

    async def _work(self) -> None:
        """Start the groups, then acquire leadership and renew it until it is lost."""
        for index, group in enumerate(GROUPS):
            self._reached = index
            components = self._of(group)
            for component in components:
                self._start(component)
            for component in components:
                await component.runnable.wait_until_started()
        self._warming = True
        await asyncio.gather(
            *(each.runnable.warm_up() for each in list(self._components) if each.runnable.needs_warm_up)
        )
        self._ready = True
        if self.elector is None:
            if self.parent is not None:
                await self.parent.elected.wait()
            self._lead()
            return
        await self.elector.acquire()
        self._lead()
        await self.elector.renew()

    def _lead(self) -> None:
        if self._stop_event.is_set():
            return
        self._leading = self._has_led = True
        self.elected.set()
        for component in self._of(LEADER):
            self._start(component)

    def _of(self, group: str) -> list[_Component]:
        return [
            component for component in self._components if component.group == group and component.task is None
        ]

    def _start(self, component: _Component) -> None:
        component.task = asyncio.create_task(component.runnable.run(component.stop), name=component.name)
        component.task.add_done_callback(lambda task: self._ended(component, task))

    def _warmed_up(self, task: asyncio.Task[None]) -> None:
        self._warm_ups.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _ended(self, component: _Component, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        logger.error(
            "component failed",
            extra={"component": component.name, "error": f"{type(error).__name__}: {error}"},
        )
        self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if not self._stopping and self._failure is not None and not self._failure.done():
            self._failure.set_result(error)

    async def _stop(self, working: asyncio.Task[None], *, lost: bool) -> None:
        self._stopping = True
        preparing = [working, *self._warm_ups]
        for task in preparing:
            task.cancel()
        await asyncio.gather(*preparing, return_exceptions=True)
        now = asyncio.get_running_loop().time()
        timeout = self.graceful_shutdown_timeout
        deadline = now if lost else now + timeout if timeout >= 0 else float("inf")
        await asyncio.gather(
            *(
                each.runnable.stop_warm_up()
                for each in self._components
                if each.task is None and each.runnable.needs_warm_up
            )
        )
        for group in ("others", LEADER, *reversed(GROUPS[1:-1])):
            await self._stop_group(group, deadline)
        for cleanup in reversed(self._cleanups):
            await _clean_up(cleanup)
        self._leading = False
        self.elected.clear()
        if self.elector is not None:
            await self.elector.release()
        await self._stop_group(GROUPS[0], deadline)
        if self.parent is not None:
            self._detach()

    def _detach(self) -> None:
        """Remove the components from the spans and the shards of the parent."""
        shards = self._shards
        for component in self._components:
            for publisher in component.runnable.publishers:
                self.spans.remove(publisher)
            if shards is not None and component.replay is not None:
                shards.on_gain.remove(component.replay)

    async def _stop_group(self, group: str, deadline: float) -> None:
        tasks = {
            component.task: component
            for component in self._components
            if component.group == group and component.task is not None
        }
        for component in tasks.values():
            component.stop.set()
        slow = await _wait(tasks, deadline - asyncio.get_running_loop().time())
        if slow:
            names = [tasks[task].name for task in slow]
            self._cancelled += names
            logger.warning("cancelled components that did not stop", extra={"components": ", ".join(names)})
        for _ in range(2):
            for task in slow:
                task.cancel()
            slow = await _wait(slow, _CANCELLATION_TIMEOUT)


async def _wait(tasks: Iterable[asyncio.Task[None]], seconds: float) -> set[asyncio.Task[None]]:
    """Wait for tasks, and return those that have not ended."""
    left = set(tasks)
    if left:
        _, left = await asyncio.wait(left, timeout=None if seconds == float("inf") else max(0.0, seconds))
    return left


def _failed(task: asyncio.Task[None]) -> bool:
    """Whether a task has ended with an error; without leader election the start-up task just ends."""
    return task.done() and (task.cancelled() or task.exception() is not None)


async def _clean_up(cleanup: Callable[[], Awaitable[object] | object]) -> None:
    try:
        result = cleanup()
        if inspect.isawaitable(result):
            await result
    except Exception:
        logger.exception("cleanup function failed")
