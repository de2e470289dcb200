"""`Watch`: a watch that continues after the server ends a request or the connection breaks.

A server ends each watch request after some minutes, and connections break. `Watch` then sends another request
from the last resource version it has received, so no event is lost or repeated, with exponential backoff
while requests yield nothing. It raises `Expired` when the server no longer has the events in between: list
again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, Self

from kubewright.api.errors import InternalError, ServiceUnavailable, Timeout, TooManyRequests
from kubewright.api.values.times import monotonic_time
from kubewright.client.backoff import Backoff
from kubewright.client.errors import ConnectionFailed
from kubewright.client.kind_types import ObjectT

from .pager import ListPager
from .raw import RawWatch

logger = logging.getLogger("kubewright.client")

OpenWatch = Callable[[str], Awaitable[RawWatch]]
STABLE_SECONDS = 10.0
"""A watch request that lasted longer resets the backoff."""
_TRANSIENT = (InternalError, ServiceUnavailable, Timeout, TooManyRequests)


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[ObjectT]):
    """A change of an object: `ADDED`, `MODIFIED`, `DELETED`, or `BOOKMARK` if requested."""

    type: str
    object: ObjectT


class Watch(Generic[ObjectT]):
    """Events of a collection, until closed: `async for event in watch`."""

    def __init__(
        self,
        open_watch: OpenWatch,
        decode: Callable[[bytes], ObjectT],
        *,
        list_existing: Callable[[], ListPager[ObjectT]],
        resource_version: str = "",
        bookmarks: bool = False,
        resume: bool = True,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = monotonic_time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._open = open_watch
        self._decode = decode
        self._list_existing = list_existing
        self._bookmarks = bookmarks
        self._resume = resume
        self._backoff = backoff or Backoff()
        self._clock = clock
        self._sleep = sleep
        self._events: AsyncGenerator[WatchEvent[ObjectT], None] | None = None
        self.resource_version = resource_version
        """The last resource version received; another watch can start from it."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchEvent[ObjectT]:
        if self._events is None:
            self._events = self._run()
        return await anext(self._events)

    async def _run(self) -> AsyncGenerator[WatchEvent[ObjectT], None]:
        if not self.resource_version:
            # A list has one resource version to continue from; initial events of a watch are unordered.
            pager = self._list_existing()
            async for item in pager:
                yield WatchEvent("ADDED", item)
            self.resource_version = pager.resource_version
        failing = False
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
            except (ConnectionFailed, *_TRANSIENT) as error:
                if not self._resume:
                    raise
                logger.log(
                    logging.DEBUG if failing else logging.WARNING,
                    "watch failed, resuming",
                    extra={"error": str(error), "resource_version": self.resource_version},
                )
                failing = True
            if not self._resume:
                return
            if events or self._clock() - started > STABLE_SECONDS:
                self._backoff.reset()
                failing = False
            else:
                # A server that ends watches immediately must not be called in a tight loop.
                await self._sleep(self._backoff.next_delay(self._clock()))

    async def aclose(self) -> None:
        """Stop watching."""
        if self._events is not None:
            await self._events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
