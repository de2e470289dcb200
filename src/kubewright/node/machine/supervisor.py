"""Child processes that are restarted when they end, with a delay that doubles, and end with this process.

The output of each goes to a log file. A process is a session of its own, so that signals of a terminal reach
only this process, which then stops its children in order.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kubewright.background import run_forever

logger = logging.getLogger(__name__)

MAX_DELAY = 30.0
HEALTHY_SECONDS = 60.0
"""Time after which a process that ends is restarted without a longer delay."""
STOP_TIMEOUT = 10.0
_PR_SET_PDEATHSIG = 1


class ChildProcess:
    """A program that runs until it is stopped."""

    def __init__(self, name: str, command: Sequence[str | Path], *, log: Path) -> None:
        self.name = name
        self.command = [str(each) for each in command]
        self.log = log
        """The file with its output."""
        self.starts = 0
        """How often it was started."""
        self._process: asyncio.subprocess.Process | None = None
        self._loop: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process ID; `None` while it does not run."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    def start(self) -> None:
        """Start the program, and start it again whenever it ends."""
        self._loop = run_forever(self._run, name=f"process {self.name}")

    async def stop(self) -> None:
        """End the program: SIGTERM, then SIGKILL."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _run(self) -> None:
        delay, loop = 0.5, asyncio.get_running_loop()
        while True:
            begun = loop.time()
            with self.log.open("ab") as output:
                self._process = await asyncio.create_subprocess_exec(
                    *self.command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    preexec_fn=_end_with_parent,
                )
            self.starts += 1
            code = await self._process.wait()
            delay = 0.5 if loop.time() - begun > HEALTHY_SECONDS else min(delay * 2, MAX_DELAY)
            logger.warning(
                "program of the node ended",
                extra={"program": self.name, "code": code, "restart_seconds": delay, "log": str(self.log)},
            )
            await asyncio.sleep(delay)


def _end_with_parent() -> None:
    """Let Linux end this process with its parent, also if that is killed."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == 1:
        os._exit(1)
