"""SIGINT and SIGTERM as a request to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Iterator

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def stopping_on_signals(stop: asyncio.Event) -> Iterator[None]:
    """Set `stop` on the first signal; a second one ends the process as it would any other."""
    loop = asyncio.get_running_loop()
    handled: list[signal.Signals] = []

    def restore() -> None:
        while handled:
            loop.remove_signal_handler(handled.pop())

    def ask(name: signal.Signals) -> None:
        logger.info("%s: stopping; once more to stop at once", name.name)
        restore()
        stop.set()

    for name in (signal.SIGINT, signal.SIGTERM):
        # Only the main thread of a process on a POSIX system can have them.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(name, ask, name)
            handled.append(name)
    try:
        yield
    finally:
        restore()
