"""Event loop with a simulated clock, for tests of backoff, timers and leases that take no real time.

`FakeTimeLoop` never waits for a timer: when there is nothing else to run, it advances its clock to the next
timer. An hour of `asyncio.sleep` passes immediately and in the right order, for everything that uses the
clock of the loop (queues, timers, timeouts, leader election). The loop does wait for threads that were
started with `asyncio.to_thread` or `run_in_executor` and, if `io_timeout` is given, for sockets of other
processes.

    def test_retries() -> None:
        assert fake_time(scenario())  # runs the coroutine, returns what it returns

For all async tests of a folder, with pytest-asyncio 1.3 or later, in its `conftest.py`:

    def pytest_asyncio_loop_factories(config, item):
        return {"fake-time": FakeTimeLoop}

`wall_clock` returns the corresponding date, for code that takes its `now` as an argument.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")

START = datetime(2030, 1, 1, tzinfo=UTC)
"""The date of `wall_clock` when a loop starts."""


class _FakeTimeSelector:
    """Selector that advances the clock of the loop instead of waiting for a timer."""

    def __init__(self, real: selectors.BaseSelector, io_timeout: float) -> None:
        self._real = real
        self._io_timeout = io_timeout
        self.loop: FakeTimeLoop | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        loop = self.loop
        if timeout is None or timeout <= 0 or loop is None:
            return self._real.select(timeout)
        if loop.threads:
            # A thread that ends wakes the loop through its own socket, so this returns then.
            return self._real.select(None)
        ready = self._real.select(self._io_timeout)
        if not ready:
            loop.now += timeout
        return ready


class FakeTimeLoop(asyncio.SelectorEventLoop):
    """Event loop with a simulated clock that starts at 0."""

    def __init__(self, *, io_timeout: float = 0.0) -> None:
        """`io_timeout`: real seconds to wait for sockets before the clock advances."""
        self.now = 0.0
        self.threads = 0
        """Number of running calls in threads."""
        selector = _FakeTimeSelector(selectors.DefaultSelector(), io_timeout)
        super().__init__(selector)  # type: ignore[arg-type]
        selector.loop = self

    def time(self) -> float:
        """Return the simulated time in seconds."""
        return self.now

    def wall_clock(self) -> datetime:
        """Return the date that corresponds to the simulated time."""
        return START + timedelta(seconds=self.now)

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run a call in a thread; the clock does not advance until it has ended."""
        future = super().run_in_executor(executor, func, *args)
        self.threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, _: asyncio.Future[Any]) -> None:
        self.threads -= 1


def fake_time(main: Coroutine[Any, Any, T], *, io_timeout: float = 0.0) -> T:
    """Run a coroutine in a `FakeTimeLoop` and return its result."""
    with asyncio.Runner(loop_factory=lambda: FakeTimeLoop(io_timeout=io_timeout)) as runner:
        return runner.run(main)


def wall_clock() -> datetime:
    """Return the date of the running `FakeTimeLoop`."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, FakeTimeLoop):
        raise RuntimeError("wall_clock() requires a running FakeTimeLoop; use fake_time()")
    return loop.wall_clock()


__all__ = ["START", "FakeTimeLoop", "fake_time", "wall_clock"]
