"""An event loop whose time jumps: tests of back-off, timers and leases take no time and no luck.

`FakeTimeLoop` is an ordinary loop, except that it never waits for a timer. When nothing is left to do it
moves its clock to the next timer instead: an hour of `asyncio.sleep` passes at once and in the right order.
Everything that asks the loop for the time (queues, timers, timeouts, leader election) follows. What really
waits is waited for: a thread that was started with `asyncio.to_thread` or `run_in_executor`, and, if
`patience` is given, sockets of other processes.

    def test_retries() -> None:
        assert fake_time(scenario())  # runs the coroutine, returns what it returns

For all async tests of a folder, with pytest-asyncio 1.3 or later, in its `conftest.py`:

    def pytest_asyncio_loop_factories(config, item):
        return {"fake-time": FakeTimeLoop}

`wall_clock` is a clock of dates that moves along, for code that takes its `now` as an argument.
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
"""What `wall_clock` shows when a loop begins."""


class _JumpingSelector:
    """Asks a real selector what is ready; where that would wait for a timer, the clock is moved."""

    def __init__(self, real: selectors.BaseSelector, patience: float) -> None:
        self._real = real
        self._patience = patience
        self.loop: FakeTimeLoop | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        loop = self.loop
        if timeout is None or timeout <= 0 or loop is None:
            return self._real.select(timeout)
        if loop.threads:
            # A thread ends with a wake-up through the loop's own socket, so this returns when it has.
            return self._real.select(None)
        ready = self._real.select(self._patience)
        if not ready:
            loop.now += timeout
        return ready


class FakeTimeLoop(asyncio.SelectorEventLoop):
    """A loop with a clock of its own that starts at 0."""

    def __init__(self, *, patience: float = 0.0) -> None:
        """`patience`: how many real seconds to give sockets before time jumps."""
        self.now = 0.0
        self.threads = 0
        """How many calls in threads are under way."""
        selector = _JumpingSelector(selectors.DefaultSelector(), patience)
        super().__init__(selector)  # type: ignore[arg-type]
        selector.loop = self

    def time(self) -> float:
        """The time that timers go by, in seconds since the loop began."""
        return self.now

    def wall_clock(self) -> datetime:
        """A date that moves with the loop's time."""
        return START + timedelta(seconds=self.now)

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """As any loop does; time stands still until the call has ended."""
        future = super().run_in_executor(executor, func, *args)
        self.threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, _: asyncio.Future[Any]) -> None:
        self.threads -= 1


def fake_time(main: Coroutine[Any, Any, T], *, patience: float = 0.0) -> T:
    """Run a coroutine to its end in a loop whose time jumps."""
    with asyncio.Runner(loop_factory=lambda: FakeTimeLoop(patience=patience)) as runner:
        return runner.run(main)


def wall_clock() -> datetime:
    """The date in the running `FakeTimeLoop`."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, FakeTimeLoop):
        raise RuntimeError("wall_clock() is for code inside fake_time() or in a FakeTimeLoop")
    return loop.wall_clock()


__all__ = ["START", "FakeTimeLoop", "fake_time", "wall_clock"]
