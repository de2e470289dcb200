"""The process: what starts when, what stops when, and what happens if a part fails.

Parts (*runnables*) belong to groups. They start in this order, each group ready before the next begins:

    events -> http (probes, metrics) -> webhooks -> caches -> others -> warm-up -> election -> leader's parts

and stop in the opposite order, within the grace period: first the others and the leader's parts, which finish
what they hold while their caches and clients still work; then caches, webhooks, http and the clean-up
functions; then the lease is given back, and last the event recorder sends what it still has.

A part that fails stops the process with its error. Losing the lease stops it at once, without grace: somebody
else may be the leader already. From that moment, by our own clock, every write is refused (`Cluster.fence`).
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from .cluster import Cluster
from .leader_election import LeaderElector, LeadershipLost
from .signals import stopping_on_signals

logger = logging.getLogger(__name__)

GROUPS = ("events", "http", "webhooks", "caches", "others")
"""Groups of parts that need not lead, in the order in which they start."""
LEADER = "leader"
GRACE = 30.0
_CUT_OFF_SECONDS = 1.0
"""How long a part that is cut off may take to notice; a thread may not notice at all."""


class Runnable(Protocol):
    """A part of the process.

    Optional attributes: `needs_leader` (default true), `group` (one of `GROUPS`, for runnables that do not
    need leadership), `wait_until_started()` (awaited before the next group starts), and `needs_warm_up` with
    `warm_up()` and `stop_warm_up()` (preparation before leadership).
    """

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then finish and return."""


class ManagerStopped(RuntimeError):
    """A part was added to a manager that is stopping."""


class ShutdownTimeout(RuntimeError):
    """Some parts were still busy when the grace period ended, and were cut off."""


