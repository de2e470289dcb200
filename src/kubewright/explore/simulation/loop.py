"""Event loop with virtual time, without threads or sockets, that can stop the tasks of a simulated process.

Everything that one run consists of (control plane, operator, scenario) shares a `VirtualLoop`. Its clock
advances only when no callback is ready, directly to the next timer. Callbacks run in the order in which they
became ready, so a run depends on nothing but its inputs:

- `step` numbers each callback, that is each task switch and each timer; trace events contain it.
- Tasks and futures hash by their number, so that the order of a set of them is the same in every process.
- Calls for an executor run in the thread of the loop. Plain functions of the operator have a thread, which
  runs only while the loop waits for it (`thread_calls`).
- There are no file descriptors. The process can therefore be forked at any point of a run, and parent and
  child continue independently.

A *simulated process* is the value of the context variable `PROCESS`, which tasks inherit. `kill` drops all of
its callbacks without running `except` or `finally` blocks, as SIGKILL does; `pause` retains them until
`resume`, as SIGSTOP does.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import socket
from asyncio import events
from collections.abc import Callable, Coroutine, Generator, Iterable
from concurrent.futures import Executor
from contextvars import Context, ContextVar
from datetime import UTC, datetime
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from kubewright.testing.simulated_clock import SimulatedClock

from .memory_connections import connect_in_memory
from .thread_calls import ThreadCall, current_call

T = TypeVar("T")

MAX_STEPS_PER_INSTANT = 200_000
"""Callbacks without an advance of the clock after which a run is a livelock."""
EPOCH = datetime(2030, 1, 1, tzinfo=UTC).timestamp()
"""Wall clock at virtual time 0, in seconds since the Unix epoch: the same in every run."""
_CANCELLATIONS = 5
"""How often tasks are cancelled at the end of a run."""


class ExternalConnectionBlocked(ConnectionError):
    """The operator tried to connect to a system outside of the simulated cluster."""


class Livelock(Exception):
    """Callbacks keep each other ready and the clock does not advance."""


class ProcessState:
    """What the loop must know about a simulated process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.paused = False
        self.skew = 0.0
        """Seconds by which the wall clock of this process is ahead."""
        self.retained: list[events.Handle] = []
        """Callbacks of a paused process, in order."""
        self.abandoned: list[object] = []
        """Tasks of a killed process. They are referenced, because a collected coroutine would be closed."""


PROCESS: ContextVar[ProcessState | None] = ContextVar("kubewright_explore_process", default=None)


