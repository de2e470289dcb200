"""The loop under every controller of the control plane: a queue of keys, and a function that deals with one.

A key that is added while it waits is dealt with once; one that is added while it is being dealt with comes
again afterwards. When the function raises, the key comes back after a while that doubles with every
failure. There is no polling: something has to add a key, now (`add`) or later (`add_after`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from kubewright.api.errors import Conflict

logger = logging.getLogger("kubewright.controlplane")

Key = TypeVar("Key", bound=Hashable)

FIRST_DELAY = 0.005
LONGEST_DELAY = 30.0


class Loop(Generic[Key]):
    """Calls `reconcile(key)` for every key that is added, `workers` at a time."""

    def __init__(self, name: str, reconcile: Callable[[Key], Awaitable[None]], *, workers: int = 1) -> None:
        self.name = name
        self._reconcile = reconcile
        self._workers = workers
        self._waiting: dict[Key, None] = {}
        self._working: set[Key] = set()
        self._again: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._expected: set[Key] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._running = False
        self._active = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, key: Key) -> None:
        """Deal with `key` soon."""
        if key in self._working:
            self._again.add(key)
            return
        self._waiting[key] = None
        self._idle.clear()
        self._spawn()

    def add_after(self, key: Key, seconds: float, *, expected: bool = False) -> None:
        """Deal with `key` after a while; an earlier appointment stands. Those who wait until there is
        nothing to do wait for what is `expected`, too.
        """
        if expected:
            self._expected.add(key)
            self._idle.clear()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= asyncio.get_running_loop().time() + seconds:
                return
            timer.cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(seconds, self._due, key)

    def _due(self, key: Key) -> None:
        self._timers.pop(key, None)
        self._expected.discard(key)
        self.add(key)

    def start(self) -> None:
        """Begin with what has been added."""
        self._running = True
        self._spawn()

    async def stop(self) -> None:
        """Drop what waits and what is being done."""
        self._running = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._expected.clear()
        self._waiting.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def busy(self) -> bool:
        """Whether a key waits, is expected or is being dealt with; a key that failed and waits is not."""
        return bool(self._waiting or self._working or self._expected)

    async def idle(self) -> None:
        """Wait until there is nothing to do right now."""
        await self._idle.wait()

    def _spawn(self) -> None:
        if self._running and self._waiting and self._active < self._workers:
            self._active += 1
            task = asyncio.get_running_loop().create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        try:
            await self._work_off()
        finally:
            self._active -= 1

    async def _work_off(self) -> None:
        waiting = self._waiting
        while waiting and self._running:
            key = next(iter(waiting))
            del waiting[key]
            self._working.add(key)
            try:
                await self._reconcile(key)
                self._failures.pop(key, None)
            except asyncio.CancelledError:
                raise
            except Exception as error:
                self._failed(key, error)
            finally:
                self._working.discard(key)
                if key in self._again:
                    self._again.discard(key)
                    waiting[key] = None
                if not self.busy:
                    self._idle.set()

    def _failed(self, key: Key, error: Exception) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        if not isinstance(error, Conflict) and failures in (1, 10, 100):
            logger.warning(
                "%s: %s failed (%d times): %s", self.name, key, failures, error, exc_info=failures > 1
            )
        self.add_after(key, min(FIRST_DELAY * 2 ** min(failures - 1, 20), LONGEST_DELAY))
