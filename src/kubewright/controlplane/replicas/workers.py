"""`Workers`: further processes that serve the API of a control plane, on the same port and store.

This process owns the store and runs everything that exists once: controllers, scheduler, nodes, expiry and
compaction. It also serves requests. The workers serve requests only. The kernel divides new connections among
all processes (SO_REUSEPORT); a worker reads from its copy of the store (`SocketStorage`).

A worker that exits is reported and started again. A worker ends when this process does, however it ended:
its standard input is a pipe that ends with this process, which a thread waits for (`exit_with_parent`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kubewright.background import run_forever
from kubewright.storage.socket.server import StorageServer

if TYPE_CHECKING:
    from kubewright.storage.local import LocalStorage

logger = logging.getLogger("kubewright.controlplane")

SOCKET_VARIABLE = "KUBEWRIGHT_STORAGE_SOCKET"
"""Environment variable of a worker: the path of the socket of the store."""
READY = b"ready\n"
"""The line that a worker writes to its standard output when it listens."""
STOP_TIMEOUT = 15.0
"""Seconds after which a worker that does not stop is killed."""
MAX_RESTART_DELAY = 10.0
"""Seconds before a worker that exits again and again is started again."""


EXIT_DELAY = 0.5
"""Seconds in which a worker writes what it has to write after the process that started it has ended."""


class WorkerFailed(Exception):
    """A worker exited before it was ready."""


class Workers:
    """`count` processes, which run `command(number)` with numbers from 1.

    `on_exit` is called with number and exit code of a worker that exited after it had been ready.
    """

    def __init__(
        self,
        storage: LocalStorage,
        count: int,
        command: Callable[[int], Sequence[str]],
        *,
        on_exit: Callable[[int, int], object],
    ) -> None:
        self._storage = storage
        self._count = count
        self._command = command
        self._on_exit = on_exit
        self._directory: Path | None = None
        self._server: StorageServer | None = None
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._is_stopping = False

    async def start(self) -> None:
        """Start all workers; return when they listen. Raises `WorkerFailed`."""
        self._directory = Path(tempfile.mkdtemp(prefix="kubewright-"))
        self._server = StorageServer(self._storage, self._directory)
        await self._server.start()
        ready = []
        for number in range(1, self._count + 1):
            listens = asyncio.get_running_loop().create_future()
            self._tasks.append(
                run_forever(partial(self._supervise, number, listens), name=f"worker {number}")
            )
            ready.append(listens)
        await asyncio.gather(*ready)

    def terminate(self) -> None:
        """Request all workers to stop; they are not started again."""
        self._is_stopping = True
        for process in self._processes.values():
            _send(process.terminate)

    async def stop(self) -> None:
        """Stop all workers: they finish running requests, for which they need the store."""
        self.terminate()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=STOP_TIMEOUT)
            if late:
                logger.warning("workers did not stop; killing them", extra={"workers": len(late)})
            for process in self._processes.values():
                _send(process.kill)
            for task in late:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            self._server.close()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def process_ids(self) -> dict[int, int]:
        """The process IDs of the running workers, by number."""
        return {number: process.pid for number, process in self._processes.items()}

    async def _supervise(self, number: int, listens: asyncio.Future[None]) -> None:
        """Run a worker, and start it again when it exits. `listens` is for the first time."""
        delay = 0.1
        while True:
            begun = time.monotonic()
            try:
                code = await self._run(number, listens)
            except OSError as error:
                if listens.done():
                    raise
                listens.set_exception(WorkerFailed(f"cannot start worker {number}: {error}"))
                return
            if self._is_stopping:
                return
            if not listens.done():
                listens.set_exception(
                    WorkerFailed(f"worker {number} exited with code {code} before it was ready")
                )
                return
            if time.monotonic() - begun > 60:
                delay = 0.1
            self._on_exit(number, code)
            await asyncio.sleep(delay)
            delay = min(delay * 2, MAX_RESTART_DELAY)

    async def _run(self, number: int, listens: asyncio.Future[None]) -> int:
        """Run one process to its end; return its exit code."""
        assert self._server is not None
        process = await asyncio.create_subprocess_exec(
            *self._command(number),
            env={**os.environ, SOCKET_VARIABLE: str(self._server.path)},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # Ctrl-C in a terminal is sent to this process only, which stops the workers first.
            start_new_session=True,
        )
        self._processes[number] = process
        if self._is_stopping:
            _send(process.terminate)
        try:
            assert process.stdout is not None
            async for line in process.stdout:
                if line != READY:
                    sys.stdout.buffer.write(line)
                    sys.stdout.buffer.flush()
                elif not listens.done():
                    listens.set_result(None)
            return await process.wait()
        except asyncio.CancelledError:
            _send(process.kill)
            raise
        finally:
            del self._processes[number]


def exit_with_parent() -> None:
    """Let this process end with the one that started it, also during start-up or with a busy event loop."""

    def wait() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        time.sleep(EXIT_DELAY)
        os._exit(1)

    threading.Thread(target=wait, name="wait for the parent", daemon=True).start()


def _send(signal: Callable[[], None]) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal()
