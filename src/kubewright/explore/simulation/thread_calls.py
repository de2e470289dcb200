"""Plain functions of the operator: threads that run only while the event loop waits for them.

A plain (`def`) function runs in a thread, because its client blocks until the event loop has done a request.
Exactly one of loop and threads runs at a time, and the change-over points are those of the program:

- the loop starts a thread and waits until it ends or asks for a coroutine,
- the loop runs the coroutine among its other tasks, returns the result to the thread, and waits again.

The order of everything is therefore the same in every run. A thread of a killed process stays where it is.
"""

from __future__ import annotations

import contextvars
import threading
from asyncio import events
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

    from .loop import VirtualLoop

_current = threading.local()


class ThreadCall:
    """One call of a function in a thread."""

    def __init__(
        self,
        loop: VirtualLoop,
        future: asyncio.Future[Any],
        function: Callable[..., Any],
        args: tuple[Any, ...],
    ) -> None:
        self._loop = loop
        self._future = future
        self._function = function
        self._args = args
        self._thread_waits = threading.Event()
        self._loop_has_result = threading.Event()
        self._is_done = False
        self._result: Any = None
        self._error: BaseException | None = None

    # In the thread of the loop

    def start(self) -> None:
        """Start the thread, and wait until it ends or needs the loop."""
        threading.Thread(target=self._run, daemon=True).start()
        self._wait()

    def _wait(self) -> None:
        self._thread_waits.wait()
        self._thread_waits.clear()
        if not self._is_done or self._future.done():
            return
        if self._error is not None:
            self._future.set_exception(self._error)
        else:
            self._future.set_result(self._result)

    def _begin(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._loop.create_task(coroutine).add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._error = None
        if task.cancelled():
            self._error = TimeoutError("the request was cancelled")
        else:
            self._error = task.exception()
            self._result = task.result() if self._error is None else None
        self._loop_has_result.set()
        self._wait()

    # In the thread of the call

    def _run(self) -> None:
        _current.call = self
        error: BaseException | None = None
        result: Any = None
        try:
            result = self._function(*self._args)
        except BaseException as raised:
            error = raised
        self._result, self._error, self._is_done = result, error, True
        self._thread_waits.set()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the loop and return its result."""
        handle = events.Handle(self._begin, (coroutine,), self._loop, contextvars.copy_context())
        self._loop.add_ready(handle)
        self._thread_waits.set()
        self._loop_has_result.wait()
        self._loop_has_result.clear()
        if self._error is not None:
            raise self._error
        return self._result


def current_call() -> ThreadCall | None:
    """Return the call that the current thread executes."""
    return getattr(_current, "call", None)
