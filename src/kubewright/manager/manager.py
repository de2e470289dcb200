"""The process: what starts when, what stops when, and what happens if a part fails.

Parts (*runnables*) belong to groups. They start in this order, each group ready before the next begins:

    http (probes, metrics) -> webhooks -> caches -> others -> warm-up -> leadership -> the leader's parts

and stop in the opposite order, within the grace period: first the others and the leader's parts, which finish
what they hold while their caches and clients still work; then caches, webhooks, http; then the lease is given
back, and last the event recorder sends what it still has.

A part that fails stops the process with its error. Losing the lease stops it at once, without grace: somebody
else may be the leader already, and every write of ours is refused from that moment by our own clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from kubewright.client.rest import Call, Proceed
from kubewright.client.transport import Answer, Stream

from .cluster import Cluster
from .leader_election import LeaderElector

logger = logging.getLogger(__name__)

GROUPS = ("http", "webhooks", "caches", "others")
GRACE = 30.0


class Runnable(Protocol):
    """A part of the process. `needs_leader`, `group` and `warm_up` are looked up and optional."""

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then finish and return."""


class ManagerStopped(RuntimeError):
    """A part was added to a manager that is stopping."""


class _Part:
    """A runnable with its task and its own stop signal."""

    def __init__(self, runnable: Runnable, group: str) -> None:
        self.runnable = runnable
        self.group = group
        self.stop = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        name = getattr(self.runnable, "name", "")
        return f"{type(self.runnable).__name__} {name}".strip()


