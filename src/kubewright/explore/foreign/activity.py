"""`Activity`: whether a program is idle.

A program is idle after a *quiet period* without a change of the store, a write, a watch event, or a read that
it has not repeated since the last change: a program that polls is idle too. The period is measured while the
event loop of the exploration responds, and passes at a quarter of the speed while a thread of the program is
runnable, so that a busy machine does not look like an idle program.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

POLL_SECONDS = 0.05
BUSY_FACTOR = 0.25
_MAX_TICK = 2 * POLL_SECONDS
_BUSY_CHECK = 4
"""Number of polls per check of the threads."""
_PROC = Path("/proc")


class Activity:
    """Measures for how long nothing has happened."""

    def __init__(self) -> None:
        self.idle_seconds = 0.0
        self._loop = asyncio.get_running_loop()
        self._reads: set[str] = set()
        self._last = self._loop.time()
        self._polls = 0
        self._is_busy = False

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
        self._last = self._loop.time()
        await asyncio.sleep(POLL_SECONDS)
        self._polls += 1
        if self._polls % _BUSY_CHECK == 0:
            self._is_busy = pid is not None and is_runnable(pid)
        passed = min(self._loop.time() - self._last, _MAX_TICK)
        self.idle_seconds += passed * (BUSY_FACTOR if self._is_busy else 1.0)


def is_runnable(pid: int) -> bool:
    """Whether a thread of a process or of its descendants is running or runnable; false without /proc."""
    pending = [pid]
    while pending:
        threads = _PROC / str(pending.pop()) / "task"
        with contextlib.suppress(OSError):
            for thread in threads.iterdir():
                if thread.joinpath("stat").read_text().rpartition(")")[2].split()[0] == "R":
                    return True
                with contextlib.suppress(OSError):
                    pending += map(int, thread.joinpath("children").read_text().split())
    return False


__all__ = ["POLL_SECONDS", "Activity", "is_runnable"]
