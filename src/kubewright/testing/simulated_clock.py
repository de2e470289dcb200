"""`SimulatedClock`: one clock for an event loop, the dates of the code that runs in it, and its threads.

Event loops with a simulated clock (`FakeTimeLoop`, and the loop of `explore`) are instances of it. While such
a loop runs, these functions depend on its clock only:

- the date: `time.time`, `time.time_ns`, `time.gmtime`, `time.localtime`, `time.ctime`, `time.asctime`,
  `time.strftime`, `datetime.now`, `datetime.utcnow`, `datetime.today`, `date.today`, and therefore `now()` of
  `kubewright.api`, log records and everything that the control plane writes
- the time of the loop: `time.monotonic`, `time.perf_counter` and their `_ns` forms, `time.clock_gettime`
- `time.sleep`, which advances the clock
- the validity of certificates in TLS handshakes (`simulated_tls`)

CPU time (`time.process_time`, `time.thread_time`) is real. So are the times of files, the clocks of other
processes, and timeouts of locks, queues, sockets and processes: the standard library and test runners see the
simulated date, and otherwise the real clock, because what they wait for is real.

Which clock a call sees depends on its thread: that of the running event loop, or without one that of the
loop which started the thread or runs the call (`run_in_executor`). Other threads, code between two runs of
the loop, and code after it see real time. The functions are restored when no simulated loop runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from .replaced_functions import ReplacedFunctions
from .simulated_tls import replace_verification

T = TypeVar("T")


class SimulatedClock:
    """Base class of event loops with a simulated clock."""

    now = 0.0
    """Simulated seconds since the start: the time of the loop."""
    epoch = 0.0
    """Wall clock at the start, in seconds since the Unix epoch."""

    def wall_time(self) -> float:
        """Return the simulated wall clock, in seconds since the Unix epoch."""
        return self.epoch + self.now

    def block(self, seconds: float) -> None:
        """Block the current thread for simulated seconds."""
        raise NotImplementedError

    if TYPE_CHECKING:

        def is_closed(self) -> bool:
            """Whether the event loop was closed."""


class _ThreadClock(threading.local):
    """The clock of a thread without a running event loop."""

    clock: SimulatedClock | None = None


_thread = _ThreadClock()


def current_clock() -> SimulatedClock | None:
    """Return the clock of the running event loop or of the thread; `None` means the real clock."""
    loop = asyncio._get_running_loop()
    if loop is not None:
        return loop if isinstance(loop, SimulatedClock) else None
    clock = _thread.clock
    return None if clock is None or clock.is_closed() else clock


@contextlib.contextmanager
def clock_of_thread(clock: SimulatedClock) -> Iterator[None]:
    """Use a clock in the current thread until the block ends, unless another event loop runs in it."""
    before, _thread.clock = _thread.clock, clock
    try:
        yield
    finally:
        _thread.clock = before


def call_with_clock(clock: SimulatedClock, function: Callable[..., T], *args: Any) -> T:
    """Call a function, and use a clock in the current thread meanwhile."""
    with clock_of_thread(clock):
        return function(*args)


def _clock_gettime(clock: SimulatedClock, which: int) -> float:
    if which == time.CLOCK_REALTIME:
        return clock.wall_time()
    is_cpu = which in (time.CLOCK_PROCESS_CPUTIME_ID, time.CLOCK_THREAD_CPUTIME_ID)
    return _real_clock_gettime(which) if is_cpu else clock.now


def _date(real: Callable[..., T]) -> Callable[..., T]:
    """Return a function of the `time` module with the simulated time as its default."""

    def function(clock: SimulatedClock, seconds: float | None = None) -> T:
        return real(clock.wall_time() if seconds is None else seconds)

    return function


def _time_tuple(clock: SimulatedClock, value: Any = None) -> Any:
    return _localtime(clock.wall_time()) if value is None else value


def _start_thread(clock: SimulatedClock, thread: threading.Thread) -> None:
    """Start a thread with the clock of the one that starts it."""
    run = thread.run

    def run_with_clock() -> None:
        _thread.clock = clock
        run()

    thread.run = run_with_clock  # type: ignore[method-assign]
    _start(thread)


real_time, real_sleep = time.time, time.sleep
_real_clock_gettime, _localtime = time.clock_gettime, time.localtime
_asctime, _strftime = time.asctime, time.strftime
_start = threading.Thread.start

replaced_clocks: ReplacedFunctions[SimulatedClock] = ReplacedFunctions(current_clock)
"""The functions of the standard library; a simulated loop installs them while it runs."""
replaced_clocks.replace(time, "time", lambda clock: clock.wall_time())
replaced_clocks.replace(time, "time_ns", lambda clock: int(clock.wall_time() * 1e9))
for _name in ("monotonic", "perf_counter"):
    replaced_clocks.replace(time, _name, lambda clock: clock.now, for_library=False)
    replaced_clocks.replace(time, f"{_name}_ns", lambda clock: int(clock.now * 1e9), for_library=False)
replaced_clocks.replace(time, "clock_gettime", _clock_gettime)
replaced_clocks.replace(
    time, "clock_gettime_ns", lambda clock, which: int(_clock_gettime(clock, which) * 1e9)
)
for _real in (time.gmtime, time.localtime, time.ctime):
    replaced_clocks.replace(time, _real.__name__, _date(_real))
replaced_clocks.replace(time, "asctime", lambda clock, value=None: _asctime(_time_tuple(clock, value)))
replaced_clocks.replace(
    time, "strftime", lambda clock, text, value=None: _strftime(text, _time_tuple(clock, value))
)
replaced_clocks.replace(time, "sleep", lambda clock, seconds: clock.block(seconds), for_library=False)
replaced_clocks.replace(threading.Thread, "start", _start_thread)
replaced_clocks.replace_class_method(
    datetime.datetime, "now", lambda clock, cls, tz=None: cls.fromtimestamp(clock.wall_time(), tz)
)
replaced_clocks.replace_class_method(
    datetime.datetime,
    "utcnow",
    lambda clock, cls: cls.fromtimestamp(clock.wall_time(), datetime.UTC).replace(tzinfo=None),
)
replaced_clocks.replace_class_method(
    datetime.date, "today", lambda clock, cls: cls.fromtimestamp(clock.wall_time())
)
replace_verification(replaced_clocks)
