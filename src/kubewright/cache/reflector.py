"""Follows one collection of a server and tells what changes, whatever happens in between.

A reflector first gets the state, then follows it:

1. *Initial state* as a stream (a watch with `sendInitialEvents`, ended by an annotated bookmark). A server
   that refuses or ignores that, or breaks off, gets paged lists instead.
2. *Watch* from there. Every event and bookmark moves the revision to go on from, so a connection that ends
   is simply opened again and nothing is missed.
3. *Expired*: the server no longer knows our revision. The state is got anew, and what is not in it any more
   has been deleted meanwhile; `sink.replace` finds that out.

Failures back off, 0.8 s doubling to 30 s with jitter, and start anew after two quiet minutes. The first
failure of a kind is logged once with its reason, and once more when it is over. A kind that is not there
(its CRD comes later) is looked for every second at first, every ten seconds in the end, and at once when
somebody pokes.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from typing import Protocol

from kubewright.api.codec import DecodeError, ObjectHeader, decoder
from kubewright.api.errors import (
    APIError,
    BadRequest,
    Expired,
    Forbidden,
    InternalError,
    Invalid,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    Timeout,
)
from kubewright.client.errors import ConnectionFailed, CredentialsError, NoKindMatch
from kubewright.client.listwatch.raw import RawEvent, RawPage, RawWatch

logger = logging.getLogger(__name__)

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
PAGE_SIZE = 500
WATCH_SECONDS = (300.0, 600.0)
"""A watch is asked to end after a random time between these, so that load spreads over servers."""
IDLE_TIMEOUT_SECONDS = 150.0
"""A watch with bookmarks that says nothing for this long is dead: a server sends one every minute."""
INITIAL_IDLE_SECONDS = 10.0
"""A stream of the initial state that pauses for this long is given up for a list."""
EXPIRED_AGAIN_SECONDS = 30.0
SHORT_WATCH_SECONDS = 1.0
"""A watch that ends sooner than this without an event counts as a failure, lest it be opened in a loop."""

_read_header = decoder(ObjectHeader).decode


class ListerWatcher(Protocol):
    """One collection of one server."""

    async def list(self, *, limit: int, continue_: str) -> RawPage:
        """One page of it, or all of it with `limit` 0; the first page is the newest state there is."""

    async def watch(
        self, *, resource_version: str, initial_state: bool, timeout_seconds: int, idle_timeout: float
    ) -> RawWatch:
        """Its changes since a revision, or its state and then its changes."""


class ReflectorHandler(Protocol):
    """Where a reflector puts what it learns."""

    def begin(self) -> None:
        """The state is about to be told anew."""

    def initial(self, raw: bytes, header: ObjectHeader) -> None:
        """One object of the state."""

    def replace(self, resource_version: str) -> bool:
        """The state has been told: what was not in it is gone.

        False if it cannot be used as it was told and must be told again: the server's history has been reset.
        """

    def event(self, event: RawEvent) -> None:
        """One change: `ADDED`, `MODIFIED` or `DELETED`; it may also come while the state is being told."""

    def progress(self, resource_version: str) -> None:
        """Everything up to this revision has been told."""


class Backoff:
    """Delays that grow with each failure in a row and start anew after a quiet time."""

    def __init__(
        self,
        first: float = 0.8,
        maximum: float = 30.0,
        reset_after: float = 120.0,
        jitter: float = 1.0,
        rng: random.Random | None = None,
    ) -> None:
        self.first = first
        self.maximum = maximum
        self.reset_after = reset_after
        self.jitter = jitter
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._delay = first
        self._last = float("-inf")

    def next(self, now: float) -> float:
        """The delay after a failure at this time."""
        if now - self._last > self.reset_after:
            self._delay = self.first
        delay = self._delay * (1 + self._rng.random() * self.jitter)
        self._delay = min(self._delay * 2, self.maximum)
        self._last = now + delay
        return delay


class _StateNotStreamed(Exception):
    """The initial state did not come as a stream; a list will do."""


class Reflector:
    """Keeps a sink in step with a source until it is cancelled. `run` never ends by itself."""

    def __init__(
        self,
        name: str,
        source: ListerWatcher,
        sink: ReflectorHandler,
        *,
        backoff: Backoff | None = None,
        rng: random.Random | None = None,
        stream_initial_state: bool = True,
        page_size: int = PAGE_SIZE,
    ) -> None:
        self.name = name
        self.source = source
        self.sink = sink
        self.resource_version = ""
        self.synced = asyncio.Event()
        self.attempted = asyncio.Event()
        """The state has been told, or the first try to get it has failed."""
        self.last_error: BaseException | None = None
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._backoff = backoff or Backoff(rng=self._rng)
        self._absence = Backoff(first=1.0, maximum=10.0, jitter=0.2, rng=self._rng)
        self._streams = stream_initial_state
        self._list_next = False
        self._page_size = page_size
        self._retry_now = asyncio.Event()
        self._said = ""
        self._expired_at = float("-inf")

    def retry_now(self) -> None:
        """Try again now instead of after the current delay: something has changed, a kind was installed."""
        self._retry_now.set()

    async def run(self) -> None:
        """Follow the source for ever."""
        while True:
            # Before the request: what is poked while it is on its way must not be lost.
            self._retry_now.clear()
            try:
                if not self.resource_version:
                    await self._get_state()
                await self._follow()
                continue
            except Expired:
                logger.debug(
                    "%s: revision %s has expired, getting the state anew", self.name, self.resource_version
                )
                self.resource_version = ""
                # Once is normal after a long gap. A server that says it again and again must not be hammered.
                now = self._now()
                recently = now - self._expired_at < EXPIRED_AGAIN_SECONDS
                self._expired_at = now
                delay = self._backoff.next(now) if recently else 0.0
            except (NotFound, NoKindMatch) as error:
                self.resource_version = ""
                self._complain(error)
                delay = self._absence.next(self._now())
            except (
                APIError,
                ConnectionFailed,
                CredentialsError,
                DecodeError,
                TimeoutError,
                OSError,
            ) as error:
                self._complain(error)
                if isinstance(error, Timeout):
                    # The server does not have our revision: it has been put back to an older state.
                    self.resource_version = ""
                delay = self._backoff.next(self._now())
                if isinstance(error, APIError) and error.retry_after is not None:
                    delay = max(delay, error.retry_after)
            except Exception as error:
                # A problem in this program, or in a function given to it: others still want to be told.
                logger.exception("%s: cannot follow, will keep trying", self.name)
                self.last_error = error
                self.resource_version = ""
                delay = self._backoff.next(self._now())
            if delay:
                await self._pause(delay)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _pause(self, delay: float) -> None:
        try:
            async with asyncio.timeout(delay):
                await self._retry_now.wait()
        except TimeoutError:
            pass

    def _complain(self, error: BaseException) -> None:
        self.last_error = error
        self.attempted.set()
        text = f"{type(error).__name__}: {error}"
        if text != self._said:
            self._said = text
            hint = ""
            if isinstance(error, Forbidden):
                hint = " (check the RBAC rules: list and watch are needed)"
            elif isinstance(error, NotFound | NoKindMatch):
                hint = " (is its CRD installed?)"
            logger.warning("%s: cannot follow, will keep trying: %s%s", self.name, text, hint)

    def _well(self) -> None:
        self.last_error = None
        if self._said:
            self._said = ""
            logger.info("%s: following again", self.name)

    async def _get_state(self) -> None:
        if self._streams and not self._list_next:
            # A stream that breaks off, say behind a proxy with short time-outs, would break off again.
            self._list_next = True
            try:
                await self._stream_state()
                return
            except (Invalid, BadRequest, MethodNotAllowed, NotAcceptable) as error:
                logger.debug("%s: no streaming of the initial state here (%s), listing", self.name, error)
                self._streams = False
            except (_StateNotStreamed, InternalError) as error:
                # A server whose store cannot tell its progress answers a stream with an internal error.
                logger.debug("%s: %s, listing", self.name, error)
        await self._list_state()

    async def _list_state(self) -> None:
        limit, token = self._page_size, ""
        self.sink.begin()
        while True:
            try:
                page = await self.source.list(limit=limit, continue_=token)
            except Expired:
                if not token:
                    raise
                # Too slow for the server's memory of this list; the whole of it cannot expire.
                limit, token = 0, ""
                self.sink.begin()
                continue
            for item in page.items:
                raw = bytes(item)
                self.sink.initial(raw, _read_header(raw))
            token = page.continue_
            if not token:
                break
            # A big list is many pages; others want the loop between them.
            await asyncio.sleep(0)
        self._state_is_told(page.resource_version)

    async def _stream_state(self) -> None:
        """Read the initial events, then go on reading changes from the same stream."""
        watch = await self._watch("", initial_state=True)
        async with watch:
            self.sink.begin()
            batches = watch.batches()
            while True:
                try:
                    async with asyncio.timeout(INITIAL_IDLE_SECONDS):
                        batch = await anext(batches, None)
                except TimeoutError:
                    raise _StateNotStreamed("the stream of the initial state fell silent") from None
                if batch is None:
                    raise ConnectionFailed("the stream of the initial state ended before it was complete")
                for index, event in enumerate(batch):
                    if event.type == "ADDED":
                        self.sink.initial(event.raw, event.header)
                    elif event.type != "BOOKMARK":
                        self.sink.event(event)
                    elif (event.header.metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true":
                        self._state_is_told(event.header.metadata.resource_version or "")
                        self._take(batch[index + 1 :])
                        await self._consume(batches)
                        return
                    else:
                        self._streams = False
                        raise _StateNotStreamed("the server does not say where the initial state ends")

    def _state_is_told(self, resource_version: str) -> None:
        if not self.sink.replace(resource_version):
            logger.warning(
                "%s: the server's history has been reset, getting the state anew (revision %s)",
                self.name,
                resource_version,
            )
            raise Expired("the server's history has been reset")
        self.resource_version = resource_version
        self._list_next = False
        self._well()
        self.synced.set()
        self.attempted.set()

    async def _follow(self) -> None:
        before, started = self.resource_version, self._now()
        watch = await self._watch(before, initial_state=False)
        async with watch:
            self._well()
            await self._consume(watch.batches())
        if self.resource_version == before and self._now() - started < SHORT_WATCH_SECONDS:
            raise ConnectionFailed("the server ended the watch at once")

    async def _watch(self, resource_version: str, *, initial_state: bool) -> RawWatch:
        return await self.source.watch(
            resource_version=resource_version,
            initial_state=initial_state,
            timeout_seconds=int(self._rng.uniform(*WATCH_SECONDS)),
            idle_timeout=IDLE_TIMEOUT_SECONDS,
        )

    async def _consume(self, batches: AsyncIterator[list[RawEvent]]) -> None:
        async for batch in batches:
            self._take(batch)

    def _take(self, batch: list[RawEvent]) -> None:
        for event in batch:
            if event.type != "BOOKMARK":
                self.sink.event(event)
            self.resource_version = latest_version(
                self.resource_version, event.header.metadata.resource_version or ""
            )
        if batch:
            self.sink.progress(self.resource_version)


def latest_version(one: str, other: str) -> str:
    """The later of two resource versions: numbers that grow. Of others nothing is known, so the last wins."""
    if one.isdecimal() and other.isdecimal():
        return one if int(one) >= int(other) else other
    return other or one
