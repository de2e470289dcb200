"""`ForeignProcess`: the explored program, which can be killed and started again.

It gets `KUBECONFIG`, and runs in a process group of its own, so that a shell or a launcher is killed together
with what it started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
from pathlib import Path

RESTART_SECONDS = 1.0
"""Seconds between the end of the program and its next start."""
STOP_TIMEOUT = 5.0
MAX_STARTS = 10


class CommandError(Exception):
    """The program cannot be started, or does not keep running; the message contains the end of its log."""


class ForeignProcess:
    """A program that is restarted when it ends."""

    def __init__(self, command: str, *, kubeconfig: Path, log: Path, directory: Path | None = None) -> None:
        self.arguments = shlex.split(command)
        if not self.arguments:
            raise CommandError("the command is empty")
        self.log = log
        self.starts = 0
        self.failures = 0
        """Number of times that the program ended by itself."""
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONUNBUFFERED": "1"}
        self._directory = directory
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._killed = False

    @property
    def name(self) -> str:
        """Name of the running process in traces."""
        return f"operator-1#{self.starts}"

    @property
    def is_running(self) -> bool:
        """Whether the program runs, and is not about to be started again."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start the program; raise `CommandError` if that is not possible."""
        self.starts += 1
        self._killed = False
        with self.log.open("ab") as output:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *self.arguments,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=self._environment,
                    cwd=self._directory,
                    start_new_session=True,
                )
            except OSError as error:
                raise CommandError(f"cannot run {self.arguments[0]}: {error.strerror}") from None
        self._task = asyncio.create_task(self._supervise(self._process))

    async def _supervise(self, process: asyncio.subprocess.Process) -> None:
        await process.wait()
        if not self._killed:
            self.failures += 1
        if self.starts < MAX_STARTS:
            await asyncio.sleep(RESTART_SECONDS)
            await self.start()

    def kill(self) -> None:
        """Kill the program with SIGKILL; it is started again after `RESTART_SECONDS`."""
        self._killed = True
        self._signal(signal.SIGKILL)

    async def stop(self) -> None:
        """End the program."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._process is None or self._process.returncode is not None:
            return
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await self._process.wait()
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def output(self, *, lines: int = 15) -> str:
        """Return the last lines of the log."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


__all__ = ["CommandError", "ForeignProcess"]
