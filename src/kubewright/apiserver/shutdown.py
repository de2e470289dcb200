"""Stop on signals, with a delay in which load balancers can choose other servers.

A server waits for the first signal, serves requests during the delay, and stops:

    signals = StopSignals()
    await signals.stop.wait()
    await signals.drain(server, seconds=10)
    await server.stop()
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .server import APIServer


class StopSignals:
    """SIGINT and SIGTERM: the first signal requests a stop, another one ends the delay before it."""

    def __init__(self) -> None:
        """Handle the signals in the running event loop."""
        self.stop = asyncio.Event()
        self._again = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._receive)

    def _receive(self) -> None:
        (self._again if self.stop.is_set() else self.stop).set()

    async def drain(self, server: APIServer, seconds: float) -> None:
        """Serve requests for some time while `/readyz` fails; another signal ends this."""
        if seconds <= 0:
            return
        server.draining = True
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._again.wait()
