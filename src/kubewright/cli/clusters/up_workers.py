"""`--workers` of `kubewright up`: the processes that share the port and the store."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import click

from kubewright.cli.operators.memory import enable_gc, trim_in_background

if TYPE_CHECKING:
    from kubewright.controlplane import ControlPlane
    from kubewright.controlplane.replicas.workers import Workers
    from kubewright.storage.socket.storage import SocketStorage

    from .up_options import UpOptions


def check_workers(options: UpOptions) -> None:
    """Raise `click.UsageError` if the other options do not allow several processes."""
    if options.workers == 1:
        return
    if sys.platform != "linux":
        raise click.UsageError("--workers requires Linux: other systems do not divide connections evenly")
    if options.history:
        raise click.UsageError("--history requires one process; omit --workers")
    if not str(options.store).startswith(("memory:", "sqlite:")):
        raise click.UsageError(
            "--workers requires --store memory: or sqlite:PATH; "
            "on etcd or PostgreSQL, start several servers instead"
        )


async def start_workers(plane: ControlPlane, options: UpOptions, stop: asyncio.Event) -> Workers | None:
    """Start the workers of a control plane; raises `click.ClickException`. Returns early if `stop` is set."""
    if options.workers == 1:
        return None
    from kubewright.controlplane.replicas.workers import WorkerFailed, Workers
    from kubewright.storage.local import LocalStorage

    assert isinstance(plane.store, LocalStorage)
    arguments: tuple[str, ...] = click.get_current_context().obj

    def command(number: int) -> list[str]:
        # -P: modules in the current directory do not take the place of installed ones.
        start = (sys.executable, "-P", "-m", "kubewright.cli", "up")
        return [*start, *arguments, "--port", str(plane.port), "--worker", str(number)]

    def report(number: int, code: int) -> None:
        click.echo(f"Warning: worker {number} exited with code {code}; starting it again", err=True)

    workers = Workers(plane.store, options.workers - 1, command, on_exit=report)
    starting, stopping = asyncio.create_task(workers.start()), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
    except WorkerFailed as error:
        await workers.stop()
        raise click.ClickException(str(error)) from None
    finally:
        starting.cancel()
        stopping.cancel()
    return workers


def connect_store() -> SocketStorage:
    """Return the store of a worker, which another process owns."""
    from kubewright.controlplane.replicas.workers import SOCKET_VARIABLE
    from kubewright.storage.socket.storage import SocketStorage

    path = os.environ.get(SOCKET_VARIABLE)
    if not path:
        raise click.UsageError("--worker is for processes that --workers starts")
    return SocketStorage(path)


async def serve_worker(create: Callable[[], ControlPlane], options: UpOptions) -> None:
    """Serve requests until a signal, or until the process that owns the store has ended."""
    from kubewright.apiserver.shutdown import StopSignals
    from kubewright.controlplane.replicas.workers import READY, exit_with_parent
    from kubewright.storage import StorageError
    from kubewright.storage.socket.storage import SocketStorage

    plane = create()  # raises if this is not the process of a worker, which has no such parent
    exit_with_parent()
    assert isinstance(plane.store, SocketStorage)
    signals = StopSignals()
    lost: list[StorageError] = []

    def end(error: StorageError) -> None:
        lost.append(error)
        plane.server.stopped = True  # 503 instead of 500
        signals.stop.set()

    plane.store.on_lost = end
    try:
        await plane.start()
    except (StorageError, OSError, ValueError) as error:
        raise click.ClickException(f"worker {options.worker}: {error}") from None
    try:
        enable_gc()
        sys.stdout.buffer.write(READY)
        sys.stdout.buffer.flush()
        trimming = trim_in_background(lambda: plane.server.dispatcher.revision)
        await signals.stop.wait()
        trimming.cancel()
        if not lost:
            await signals.drain(plane.server, options.shutdown_delay_duration)
        if lost:
            await _exit(plane, f"worker {options.worker}: {lost[0]}")
    finally:
        await plane.stop()


async def _exit(plane: ControlPlane, reason: str) -> NoReturn:
    """Exit without the store: write the audit events, and do not wait for requests and watches."""
    from kubewright.controlplane.replicas.workers import EXIT_DELAY

    click.echo(f"Error: {reason}", err=True)
    if plane.server.auditor is not None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EXIT_DELAY):
                await plane.server.auditor.stop()
    sys.stderr.flush()
    os._exit(1)
