"""Start of the control plane of `kubewright up`, which waits for an unavailable storage.

A replica often starts while PostgreSQL or etcd restarts. A control plane that could not start because of that
is replaced by another one, with a delay that doubles, until a deadline; other errors end the command.
"""

from __future__ import annotations

import asyncio
import errno
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kubewright.controlplane import ControlPlane

STORAGE_TIMEOUT = 60.0
"""Seconds in which an unavailable storage is tried again."""
MAX_DELAY = 5.0


async def start_plane(create: Callable[[], ControlPlane], stop: asyncio.Event) -> ControlPlane | None:
    """Return a started control plane, `None` if `stop` was set first. Raises `click.ClickException`."""
    from kubewright.storage import StorageError, StorageUnavailable

    begun, delay, printed = time.monotonic(), 0.25, ""
    while True:
        plane = create()
        try:
            await plane.start()
            return plane
        except StorageUnavailable as error:
            waited = time.monotonic() - begun
            if waited + delay > STORAGE_TIMEOUT:
                raise click.ClickException(f"{error}; gave up after {waited:.0f} s") from None
            if str(error) != printed:
                click.echo(f"Warning: {error}; trying again for {STORAGE_TIMEOUT:g} s", err=True)
            printed = str(error)
        except (StorageError, OSError, ValueError) as error:
            raise click.ClickException(explain(error)) from None
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), delay)
            return None
        delay = min(delay * 2, MAX_DELAY)


def raise_file_limit() -> None:
    """Allow as many open files, and so connections, as the hard limit does; Go programs do the same."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def explain(error: Exception) -> str:
    """Return the message of an error at the start."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return f"{error.strerror}; choose another port with --port"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)