class NumberedFuture(asyncio.Future[T]):
    """A future whose hash does not depend on its address."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class NumberedTask(asyncio.Task[T]):
    """A task whose hash does not depend on its address, and which knows its simulated process."""

    number = 0
    process: ProcessState | None = None

    def __hash__(self) -> int:
        return self.number


class _NoSelector:
    """Stands in for the selector of `BaseEventLoop`."""

    def select(self, timeout: float | None = None) -> list[Any]:
        return []

    def close(self) -> None:
        pass


class _NoConnections:
    """Stands in for an `asyncio.Server`."""

    sockets: tuple[Any, ...] = ()

    def close(self) -> None:
        pass

    def close_clients(self) -> None:
        pass

    async def wait_closed(self) -> None:
        pass


class VirtualLoop(SimulatedClock, asyncio.base_events.BaseEventLoop):
    """Event loop of one run."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        """Virtual seconds since the start."""
        self.epoch = EPOCH
        self.step = 0
        """Number of callbacks that have been run."""
        self.timers = 0
        """Number of timers that have fired."""
        self.max_steps = 0
        """Limit of `step`; 0 means without a limit."""
        self.max_steps_per_instant = MAX_STEPS_PER_INSTANT
        """Callbacks without an advance of the clock after which a run is a livelock."""
        self.current: events.Handle | None = None
        self.uses_threads = False
        """Whether a plain function has run in a thread; such a process cannot be forked within a run."""
        self.blocked_connections: list[str] = []
        """Addresses outside of the simulated cluster to which processes of the operator tried to connect."""
        self.connect: Callable[[str, int], Callable[[], asyncio.BaseProtocol] | None] | None = None
        """Returns a function that accepts a connection to a host and port in this loop, `None` for others."""
        self.on_exit: Callable[[ProcessState, SystemExit], None] | None = None
        """Called when code of a process calls `sys.exit`, which ends only the simulated process."""
        self.on_task: Callable[[NumberedTask[Any]], None] | None = None
        """Called with each task that a process creates."""
        self.on_resume: Callable[[events.Handle], bool] | None = None
        """Returns whether a callback runs now; otherwise the function runs it later."""
        self._names: dict[str, str] = {}
        """Host names by the address that they were given."""
        self._connected: WeakKeyDictionary[Any, tuple[str, int]] = WeakKeyDictionary()
        """Host and port of sockets that were connected."""
        self._instant = 0
        self._numbers = 0
        self._selector = _NoSelector()
        self._ready: Any
        self._scheduled: list[Any]
        self._timer_cancelled_count: int
        self._stopping: bool
        self._clock_resolution = 1e-9
        self.set_task_factory(self._create_task)

    # Clock and callbacks

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self.now

    def wall_time(self) -> float:
        """Return the seconds since the Unix epoch that the running simulated process sees."""
        process = PROCESS.get()
        return self.epoch + self.now + (0.0 if process is None else process.skew)

    def block(self, seconds: float) -> None:
        """Sleep for virtual seconds: a plain function of the operator lets the loop run meanwhile."""
        if current_call() is not None:
            self.run_from_thread(asyncio.sleep(seconds))
        else:
            self.now += seconds

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> events.Handle:
        """Run a callback after those that are ready, unless its simulated process has been killed."""
        handle = events.Handle(callback, args, self, context)
        self.add_ready(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> events.TimerHandle:
        """Run a callback at a virtual time."""
        timer = events.TimerHandle(when, callback, args, self, context)
        handle: Any = timer  # with its private attributes
        process: ProcessState | None = handle._context.get(PROCESS)
        if process is not None and process.dead:
            process.abandoned.append(timer)
            return timer
        heapq.heappush(self._scheduled, timer)
        handle._scheduled = True
        return timer

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled
        while scheduled and scheduled[0]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(scheduled)._scheduled = False
        if not ready and scheduled and not self._stopping:
            when = scheduled[0]._when
            if when > self.now:
                self.now = when
                self._instant = self.step
        while scheduled and scheduled[0]._when <= self.now:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False
            if timer._cancelled:
                self._timer_cancelled_count -= 1
                continue
            self.timers += 1
            self.add_ready(timer)
        if not ready and not scheduled and not self._stopping:
            raise Livelock("no callback is ready and no timer is set")
        for _ in range(len(ready)):
            if not ready:  # a killed process leaves its callbacks out
                break
            handle = ready.popleft()
            if handle._cancelled:
                continue
            if self.on_resume is not None and not self.on_resume(handle):
                continue
            self.step += 1
            self.current = handle
            try:
                handle._run()
            except SystemExit as error:
                process: ProcessState | None = handle._context.get(PROCESS)
                if process is None or self.on_exit is None:
                    raise
                self.on_exit(process, error)
        self.current = None
        if self.step - self._instant > self.max_steps_per_instant:
            raise Livelock(f"{self.max_steps_per_instant} task switches at {self.now:.3f} s of virtual time")
        if self.max_steps and self.step > self.max_steps:
            raise Livelock(f"more than {self.max_steps} task switches in one run")

    def add_ready(self, handle: Any) -> None:
        """Run the handle of a callback after those that are ready, as `call_soon` does."""
        process: ProcessState | None = handle._context.get(PROCESS)
        if process is None or not (process.dead or process.paused):
            self._ready.append(handle)
        elif process.dead:
            process.abandoned.append(handle)
        else:
            process.retained.append(handle)

    def _process_events(self, event_list: Any) -> None:
        """There are no file descriptors."""

    def _write_to_self(self) -> None:
        """Callbacks only come from the thread of the loop."""

    # Sockets: servers of the control plane and of simulated nodes exist, and no bytes reach them

    def add_reader(  # type: ignore[override]
        self, fd: Any, callback: Callable[..., object], *args: Any
    ) -> None:
        """Do nothing: no bytes arrive."""

    def remove_reader(self, fd: Any) -> bool:
        """Return False: nothing was added."""
        return False

    async def create_server(self, *args: Any, **options: Any) -> Any:
        """Return a server without connections."""
        return _NoConnections()

    async def create_connection(  # type: ignore[override]
        self, factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        """Connect to an application in this loop; raise `ExternalConnectionBlocked` for others."""
        sock = options.get("sock")
        if sock is not None:
            host, port = self._connected.pop(sock, (None, None))
            sock.close()
        accept = self.connect(str(host), int(port)) if self.connect is not None and port else None
        if accept is None:
            raise self._blocked(f"{host}:{port}" if host is not None else "a socket")
        return connect_in_memory(self, factory, accept(), (str(host), int(port)))

    async def sock_connect(self, sock: Any, address: Any) -> None:
        """Connect a socket to an application in this loop."""
        host, port = address[:2]
        host = self._names.get(host, host)
        if self.connect is None or self.connect(str(host), int(port)) is None:
            raise self._blocked(f"{host}:{port}")
        self._connected[sock] = (host, port)

    async def create_unix_connection(  # type: ignore[override]
        self, factory: Any, path: Any = None, **options: Any
    ) -> Any:
        """Raise `ExternalConnectionBlocked`: runs have no sockets."""
        raise self._blocked(str(path))

    async def create_datagram_endpoint(  # type: ignore[override]
        self, factory: Any, local_addr: Any = None, remote_addr: Any = None, **options: Any
    ) -> Any:
        """Raise `ExternalConnectionBlocked`: runs have no network."""
        raise self._blocked(":".join(map(str, remote_addr or local_addr or ("a socket",))))

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        """Return an address of an application in this loop; raise `ExternalConnectionBlocked` for others."""
        if self.connect is None or not port or self.connect(str(host), int(port)) is None:
            raise self._blocked(f"{host}:{port}" if port else str(host))
        found = next((each for each, name in self._names.items() if name == host), "")
        if not found:
            found = f"198.18.0.{len(self._names) + 1}"
            self._names[found] = host
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (found, int(port)))]

    async def subprocess_exec(  # type: ignore[override]
        self, factory: Any, program: Any, *args: Any, **options: Any
    ) -> Any:
        """Raise `ExternalConnectionBlocked`: a program would not see virtual time."""
        raise self._blocked(f"the program {program}")

    async def subprocess_shell(self, factory: Any, cmd: Any, **options: Any) -> Any:  # type: ignore[override]
        """Raise `ExternalConnectionBlocked`: a program would not see virtual time."""
        raise self._blocked(f"the program {cmd}")

    def _blocked(self, address: str) -> ExternalConnectionBlocked:
        if PROCESS.get() is not None:
            self.blocked_connections.append(address)
        return ExternalConnectionBlocked(
            f"{address} is outside of the simulated cluster; replace the client by an ExternalFake"
        )

    # Tasks and futures

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future with a number."""
        future: NumberedFuture[Any] = NumberedFuture(loop=self)
        self._numbers += 1
        future.number = self._numbers
        return future

    def _create_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, T] | Generator[Any, None, T],
        **options: Any,
    ) -> asyncio.Task[T]:
        task: NumberedTask[T] = NumberedTask.__new__(NumberedTask)
        self._numbers += 1
        task.number = self._numbers  # before __init__, which adds the task to a set
        context: Context | None = options.get("context")
        task.process = PROCESS.get() if context is None else context.get(PROCESS)
        asyncio.Task.__init__(task, coroutine, loop=loop, **options)
        if task.process is not None and self.on_task is not None:
            self.on_task(task)
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Call a function in the thread of the loop, or for a process of the operator in another one."""
        future = self.create_future()
        if PROCESS.get() is not None:
            self.uses_threads = True
            ThreadCall(self, future, func, args).start()
            return future
        try:
            result = func(*args)
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(result)
        return future

    def run_from_thread(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine for a thread of `run_in_executor`, and return its result to the thread."""
        call = current_call()
        if call is None:
            coroutine.close()
            raise RuntimeError("only functions of the operator can use a SyncClient during exploration")
        result: T = call.run(coroutine)
        return result

    # Simulated processes

    def kill(self, process: ProcessState) -> None:
        """End a process: none of its callbacks runs any more."""
        process.dead, process.paused = True, False
        process.retained.clear()
        for task in asyncio.all_tasks(self):
            if isinstance(task, NumberedTask) and task.process is process:
                _end_silently(task)
                process.abandoned.append(task)
        self._remove(process, process.abandoned)

    def pause(self, process: ProcessState) -> None:
        """Retain the callbacks of a process until `resume`."""
        process.paused = True
        self._remove(process, process.retained)

    def resume(self, process: ProcessState) -> None:
        """Continue a paused process."""
        process.paused = False
        if not process.dead:
            self._ready.extend(process.retained)
        process.retained.clear()

    def discard(self, processes: Iterable[ProcessState]) -> None:
        """Cancel all tasks, also those of killed processes, and close the loop.

        Only for the end of a run: `finally` blocks of killed processes run now, so that no coroutine is
        closed later by the garbage collector.
        """
        for process in processes:
            self.resume(process)
            process.dead = False
            self._ready.extend(each for each in process.abandoned if isinstance(each, events.Handle))
            process.abandoned.clear()
        self.max_steps = 0
        self.set_exception_handler(lambda loop, context: None)
        for _ in range(_CANCELLATIONS):
            tasks = asyncio.all_tasks(self)
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            self._instant = self.step
            with contextlib.suppress(Livelock):
                self.run_until_complete(asyncio.wait(tasks, timeout=1.0))
        self.run_until_complete(self.shutdown_asyncgens())
        for task in asyncio.all_tasks(self):
            _end_silently(task)
        self.close()

    def _remove(self, process: ProcessState, target: list[Any]) -> None:
        """Move the ready callbacks of a process to a list; those of timers stay until they are due."""
        ready = self._ready
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._context.get(PROCESS) is process:
                target.append(handle)
            else:
                ready.append(handle)


def _end_silently(task: Any) -> None:
    """Let a pending task be destroyed without the message of asyncio."""
    task._log_destroy_pending = False
