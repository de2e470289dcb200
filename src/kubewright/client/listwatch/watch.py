"""Watches that last: the stream of changes goes on over the ends of requests and broken connections.

A server ends a watch every few minutes, and connections break. `Watch` then asks again from the last version
it has seen, so no event is lost or repeated, waiting longer each time that nothing comes of it. Only when the
server no longer has the events in between (`Expired`) it gives up, since then one must list again.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Generic, Self

from kubewright.api.errors import InternalError, ServiceUnavailable, Timeout, TooManyRequests
from kubewright.client.errors import ConnectionFailed
from kubewright.client.kind_types import ObjectT, WatchEvent

from .pager import ListPager
from .raw import RawWatch

logger = logging.getLogger("kubewright.client")

OpenWatch = Callable[[str], Awaitable[RawWatch]]
IDLE_TIMEOUT = 150.0
"""Seconds of silence after which a connection counts as dead: bookmarks come about every minute."""
_AGAIN = (InternalError, ServiceUnavailable, Timeout, TooManyRequests)


class Backoff:
    """Waits that double from 0.8 s to 30 s, with as much again at random; `reset` when things go well."""

    def __init__(
        self,
        *,
        first: float = 0.8,
        longest: float = 30.0,
        rng: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._first = first
        self._longest = longest
        self._rng = rng or random.Random()  # noqa: S311
        self._sleep = sleep
        self._tries = 0

    async def wait(self) -> None:
        """Wait the next time."""
        seconds = min(self._longest, self._first * 2.0**self._tries)
        self._tries += 1
        await self._sleep(min(self._longest, seconds * (1 + self._rng.random())))

    def reset(self) -> None:
        """Start from the shortest again."""
        self._tries = 0


class Watch(Generic[ObjectT]):
    """Events as objects, until closed: `async for event in watch`."""

    def __init__(
        self,
        open_watch: OpenWatch,
        decode: Callable[[bytes], ObjectT],
        *,
        initial: Callable[[], ListPager[ObjectT]],
        resource_version: str = "",
        bookmarks: bool = False,
        resume: bool = True,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open = open_watch
        self._decode = decode
        self._initial = initial
        self._bookmarks = bookmarks
        self._resume = resume
        self._backoff = backoff or Backoff()
        self._clock = clock
        self._events: Any = None
        self.resource_version = resource_version
        """The last version seen: where another watch can go on."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchEvent[ObjectT]:
        if self._events is None:
            self._events = self._run()
        event: WatchEvent[ObjectT] = await anext(self._events)
        return event

    async def _run(self) -> AsyncIterator[WatchEvent[ObjectT]]:
        if not self.resource_version:
            # A list is true of one version; the initial events of a watch come in no order to go on from.
            listing = self._initial()
            async for item in listing:
                yield WatchEvent("ADDED", item)
            self.resource_version = listing.resource_version
        troubled = False
        while True:
            started, events = self._clock(), 0
            try:
                async with await self._open(self.resource_version) as watch:
                    async for event in watch:
                        events += 1
                        self.resource_version = (
                            event.header.metadata.resource_version or self.resource_version
                        )
                        if event.type != "BOOKMARK" or self._bookmarks:
                            yield WatchEvent(event.type, self._decode(event.raw))
            except (ConnectionFailed, *_AGAIN) as error:
                if not self._resume:
                    raise
                level = logging.DEBUG if troubled else logging.WARNING
                logger.log(
                    level, "a watch broke (%s); going on from %s", error, self.resource_version or "the start"
                )
                troubled = True
            if not self._resume:
                return
            if events or self._clock() - started > 10:
                self._backoff.reset()
                troubled = False
            else:
                # A server that ends watches at once must not be asked in a loop.
                await self._backoff.wait()

    async def aclose(self) -> None:
        """Stop watching."""
        if self._events is not None:
            await self._events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


__all__ = ["Backoff", "Watch"]
