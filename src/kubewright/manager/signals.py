"""Graceful stop on SIGINT and SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Iterator

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def stopping_on_signals(stop: asyncio.Event) -> Iterator[None]:
    """Set `stop` on the first signal; a second one terminates the process."""
    loop = asyncio.get_running_loop()
    handled: list[signal.Signals] = []

    def restore() -> None:
        while handled:
            loop.remove_signal_handler(handled.pop())

    def request_stop(name: signal.Signals) -> None:
        logger.info("received signal, stopping; repeat it to exit immediately", extra={"signal": name.name})
        restore()
        stop.set()

    for name in (signal.SIGINT, signal.SIGTERM):
        # Signal handlers require the main thread and a POSIX system.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(name, request_stop, name)
            handled.append(name)
    try:
        yield
    finally:
        restore()
