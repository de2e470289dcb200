"""`EventLoopMonitor`: finds calls that block the event loop, and names the function and the line.

A thread asks the event loop to respond. If it does not within 100 ms, the stack of the thread of the loop
shows which function is running: the innermost one that belongs to neither the standard library nor an
installed package. In development the thread asks 20 times a second. In production it asks once a second, so
that only longer calls are named, and `kubewright_event_loop_delay_seconds` counts all delays that it saw.
"""

from __future__ import annotations

import asyncio
import linecache
import logging
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Iterable
from types import FrameType
from typing import Any

from kubewright.histogram import Histogram
from kubewright.runnable import BaseRunnable

logger = logging.getLogger(__name__)

BLOCKED_SECONDS = 0.1
"""Time without a response after which the event loop is reported as blocked."""
DEVELOPMENT_INTERVAL = 0.05
PRODUCTION_INTERVAL = 1.0
_REPEAT_SECONDS = 60.0
"""The same line is reported again after this time."""
_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_HINT = "use an async library, asyncio.to_thread, or a plain function (def), which runs in a thread"

delays = Histogram(_BUCKETS)
"""Delays of the event loop of this process."""
_registered = False


class EventLoopMonitor(BaseRunnable):
    """Watches the event loop that it runs on, from a thread of its own."""

    name = "event-loop-monitor"
    needs_leader = False

    def __init__(self, *, interval: float = PRODUCTION_INTERVAL) -> None:
        """`interval`: seconds between two checks."""
        self._interval = interval
        self._ended = threading.Event()
        self._reported: dict[str, float] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until `stop` is set."""
        _register_metrics()
        loop, loop_thread = asyncio.get_running_loop(), threading.get_ident()
        watching = threading.Thread(
            target=self._watch, args=(loop, loop_thread), name="event-loop-monitor", daemon=True
        )
        watching.start()
        try:
            await stop.wait()
        finally:
            self._ended.set()

    def _watch(self, loop: asyncio.AbstractEventLoop, loop_thread: int) -> None:
        while not self._ended.wait(self._interval):
            responded = threading.Event()
            asked = time.perf_counter()
            try:
                loop.call_soon_threadsafe(responded.set)
            except RuntimeError:
                return  # the loop is closed
            if not responded.wait(BLOCKED_SECONDS):
                self._report(sys._current_frames().get(loop_thread))
                while not responded.wait(BLOCKED_SECONDS):
                    if self._ended.is_set():
                        return
            delays.observe(time.perf_counter() - asked)

    def _report(self, innermost: FrameType | None) -> None:
        frame = innermost
        while frame is not None and _is_library(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None:
            return  # only code of libraries: nothing that the user can change
        line = f"{os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno}"
        now = time.monotonic()
        if now - self._reported.get(line, -_REPEAT_SECONDS) < _REPEAT_SECONDS:
            return
        self._reported[line] = now
        logger.warning(
            "blocking call in the event loop",
            extra={
                "function": frame.f_code.co_qualname,
                "line": line,
                "code": linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip(),
                "hint": _HINT,
            },
        )


_LIBRARIES = tuple(
    os.path.join(path, "")
    for path in {
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        os.path.dirname(os.path.dirname(os.path.dirname(__file__))),
    }
)


def _is_library(filename: str) -> bool:
    return filename.startswith(("<", *_LIBRARIES))


def _register_metrics() -> None:
    global _registered
    if not _registered:
        from prometheus_client import REGISTRY

        _registered = True
        REGISTRY.register(_Collector())


class _Collector:
    def describe(self) -> Iterable[Any]:
        return ()

    def collect(self) -> Iterable[Any]:
        from prometheus_client.core import HistogramMetricFamily

        family = HistogramMetricFamily(
            "kubewright_event_loop_delay_seconds",
            "Delay of the event loop, sampled at regular intervals",
            labels=[],
        )
        family.add_metric([], *delays.collect())
        return (family,)
