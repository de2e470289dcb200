"""Background loops: tasks that run as long as their server, and that never end silently.

    self._task = run_forever(self._renew_regularly, name="identity lease")
    ...
    self._task.cancel()

A loop that ends by an exception, or by a cancellation that was not requested of its task, is logged and
started again with a delay that doubles. Until the new run has lasted as long as the delay, the loop is
*failing*: `failing_loops` names it, and with it `/readyz` of the servers in this process. A loop that
returns has finished. Tasks that cannot be started again are added with `require`: the first error is final.

Tasks that belong to one request or connection are not loops in this sense: their errors reach the client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any
from weakref import WeakSet

logger = logging.getLogger("kubewright.background")

MIN_DELAY = 0.5
MAX_DELAY = 30.0


class BackgroundLoop:
    """A loop, its task, and why it is failing."""

    def __init__(self, name: str, *, required: bool, restarts: bool = True) -> None:
        self.name = name
        self.required = required
        self.can_restart = restarts
        self.task: asyncio.Task[None]
        self.restarts = 0
        self.has_failed = False
        """Whether the task has ended by an error and is not started again."""
        self._loop = asyncio.get_running_loop()
        self._error = ""
        self._settled_at = 0.0
        """When a loop that was started again counts as running."""
        _loops.add(self)

    @property
    def error(self) -> str:
        """Why the loop is failing, or an empty string."""
        return self._error if self._error and self._loop.time() < self._settled_at else ""

    @property
    def is_here(self) -> bool:
        """Whether the loop belongs to the running event loop."""
        return self._loop is asyncio.get_running_loop()

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Call `work` until it returns, or until the task is cancelled."""
        delay = MIN_DELAY
        while True:
            started = self._loop.time()
            try:
                await work()
                return
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                self._report(error)
            except Exception as error:
                self._report(error)
            if self._loop.time() - started > MAX_DELAY:
                delay = MIN_DELAY
            self._settled_at = self._loop.time() + 2 * delay
            await asyncio.sleep(delay)
            self.restarts += 1
            delay = min(delay * 2, MAX_DELAY)

    def fail(self, task: asyncio.Task[Any]) -> None:
        """Fail for good if a task has ended by an error, or by a cancellation that was not requested."""
        if task.cancelled():
            error: BaseException | None = None if task.cancelling() else asyncio.CancelledError()
        else:
            error = task.exception()
        if error is not None:
            self._report(error)
            self.has_failed = True
            self._settled_at = float("inf")

    def _report(self, error: BaseException) -> None:
        self._error = f"{type(error).__name__}: {error}"
        logger.error(
            "background loop failed", extra={"loop": self.name, "error": self._error}, exc_info=error
        )


_loops: WeakSet[BackgroundLoop] = WeakSet()


def run_forever(
    work: Callable[[], Coroutine[Any, Any, None]], *, name: str, required: bool = True
) -> asyncio.Task[None]:
    """Run a loop in a task until it is cancelled; `required`: whether servers are unready while it fails."""
    loop = BackgroundLoop(name, required=required)
    loop.task = asyncio.create_task(loop.run(work), name=name)
    return loop.task


def require(task: asyncio.Task[None], *, name: str) -> BackgroundLoop:
    """Let the servers of this process be unready after a task has ended by an error.

    The owner of the task keeps the result: without it, the error is forgotten.
    """
    loop = BackgroundLoop(name, required=True, restarts=False)
    loop.task = task
    task.add_done_callback(loop.fail)
    return loop


def background_loops() -> list[BackgroundLoop]:
    """Return the loops of this event loop whose tasks have not ended, and those that have failed for good."""
    return [each for each in _loops if each.is_here and (each.has_failed or not each.task.done())]


def failing_loops() -> dict[str, str]:
    """Return the errors of the required loops of this event loop that are failing, by name."""
    return {each.name: each.error for each in background_loops() if each.required and each.error}


def check_loops() -> None:
    """Raise `RuntimeError` if a required loop is failing: a health check."""
    if failing := failing_loops():
        raise RuntimeError("; ".join(f"{name}: {error}" for name, error in sorted(failing.items())))