class _Part:
    """A runnable with its task and its own stop signal."""

    def __init__(self, runnable: Runnable) -> None:
        self.runnable = runnable
        self.group = LEADER
        if not getattr(runnable, "needs_leader", True):
            self.group = getattr(runnable, "group", "others")
            if self.group not in GROUPS:
                raise ValueError(
                    f"{self.name}: there is no group {self.group!r}; write one of {', '.join(GROUPS)}"
                )
        self.stop = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        name = getattr(self.runnable, "name", "")
        return f"{type(self.runnable).__name__} {name}".strip()

    @property
    def needs_warm_up(self) -> bool:
        return bool(getattr(self.runnable, "needs_warm_up", False))


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
        """`grace`: how many seconds parts may take to stop; 0 cuts them off, below 0 waits for ever."""
        self.cluster = cluster
        self.elector = elector
        self.grace = grace
        self.elected = asyncio.Event()
        """Set while this process is the leader; at once where there is no election."""
        self.handle_signals = handle_signals
        """Whether SIGINT and SIGTERM stop it."""
        self._parts: list[_Part] = []
        self._reached = -1
        self._warming = False
        self._leading = False
        self._has_led = False
        self._ready = False
        self._stop_asked = asyncio.Event()
        self._stopping = False
        self._failure: asyncio.Future[BaseException] | None = None
        self._cut_off: list[str] = []
        self._cleanups: list[Callable[[], Any]] = []
        self._warm_ups: set[asyncio.Task[None]] = set()
        self.add(cluster)

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

    @property
    def ready(self) -> bool:
        """Whether caches are in step and everything that need not lead is running."""
        return self._ready and not self._stopping

    @property
    def runnables(self) -> list[Runnable]:
        """Every part, in the order in which they were added."""
        return [part.runnable for part in self._parts]

    def add(self, runnable: Runnable) -> None:
        """Add a part. One that is added to a running manager starts as soon as its turn has come."""
        if self._stopping:
            raise ManagerStopped("the manager is stopping; nothing can be added any more")
        part = _Part(runnable)
        if isinstance(runnable, Cluster) and self.elector is not None:
            runnable.fence = self._check_leadership
        self._parts.append(part)
        started = self._leading if part.group == LEADER else self._reached >= GROUPS.index(part.group)
        if started:
            self._start(part)
        elif part.needs_warm_up and self._warming:
            task = asyncio.ensure_future(_warm_up(part))
            self._warm_ups.add(task)
            task.add_done_callback(self._warmed_up)

    def on_stop(self, cleanup: Callable[[], Any]) -> None:
        """Call a function, plain or async, after everything has stopped and before the lease is returned."""
        self._cleanups.append(cleanup)

    def _check_leadership(self) -> None:
        """Refuse writes of a process that was the leader and may no longer be."""
        if self._has_led:
            assert self.elector is not None
            self.elector.check()

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Start everything and work until `stop` is set, a signal comes, or a part fails."""
        if self._reached >= 0 or self._stopping:
            raise RuntimeError("a manager runs once; make another one")
        if stop is not None:
            self._stop_asked = stop
        self._failure = asyncio.get_running_loop().create_future()
        error: BaseException | None = None
        signals = stopping_on_signals(self._stop_asked) if self.handle_signals else contextlib.nullcontext()
        with signals:
            working = asyncio.create_task(self._work(), name="manager")
            try:
                error = await self._until_end(working)
            except asyncio.CancelledError as cancelled:
                error = cancelled
            await self._stop(working, lost=isinstance(error, LeadershipLost))
        if error is not None:
            raise error
        if self._cut_off:
            raise ShutdownTimeout(
                f"not stopped within {self.grace:g} s and cut off: {', '.join(self._cut_off)}"
            )

    async def _until_end(self, working: asyncio.Task[None]) -> BaseException | None:
        """Wait for a reason to stop; the error, if it is one."""
        assert self._failure is not None
        stopped = asyncio.create_task(self._stop_asked.wait())
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
        """Start group after group; then lead, if there is an election, until leadership is lost."""
        for index, group in enumerate(GROUPS):
            self._reached = index
            parts = self._of(group)
            for part in parts:
                self._start(part)
            for part in parts:
                await _ready(part.runnable)
        self._warming = True
        await asyncio.gather(*(_warm_up(part) for part in list(self._parts) if part.needs_warm_up))
        self._ready = True
        if self.elector is None:
            self._lead()
            return
        await self.elector.acquire()
        self._lead()
        await self.elector.keep()

    def _lead(self) -> None:
        if self._stop_asked.is_set():
            return
        self._leading = self._has_led = True
        self.elected.set()
        for part in self._of(LEADER):
            self._start(part)

    def _of(self, group: str) -> list[_Part]:
        return [part for part in self._parts if part.group == group and part.task is None]

    def _start(self, part: _Part) -> None:
        part.task = asyncio.create_task(part.runnable.run(part.stop), name=part.name)
        part.task.add_done_callback(lambda task: self._ended(part, task))

    def _warmed_up(self, task: asyncio.Task[None]) -> None:
        self._warm_ups.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _ended(self, part: _Part, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        logger.error("%s failed: %s: %s", part.name, type(error).__name__, error)
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
        deadline = now if lost else now + self.grace if self.grace >= 0 else float("inf")
        await asyncio.gather(*(_cool_down(part) for part in self._parts if part.task is None))
        for group in ("others", LEADER, *reversed(GROUPS[1:-1])):
            await self._stop_group(group, deadline)
        for cleanup in reversed(self._cleanups):
            await _clean_up(cleanup)
        self._leading = False
        self.elected.clear()
        if self.elector is not None:
            await self.elector.release()
        await self._stop_group(GROUPS[0], deadline)

    async def _stop_group(self, group: str, deadline: float) -> None:
        tasks = {part.task: part for part in self._parts if part.group == group and part.task is not None}
        for part in tasks.values():
            part.stop.set()
        slow = await _wait(tasks, deadline - asyncio.get_running_loop().time())
        if slow:
            names = [tasks[task].name for task in slow]
            self._cut_off += names
            logger.warning("not stopped in time and cut off: %s", ", ".join(names))
        for _ in range(2):
            for task in slow:
                task.cancel()
            slow = await _wait(slow, _CUT_OFF_SECONDS)


async def _wait(tasks: Iterable[asyncio.Task[None]], seconds: float) -> set[asyncio.Task[None]]:
    """Those that have not ended after so many seconds."""
    left = set(tasks)
    if left:
        _, left = await asyncio.wait(left, timeout=None if seconds == float("inf") else max(0.0, seconds))
    return left


def _failed(task: asyncio.Task[None]) -> bool:
    """Whether a task has ended with an error; the start-up ends well where there is no election."""
    return task.done() and (task.cancelled() or task.exception() is not None)


async def _ready(runnable: Runnable) -> None:
    """Wait for what the next group relies on: open ports, caches in step."""
    if isinstance(runnable, Cluster):
        await runnable.cache.wait_for_sync(runnable.sync_timeout)
    waiting = getattr(runnable, "wait_until_started", None)
    if waiting is not None:
        await waiting()


async def _warm_up(part: _Part) -> None:
    await part.runnable.warm_up()  # type: ignore[attr-defined]


async def _cool_down(part: _Part) -> None:
    """Undo a warm-up that led to nothing."""
    if part.needs_warm_up and hasattr(part.runnable, "stop_warm_up"):
        await part.runnable.stop_warm_up()


async def _clean_up(cleanup: Callable[[], Any]) -> None:
    try:
        result = cleanup()
        if inspect.isawaitable(result):
            await result
    except Exception:
        logger.exception("a clean-up function failed")
