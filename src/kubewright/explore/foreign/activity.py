"""`Activity`: whether a program is idle.

A program is idle after a *quiet period* without a change of the store, a write, a watch event, or a read that
it has not repeated since the last change: a program that polls is idle too. The period is measured while the
event loop of the exploration responds and the program waits. While a thread of the program is runnable, a
quarter of the CPU time that it gets counts instead, so that a busy machine does not look like an idle
program, and a program that computes all the time is idle at some point.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 0.05
BUSY_FACTOR = 0.25
_MAX_TICK = 2 * POLL_SECONDS
_POLLS_PER_SAMPLE = 4
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process and its descendants do."""

    is_runnable: bool = False
    """Whether a thread is running, runnable or waits for a disk."""
    cpu_seconds: float = 0.0


class Activity:
    """Measures for how long nothing has happened."""

    def __init__(self) -> None:
        self.idle_seconds = 0.0
        self._loop = asyncio.get_running_loop()
        self._reads: set[str] = set()
        self._polls = 0
        self._usage = Usage()

    def restart(self) -> None:
        """Note that something happened."""
        self.idle_seconds = 0.0

    def changed(self) -> None:
        """Note a change of the store or a write; all reads count again."""
        self._reads.clear()
        self.idle_seconds = 0.0

    def read(self, text: str) -> None:
        """Note a read; it counts once after each change."""
        if text not in self._reads:
            self._reads.add(text)
            self.idle_seconds = 0.0

    async def poll(self, pid: int | None) -> None:
        """Let a short time pass, and add it to the idle time; `pid` is that of the program."""
        before = self._loop.time()
        await asyncio.sleep(POLL_SECONDS)
        self._polls += 1
        if self._polls % _POLLS_PER_SAMPLE == 0:
            earlier, self._usage = self._usage, usage_of(pid) if pid is not None else Usage()
            if self._usage.is_runnable:
                used = max(self._usage.cpu_seconds - earlier.cpu_seconds, 0.0)
                self.idle_seconds += BUSY_FACTOR * min(used, _POLLS_PER_SAMPLE * POLL_SECONDS)
        if not self._usage.is_runnable:
            self.idle_seconds += min(self._loop.time() - before, _MAX_TICK)


def usage_of(pid: int) -> Usage:
    """Return what a process and its descendants do; nothing without /proc."""
    is_runnable, ticks, pending = False, 0, [pid]
    while pending:
        process = _PROC / str(pending.pop())
        with contextlib.suppress(OSError):
            fields = process.joinpath("stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])  # utime, stime
            for thread in process.joinpath("task").iterdir():
                with contextlib.suppress(OSError):
                    is_runnable |= thread.joinpath("stat").read_text().rpartition(")")[2].split()[0] in "RD"
                    pending += map(int, thread.joinpath("children").read_text().split())
    return Usage(is_runnable, ticks / os.sysconf("SC_CLK_TCK"))
