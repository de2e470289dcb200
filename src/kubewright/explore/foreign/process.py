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
from collections.abc import Callable, Mapping
from pathlib import Path

from .preloading import ProgramTemplate, TemplateProcess, program_environment

RESTART_SECONDS = 0.5
"""Seconds between the end of the program and its next start."""
MAX_STARTS = 10


class CommandError(Exception):
    """The program cannot be started, or does not keep running; the message contains the end of its log."""


class ForeignProcess:
    """A program that is restarted when it ends."""

    def __init__(
        self,
        command: str,
        *,
        kubeconfig: Path,
        log: Path,
        directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
        template: ProgramTemplate | None = None,
    ) -> None:
        """`environment`: variables in addition to those of this process; not with a template."""
        self._template = template
        try:
            self.arguments = shlex.split(command)
        except ValueError as error:
            raise CommandError(f"cannot parse the command {command!r}: {error}") from None
        if not self.arguments:
            raise CommandError("the command is empty")
        self.log = log
        self.starts = 0
        self.failures = 0
        """Number of times that the program ended by itself."""
        self.exit_text = ""
        """How the program ended by itself the last time: `exit code 1`, `signal SIGSEGV`."""
        self.on_start: Callable[[], None] | None = None
        self.on_exit: Callable[[], None] | None = None
        """Is called when the program has ended by itself."""
        self._environment = {**program_environment(kubeconfig), **(environment or {})}
        self._directory = directory
        self._process: asyncio.subprocess.Process | TemplateProcess | None = None
        self._task: asyncio.Task[None] | None = None
        self._killed = False

    @property
    def name(self) -> str:
        """Name of the running process in traces."""
        return f"operator-1#{self.starts}"

    @property
    def is_running(self) -> bool:
        """Whether the program runs, and is not about to be started again."""
        return self._process is not None and self._process.returncode is None and not self._killed

    @property
    def pid(self) -> int | None:
        """The process ID while the program runs."""
        return self._process.pid if self._process is not None and self.is_running else None

    async def start(self) -> None:
        """Start the program; raise `CommandError` if that is not possible."""
        self.starts += 1
        self._killed = False
        self._process = await self._template.start(self.log) if self._template is not None else None
        if self._process is None:
            self._process = await self._execute()
        if self.on_start is not None:
            self.on_start()
        self._task = asyncio.create_task(self._supervise(self._process))

    async def _execute(self) -> asyncio.subprocess.Process:
        with self.log.open("ab") as output:
            try:
                return await asyncio.create_subprocess_exec(
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

    async def _supervise(self, process: asyncio.subprocess.Process | TemplateProcess) -> None:
        code = await process.wait()
        # What the program has started and left behind would write beside its next start.
        _kill_group(process.pid)
        if not self._killed:
            self.failures += 1
            self.exit_text = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
            if self.on_exit is not None:
                self.on_exit()
        if self.starts < MAX_STARTS:
            await asyncio.sleep(RESTART_SECONDS)
            await self.start()

    def kill(self) -> None:
        """Kill the program with SIGKILL; it is started again after `RESTART_SECONDS`."""
        self._killed = True
        if self._process is not None and self._process.returncode is None:
            _kill_group(self._process.pid)

    async def stop(self) -> None:
        """Kill the program for good."""
        if self._task is not None:
            self._task.cancel()
        process = self._process
        if process is None:
            return
        _kill_group(process.pid)
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        # The task may have started the program again before it was cancelled.
        if self._process is not None and self._process is not process:
            _kill_group(self._process.pid)
            process = self._process
        if process.returncode is None:
            await process.wait()

    def output(self, *, lines: int = 15) -> str:
        """Return the last lines of the log."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