class Manager:
    """Runs controllers, webhooks and everything else of an operator in one process."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        elector: LeaderElector | None = None,
        grace: float = GRACE,
        handle_signals: bool = True,
    ) -> None:
        self.cluster = cluster
        self.elector = elector
        self.grace = grace
        self.elected = asyncio.Event()
        """Set while this process is the leader; at once where there is no election."""
        self._handle_signals = handle_signals
        self._parts: list[_Part] = []
        self._reached = -1
        self._leading = False
        self._started_all = False
        self._stopping = False
        self._failure: asyncio.Future[BaseException] | None = None
        self._cleanups: list[Callable[[], Any]] = []
        self._names: set[str] = set()
        self.add(cluster)
        if elector is not None:
            self._fence(elector)

    @property
    def client(self) -> Any:
        """The cluster's client: reads from the cache, writes to the server."""
        return self.cluster.client

    @property
    def cache(self) -> Any:
        """The cluster's cache."""
        return self.cluster.cache

    @property
    def scheme(self) -> Any:
        """The kinds that are known."""
        return self.cluster.scheme

    def add(self, runnable: Runnable) -> None:
        """Add a part. One that is added to a running manager starts as soon as its turn has come."""
        if self._stopping:
            raise ManagerStopped("the manager is stopping; nothing can be added any more")
        leader = getattr(runnable, "needs_leader", True)
        group = "leader" if leader else getattr(runnable, "group", "others")
        name = getattr(runnable, "name", "")
        if name and type(runnable).__name__ == "Controller":
            if name in self._names:
                raise ValueError(f"two controllers are called {name!r}; give one of them another name")
            self._names.add(name)
        part = _Part(runnable, group)
        self._parts.append(part)
        started = self._leading if group == "leader" else self._reached >= GROUPS.index(group)
        if started:
            self._start(part)

    @property
    def ready(self) -> bool:
        """Whether caches are in step and everything that need not lead is running."""
        return self._started_all

    def on_stop(self, cleanup: Callable[[], Any]) -> None:
        """Call a function, plain or async, after everything has stopped."""
        self._cleanups.append(cleanup)

    def _fence(self, elector: LeaderElector) -> None:
        """Refuse writes of a process that may no longer be the leader."""

        async def fenced(call: Call, proceed: Proceed) -> Answer | Stream:
            if self._leading and call.method not in ("GET", "HEAD"):
                elector.check()
            return await proceed(call)

        self.cluster.client = self.cluster.client.intercepted(fenced)

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Start everything and work until `stop` is set, a signal comes, or a part fails."""
        stop = stop if stop is not None else asyncio.Event()
        loop = asyncio.get_running_loop()
        self._failure = loop.create_future()
        with self._signals(stop):
            stopped = asyncio.create_task(stop.wait())
            working = asyncio.create_task(self._work())
            try:
                ends: list[asyncio.Future[Any]] = [stopped, working, self._failure]
                while not (stopped.done() or self._failure.done() or _failed(working)):
                    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                    if working.done() and working in ends:
                        ends.remove(working)
            finally:
                stopped.cancel()
            error: BaseException | None = None
            if self._failure.done():
                error = self._failure.result()
            elif working.done() and not working.cancelled():
                error = working.exception()
            await self._stop(working, hurry=self.elector is not None and self._lost(error))
        if error is not None:
            raise error

    def _lost(self, error: BaseException | None) -> bool:
        from .leader_election import LeadershipLost

        return isinstance(error, LeadershipLost)

    @contextlib.contextmanager
    def _signals(self, stop: asyncio.Event) -> Any:
        loop = asyncio.get_running_loop()
        names = (signal.SIGINT, signal.SIGTERM) if self._handle_signals else ()
        added = []
        for name in names:
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(name, stop.set)
                added.append(name)
        try:
            yield
        finally:
            for name in added:
                loop.remove_signal_handler(name)

    async def _work(self) -> None:
        """Start group after group; then lead, if there is an election, until leadership is lost."""
        for index, group in enumerate(GROUPS):
            self._reached = index
            for part in self._of(group):
                self._start(part)
            await self._ready(group)
        await asyncio.gather(*(_warm_up(part.runnable) for part in self._parts))
        self._started_all = True
        if self.elector is None:
            self._lead()
            return
        await self.elector.acquire()
        self._lead()
        await self.elector.keep()

    def _lead(self) -> None:
        self._leading = True
        self.elected.set()
        for part in self._of("leader"):
            self._start(part)

    async def _ready(self, group: str) -> None:
        """Wait for what the next group relies on: open ports, caches in step."""
        if group == "webhooks":
            for part in self._of(group):
                waiting = getattr(part.runnable, "wait_listening", None)
                if waiting is not None:
                    await waiting()
        if group == "caches":
            for part in self._of(group):
                if isinstance(part.runnable, Cluster):
                    await part.runnable.cache.wait_for_sync(part.runnable.sync_timeout)

    def _of(self, group: str) -> list[_Part]:
        return [part for part in self._parts if part.group == group and part.task is None]

    def _start(self, part: _Part) -> None:
        part.task = asyncio.create_task(part.runnable.run(part.stop), name=part.name)
        part.task.add_done_callback(lambda task: self._ended(part, task))

    def _ended(self, part: _Part, task: asyncio.Task[None]) -> None:
        if task.cancelled() or self._stopping:
            return
        error = task.exception()
        if error is not None and self._failure is not None and not self._failure.done():
            logger.error("%s failed: %s: %s", part.name, type(error).__name__, error)
            self._failure.set_result(error)

    async def _stop(self, working: asyncio.Task[None], *, hurry: bool) -> None:
        self._stopping = True
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        deadline = asyncio.get_running_loop().time() + (0.0 if hurry else self.grace)
        for group in ("others", "leader", "caches", "webhooks", "http"):
            await self._stop_parts(
                [part for part in self._parts if part.group == group and part.task], deadline
            )
        self._leading = False
        self.elected.clear()
        if self.elector is not None:
            await self.elector.release()
        for cleanup in reversed(self._cleanups):
            result = cleanup()
            if asyncio.iscoroutine(result):
                await result

    async def _stop_parts(self, parts: Iterable[_Part], deadline: float) -> None:
        tasks = {part.task: part for part in parts if part.task is not None}
        for part in tasks.values():
            part.stop.set()
        if not tasks:
            return
        left = max(0.0, deadline - asyncio.get_running_loop().time())
        _, slow = await asyncio.wait(tasks, timeout=left)
        for task in slow:
            logger.warning("%s did not stop in time and is cut off", tasks[task].name)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _failed(task: asyncio.Task[None]) -> bool:
    """Whether a task has ended with an error; the start-up ends well where there is no election."""
    return task.done() and (task.cancelled() or task.exception() is not None)


async def _warm_up(runnable: Runnable) -> None:
    if getattr(runnable, "warms_up", False):
        await runnable.warm_up()  # type: ignore[attr-defined]
