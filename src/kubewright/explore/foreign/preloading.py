"""`ProgramTemplate`: starts of a Python program that do not import its libraries again.

Most of the start of a program in Python are its imports: a second for kopf, and three more for the
`kubernetes` client. A template (`template`) imports the libraries once, and is forked for each start; the
modules of the program itself are imported by each start. Other programs are started as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import shutil
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from . import template

IMPORT_SECONDS = 120.0
"""Real seconds within which the libraries must be imported."""


def program_environment(kubeconfig: Path) -> dict[str, str]:
    """Return the variables of this process, with a kubeconfig as the only cluster.

    Many clients prefer the cluster of the pod in which they run, such as that of a CI job, to `KUBECONFIG`.
    """
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("KUBERNETES_")}
    return {**inherited, "KUBECONFIG": str(kubeconfig), "PYTHONUNBUFFERED": "1"}


def python_command(command: str) -> list[str] | None:
    """Return interpreter and arguments of a command that runs Python; `None` for another program."""
    try:
        arguments = shlex.split(command)
    except ValueError:
        return None
    found = shutil.which(arguments[0]) if arguments else None
    if found is None:
        return None
    if Path(found).name.startswith("python"):
        is_known = len(arguments) > 1 and (not arguments[1].startswith("-") or arguments[1:2] == ["-m"])
        return [found, *arguments[1:]] if is_known and arguments[1:] != ["-m"] else None
    with open(found, "rb") as file:
        line = file.readline(256)
    interpreter = line[2:].decode(errors="replace").strip() if line.startswith(b"#!") else ""
    if not Path(interpreter).name.startswith("python") or not Path(interpreter).is_file():
        return None
    return [interpreter, found, *arguments[1:]]


class TemplateProcess:
    """A start of a program, with the part of `asyncio.subprocess.Process` that is used."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = asyncio.Event()

    def end(self, code: int) -> None:
        """Note the exit code."""
        self.returncode = code
        self._ended.set()

    async def wait(self) -> int:
        """Wait for the exit code."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode


class ProgramTemplate:
    """An interpreter with the libraries of a program, for one run at a time.

    Libraries read the environment when they are imported, so the kubeconfig of all runs has the same path.
    """

    def __init__(self, arguments: list[str], *, directory: Path | None, kubeconfig: Path) -> None:
        self._arguments = arguments
        self._directory = directory
        self.kubeconfig = kubeconfig
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._started: asyncio.Queue[TemplateProcess | None] = asyncio.Queue()
        self._running: dict[int, TemplateProcess] = {}
        self._is_usable = True

    async def open(self, environment: Mapping[str, str]) -> None:
        """Start the interpreter; it imports the libraries before the first start."""
        interpreter, *arguments = self._arguments
        self._process = await asyncio.create_subprocess_exec(
            interpreter,
            template.__file__,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment,
            cwd=self._directory,
        )
        self._reader = asyncio.create_task(self._read(self._process))

    async def start(self, log: Path) -> TemplateProcess | None:
        """Start the program; return `None` if the template has ended, or did not respond."""
        assert self._process is not None
        assert self._process.stdin is not None
        if not self._is_usable:
            return None
        try:
            self._process.stdin.write(json.dumps({"log": str(log)}).encode() + b"\n")
            await self._process.stdin.drain()
            async with asyncio.timeout(IMPORT_SECONDS):
                return await self._started.get()
        except ConnectionError:
            return None
        except TimeoutError:
            self._is_usable = False  # a late response would be that of the next start
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            return None

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            value: dict[str, int] = json.loads(line)
            if "pid" in value:
                started = self._running[value["pid"]] = TemplateProcess(value["pid"])
                self._started.put_nowait(started)
            elif (ended := self._running.pop(value["ended"], None)) is not None:
                ended.end(value["code"])
        self._started.put_nowait(None)
        for each in self._running.values():
            each.end(1)

    async def aclose(self) -> None:
        """End the interpreter; its forks are killed by those who started them."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        if self._reader is not None:
            await asyncio.gather(self._reader, return_exceptions=True)


class ProgramTemplates:
    """Templates of a program, one for each run at the same time."""

    def __init__(self, command: str, *, directory: Path | None, scratch: Path) -> None:
        self._arguments = python_command(command)
        self._directory = directory
        self._scratch = scratch
        self._idle: list[ProgramTemplate] = []
        self._count = 0

    @contextlib.asynccontextmanager
    async def borrowed(self) -> AsyncIterator[ProgramTemplate | None]:
        """Lend a template for a run; `None` if the program is not written in Python."""
        if self._arguments is None:
            yield None
            return
        found = self._idle.pop() if self._idle else await self._open(self._arguments)
        try:
            yield found
        finally:
            self._idle.append(found)

    async def _open(self, arguments: list[str]) -> ProgramTemplate:
        self._count += 1
        kubeconfig = self._scratch / f"kubeconfig-{self._count}"
        created = ProgramTemplate(arguments, directory=self._directory, kubeconfig=kubeconfig)
        await created.open(program_environment(kubeconfig))
        return created

    async def aclose(self) -> None:
        """End all templates."""
        for each in self._idle:
            await each.aclose()
        self._idle.clear()
