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

The date is simulated as well: `now()` of `kubewright.api`, `datetime.now`, `time.time`, `time.monotonic` and
all timestamps of a test server follow the clock of the loop (`simulated_clock`). It starts at the current
date, to the second, or at `start`.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, ProcessPoolExecutor
from datetime import datetime
from typing import Any, TypeVar

from .loop_connections import LoopConnections
from .simulated_clock import SimulatedClock, call_with_clock, real_sleep, real_time, replaced_clocks

T = TypeVar("T")

DELIVERY_TIMEOUT = 1.0
"""Real seconds to wait for bytes that the loop has sent to itself."""


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
            loop.advance(timeout)
            loop.jumps += 1
        return ready


class FakeTimeLoop(SimulatedClock, asyncio.SelectorEventLoop):
    """Event loop with a simulated clock that starts at 0."""

    def __init__(self, *, io_timeout: float = 0.0, start: datetime | None = None) -> None:
        """`io_timeout`: real seconds to wait for sockets of other processes before the clock advances.
        `start`: the date at the start, by default the current one; requires a time zone."""
        self.now = 0.0
        self.jumps = 0
        """Number of times that the clock was advanced."""
        self.connections = LoopConnections()
        self.threads = 0
        """Number of running calls in threads."""
        self._io_timeout = io_timeout
        self._calls: set[int] = set()
        """Identifiers of the threads that run calls."""
        self._clock_lock = threading.Lock()
        selector = _FakeTimeSelector(selectors.DefaultSelector(), io_timeout)
        super().__init__(selector)  # type: ignore[arg-type]
        try:
            self.epoch = _timestamp(start)
        except ValueError:
            self.close()
            raise
        selector.loop = self
        # asyncio runs timers that are due before `time() + resolution`; after 194 days, a nanosecond is
        # less than the precision of a float.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Return the simulated time in seconds."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Advance the clock without running anything; timers that are due run afterwards."""
        with self._clock_lock:
            self.now += seconds

    def run_forever(self) -> None:
        """Run until `stop` is called; the code that runs sees the simulated clock."""
        with replaced_clocks.installed():
            super().run_forever()

    def block(self, seconds: float) -> None:
        """Sleep for simulated seconds: in the thread of the loop nothing else runs meanwhile.

        Another thread waits for the loop, but no longer than the same number of real seconds, because the
        loop may be waiting for the thread.
        """
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        if asyncio._get_running_loop() is self:
            real_sleep(min(seconds, self._io_timeout))
            self.advance(seconds)
            return
        until = self.now + seconds
        sleeps: Coroutine[Any, Any, None] = asyncio.sleep(seconds)
        if threading.get_ident() in self._calls:
            sleeps = self.run_for_thread(sleeps)
        waiting = asyncio.run_coroutine_threadsafe(sleeps, self)
        try:
            waiting.result(seconds)
        except TimeoutError:
            waiting.cancel()
            with self._clock_lock:
                self.now = max(self.now, until)

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
        if isinstance(executor, ProcessPoolExecutor):  # has the clock of the operating system
            future = super().run_in_executor(executor, func, *args)
        else:
            future = super().run_in_executor(executor, self._call, func, *args)
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

    def _call(self, func: Callable[..., T], *args: Any) -> T:
        thread = threading.get_ident()
        self._calls.add(thread)
        try:
            return call_with_clock(self, func, *args)
        finally:
            self._calls.discard(thread)

    def _thread_ended(self, _: asyncio.Future[Any]) -> None:
        self.threads -= 1


def fake_time(main: Coroutine[Any, Any, T], *, io_timeout: float = 0.0, start: datetime | None = None) -> T:
    """Run a coroutine in a `FakeTimeLoop` and return its result.

    `io_timeout`: real seconds to wait for sockets of other processes before each advance of the clock.
    `start`: the date at the start, with a time zone; by default the current one, to the second.
    """
    with asyncio.Runner(loop_factory=lambda: FakeTimeLoop(io_timeout=io_timeout, start=start)) as runner:
        return runner.run(main)


def _timestamp(start: datetime | None) -> float:
    if start is None:
        return float(int(real_time()))  # the fraction would be different in each run
    if start.tzinfo is None:
        raise ValueError(f"the start {start} requires a time zone: datetime(2030, 1, 1, tzinfo=UTC)")
    return start.timestamp()
