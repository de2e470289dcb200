"""Event loop with a simulated clock, for tests of backoff, timers and leases that take no real time.

`FakeTimeLoop` never waits for a timer: when there is nothing else to run, it advances its clock to the next
timer. An hour of `asyncio.sleep` passes immediately and in the right order, for everything that uses the
clock of the loop (queues, timers, timeouts, leader election, watches of a test server). The loop does wait
for threads that were started with `asyncio.to_thread` or `run_in_executor`, for bytes that it sends to itself
through sockets (webhooks, a TLS test server) and, if `io_timeout` is given, for sockets of other processes.

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
import socket
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from .loop_connections import LoopConnections

T = TypeVar("T")

DELIVERY_TIMEOUT = 1.0
"""Real seconds to wait for bytes that the loop has sent to itself."""
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
        connections = loop.connections
        ready = self._real.select(0)
        if not ready and (connections.connecting or connections.has_bytes_in_transit()):
            ready = self._real.select(DELIVERY_TIMEOUT)
            if not ready:
                connections.forget_bytes_in_transit()
        elif not ready and self._io_timeout and connections.has_other_processes():
            ready = self._real.select(self._io_timeout)
        if not ready:
            loop.now += timeout
            loop.jumps += 1
        return ready


class FakeTimeLoop(asyncio.SelectorEventLoop):
    """Event loop with a simulated clock that starts at 0."""

    def __init__(self, *, io_timeout: float = 0.0) -> None:
        """`io_timeout`: real seconds to wait for sockets of other processes before the clock advances."""
        self.now = 0.0
        self.jumps = 0
        """Number of times that the clock was advanced."""
        self.connections = LoopConnections()
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

    async def create_server(self, *args: Any, **options: Any) -> asyncio.Server:
        """Create a TCP server; bytes sent to it from this loop are waited for."""
        server = await super().create_server(*args, **options)
        self.connections.listening.add(server)
        return server

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        """Connect a socket; the clock does not advance until the kernel has responded."""
        self.connections.connecting += 1
        try:
            await super().sock_connect(sock, address)
        finally:
            self.connections.connecting -= 1

    def _make_socket_transport(self, sock: socket.socket, *args: Any, **options: Any) -> Any:
        make: Any = super()._make_socket_transport  # type: ignore[misc]
        return make(self.connections.count(sock), *args, **options)

    def _make_ssl_transport(self, rawsock: socket.socket, *args: Any, **options: Any) -> Any:
        make: Any = super()._make_ssl_transport  # type: ignore[misc]
        return make(self.connections.count(rawsock), *args, **options)

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run a call in a thread; the clock does not advance until it has ended."""
        future = super().run_in_executor(executor, func, *args)
        self.threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    async def run_for_thread(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine that a running call in a thread waits for; the clock advances meanwhile."""
        self.threads -= 1
        try:
            return await coroutine
        finally:
            self.threads += 1

    def _thread_ended(self, _: asyncio.Future[Any]) -> None:
        self.threads -= 1


def fake_time(main: Coroutine[Any, Any, T], *, io_timeout: float = 0.0) -> T:
    """Run a coroutine in a `FakeTimeLoop` and return its result.

    `io_timeout`: real seconds to wait for sockets of other processes before each advance of the clock.
    """
    with asyncio.Runner(loop_factory=lambda: FakeTimeLoop(io_timeout=io_timeout)) as runner:
        return runner.run(main)


def wall_clock() -> datetime:
    """Return the date of the running `FakeTimeLoop`."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, FakeTimeLoop):
        raise RuntimeError("wall_clock() requires a running FakeTimeLoop; use fake_time()")
    return loop.wall_clock()


__all__ = ["START", "FakeTimeLoop", "fake_time", "wall_clock"]
