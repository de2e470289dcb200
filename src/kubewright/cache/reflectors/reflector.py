"""`Reflector`: keep a handler in sync with one collection of a server, through all failures.

A reflector first receives the state, then the changes:

1. *Initial state* as a watch with `sendInitialEvents`, which ends with an annotated bookmark. A server that
   rejects or ignores that, or closes the stream, is listed in pages instead.
2. *Watch* from there. Every event and bookmark advances the resource version, so a closed connection is
opened
   again without missing anything.
3. *Expired*: the server no longer has the resource version. The state is received again, and objects that are
   not in it have been deleted in between (`handler.replace`).
4. *Reset*: after a connection has ended early, a list of one object shows whether the resource version of the
   server has decreased, because an older database was restored. kube-apiserver accepts a watch from a later
   version and sends nothing until it is reached, so the state is received again.

Failures back off from 0.8 s to 30 s with jitter, and from the start again after two minutes without a
failure. The first failure is logged with its reason, and once more when it is over. A kind that does not
exist (its CRD is installed later) is tried after one second, at most every ten seconds, and immediately
after `retry_now`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from typing import Protocol

from kubewright.api.encoding.codec import DecodeError
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
    StoreReadError,
    Timeout,
)
from kubewright.client.backoff import Backoff
from kubewright.client.errors import ConnectionFailed, CredentialsError, NoKindMatch

from .lister_watcher import ListerWatcher, ObjectEvent, ObjectWatch

logger = logging.getLogger(__name__)

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
PAGE_SIZE = 500
WATCH_SECONDS = (300.0, 600.0)
"""Range of the random duration of a watch request, which spreads load over servers."""
IDLE_TIMEOUT_SECONDS = 150.0
"""A watch without data for this long is broken: servers send a bookmark every minute."""
INITIAL_IDLE_SECONDS = 10.0
"""A stream of initial events without data for this long is replaced by a list."""
EXPIRED_AGAIN_SECONDS = 30.0
SHORT_WATCH_SECONDS = 1.0
"""A watch that ends sooner without an event counts as a failure, so it is not repeated in a tight loop."""


class ReflectorHandler(Protocol):
    """Receives the state and the changes of a collection."""

    def begin(self) -> None:
        """Start to receive a complete state."""

    def initial(self, event: ObjectEvent) -> None:
        """Receive one object of the state."""

    def replace(self, resource_version: str) -> bool:
        """The state is complete: objects that are not in it do not exist.

        Returns False if the state must be received again because the history of the server was reset.
        """

    def event(self, event: ObjectEvent) -> None:
        """Receive one `ADDED`, `MODIFIED` or `DELETED` event; also while the state is being received."""

    def progress(self, resource_version: str) -> None:
        """All changes up to this version have been received."""


class _InitialEventsFailed(Exception):
    """The initial state was not received as a stream; it is listed instead."""


class Reflector:
    """Keeps a handler in sync with a collection until `run` is cancelled."""

    def __init__(
        self,
        kind: str,
        source: ListerWatcher,
        handler: ReflectorHandler,
        *,
        namespace: str = "",
        backoff: Backoff | None = None,
        rng: random.Random | None = None,
        stream_initial_events: bool = True,
        page_size: int = PAGE_SIZE,
        optional: bool = False,
    ) -> None:
        """`optional`: the state of a collection that the server does not serve is empty."""
        self.source = source
        self.handler = handler
        self.resource_version = ""
        self.synced = asyncio.Event()
        self.attempted = asyncio.Event()
        """Set when the state has been received or the first attempt has failed."""
        self.current = asyncio.Event()
        """Set while the state has been received and a watch delivers its changes."""
        self.was_lost = False
        """Whether the watch reported a loss: events may be missing until the state is received again."""
        self.last_error: BaseException | None = None
        self._log_fields = {"kind": kind, "namespace": namespace}
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._backoff = backoff or Backoff(rng=self._rng)
        self._missing_backoff = Backoff(initial=1.0, maximum=10.0, jitter=0.2, rng=self._rng)
        self._stream_initial_events = stream_initial_events
        self.is_reset = False
        """Whether the state will be received again, also if it is being received now."""
        self._list_next = False
        self._ended_early = False
        """Whether the last watch ended before its time, for example because the server was restarted."""
        self._page_size = page_size
        self._optional = optional
        self._retry_now = asyncio.Event()
        self._logged_error = ""
        self._expired_at = float("-inf")

    def reset(self) -> None:
        """Receive the state again with the next call of `run`, whose current one has to be cancelled.

        That one may be in this call: a handler can cause it.
        """
        self.is_reset = True
        self.current.clear()

    def lose(self) -> None:
        """The watch misses events: receive the state again when it ends."""
        self.was_lost = True
        self.current.clear()

    def retry_now(self) -> None:
        """Retry now instead of after the current delay, for example because a CRD was installed."""
        self._retry_now.set()

    async def run(self) -> None:
        """Receive the state and its changes, forever."""
        while True:
            # Cleared before the request, so that a call of retry_now during the request is not lost.
            self._retry_now.clear()
            if self.is_reset:
                self.is_reset, self.resource_version = False, ""
            try:
                if not self.resource_version:
                    await self._receive_state()
                if self._ended_early:
                    await self._check_history()
                await self._receive_changes()
                self.current.clear()
                continue
            except Expired:
                logger.debug(
                    "resource version expired, listing again",
                    extra={**self._log_fields, "resource_version": self.resource_version},
                )
                self.resource_version = ""
                # Once is normal after a gap. A server that repeats it must not be called in a tight loop.
                now = self._now()
                recently = now - self._expired_at < EXPIRED_AGAIN_SECONDS
                self._expired_at = now
                delay = self._backoff.next_delay(now) if recently else 0.0
            except (NotFound, NoKindMatch) as error:
                self.resource_version = ""
                self._record_missing(error)
                delay = self._missing_backoff.next_delay(self._now())
            except (
                APIError,
                ConnectionFailed,
                CredentialsError,
                DecodeError,
                TimeoutError,
                OSError,
            ) as error:
                self._record_failure(error)
                if isinstance(error, (Timeout, StoreReadError)):
                    # The server does not have this resource version, because it was restored to an older
                    # state; or a later event cannot be sent, also after its object is repaired or deleted.
                    self.resource_version = ""
                delay = self._backoff.next_delay(self._now())
                if isinstance(error, APIError) and error.retry_after is not None:
                    delay = max(delay, error.retry_after)
            except Exception as error:
                # A bug here or in a user's function must not end the updates of the others.
                logger.exception("reflector failed, retrying", extra=self._log_fields)
                self.last_error = error
                self.resource_version = ""
                delay = self._backoff.next_delay(self._now())
            self.current.clear()
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

    def _record_failure(self, error: BaseException) -> None:
        self.last_error = error
        self.attempted.set()
        text = f"{type(error).__name__}: {error}"
        if text != self._logged_error:
            self._logged_error = text
            hint = None
            if isinstance(error, Forbidden):
                hint = self._missing_rule(error)
            elif isinstance(error, NotFound):  # the message of NoKindMatch contains a hint
                hint = "install its CRD"
            logger.warning(
                "cannot list and watch, retrying", extra={**self._log_fields, "error": text, "hint": hint}
            )

    def _missing_rule(self, error: Forbidden) -> str:
        """Return the RBAC rule that allows the requests; the details of the response have the resource."""
        namespace, resource = self._log_fields["namespace"], error.details.get("kind")
        role = f"a Role in namespace {namespace}" if namespace else "a ClusterRole"
        if not resource:
            return f"allow list and watch in {role} of this user"
        group = error.details.get("group") or ""
        rule = f"{{apiGroups: ['{group}'], resources: [{resource}], verbs: [list, watch]}}"
        return f"add the rule {rule} to {role} of this user"

    def _record_missing(self, error: NotFound | NoKindMatch) -> None:
        if not self._optional:
            self._record_failure(error)
            return
        if not self.synced.is_set():
            logger.info("the server does not serve this kind", extra=self._log_fields)
        self.synced.set()
        self.attempted.set()

    def _record_success(self) -> None:
        self.last_error = None
        if self._logged_error:
            self._logged_error = ""
            logger.info("list and watch recovered", extra=self._log_fields)

    async def _receive_state(self) -> None:
        if self._stream_initial_events and not self._list_next:
            # A stream that breaks, for example behind a proxy with short timeouts, would break again.
            self._list_next = True
            try:
                await self._watch_state()
                return
            except (Invalid, BadRequest, MethodNotAllowed, NotAcceptable) as error:
                self._log_fallback(error)
                self._stream_initial_events = False
            except (_InitialEventsFailed, InternalError) as error:
                # A server whose store does not report progress responds with an internal error.
                self._log_fallback(error)
        await self._list_state()

    def _log_fallback(self, error: Exception) -> None:
        logger.debug("no initial events, listing instead", extra={**self._log_fields, "error": str(error)})

    async def _list_state(self) -> None:
        limit, token = self._page_size, ""
        self.handler.begin()
        while True:
            try:
                page = await self.source.list(limit=limit, continue_=token)
            except Expired:
                if not token:
                    raise
                # The continue token expired between pages; a list in one page cannot.
                limit, token = 0, ""
                self.handler.begin()
                continue
            for event in page.events():
                self.handler.initial(event)
            token = page.continue_
            if not token:
                break
            # Other tasks run between the pages of a large list.
            await asyncio.sleep(0)
        self._ended_early = False
        self._complete_state(page.resource_version)

    async def _watch_state(self) -> None:
        """Receive the initial events, then continue with changes from the same stream."""
        watch = await self._watch("", initial_events=True)
        self._ended_early = True
        async with watch:
            self.handler.begin()
            try:
                async with asyncio.timeout(INITIAL_IDLE_SECONDS) as deadline:
                    initial = _InitialEvents(self, deadline)
                    await watch.deliver(initial)
            except TimeoutError:
                if initial.completed_at is None:
                    raise _InitialEventsFailed("the stream of initial events timed out") from None
                raise
            if initial.completed_at is None:
                raise ConnectionFailed("the stream of initial events ended before it was complete")
            self._ended_early = self._now() - initial.completed_at < WATCH_SECONDS[0]

    def receive_initial(self, batch: Sequence[ObjectEvent]) -> Sequence[ObjectEvent] | None:
        """Receive initial events; return the events after the last one, `None` before it."""
        for index, event in enumerate(batch):
            if event.type == "ADDED":
                self.handler.initial(event)
            elif event.type != "BOOKMARK":
                self.handler.event(event)
            elif (event.header.metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true":
                self._complete_state(event.resource_version)
                return batch[index + 1 :]
            else:
                self._stream_initial_events = False
                raise _InitialEventsFailed("the server does not mark the end of the initial events")
        return None

    def _complete_state(self, resource_version: str) -> None:
        if not self.handler.replace(resource_version):
            logger.warning(
                "history of the server was reset, listing again",
                extra={**self._log_fields, "resource_version": resource_version},
            )
            raise Expired("the history of the server was reset")
        self.resource_version = resource_version
        self._list_next = self.was_lost = False
        if not self.is_reset:
            self.current.set()
        self._record_success()
        self.synced.set()
        self.attempted.set()

    async def _check_history(self) -> None:
        """Raise `Expired` if the resource version of the server is lower than the received one."""
        page = await self.source.list(limit=1, continue_="")
        self._ended_early = False
        if _is_lower(page.resource_version, self.resource_version):
            raise Expired("the history of the server was reset")

    async def _receive_changes(self) -> None:
        before, started = self.resource_version, self._now()
        self._ended_early = True
        async with await self._watch(before, initial_events=False) as watch:
            self._record_success()
            if not self.is_reset:
                self.current.set()
            await watch.deliver(self)
        elapsed = self._now() - started
        self._ended_early = elapsed < WATCH_SECONDS[0]
        if self.resource_version == before and elapsed < SHORT_WATCH_SECONDS:
            raise ConnectionFailed("the server ended the watch immediately")

    async def _watch(self, resource_version: str, *, initial_events: bool) -> ObjectWatch:
        return await self.source.watch(
            resource_version=resource_version,
            initial_events=initial_events,
            timeout_seconds=int(self._rng.uniform(*WATCH_SECONDS)),
            idle_timeout=IDLE_TIMEOUT_SECONDS,
        )

    def receive(self, batch: Sequence[ObjectEvent]) -> None:
        """Receive changes from a watch."""
        handler = self.handler
        for event in batch:
            if event.type != "BOOKMARK":
                handler.event(event)
        if batch:
            self.resource_version = latest_version(self.resource_version, batch[-1].resource_version)
            handler.progress(self.resource_version)


class _InitialEvents:
    """The receiver of a watch that starts with the state."""

    def __init__(self, reflector: Reflector, deadline: asyncio.Timeout) -> None:
        self._reflector = reflector
        self._deadline = deadline
        self.completed_at: float | None = None

    def receive(self, batch: Sequence[ObjectEvent]) -> None:
        now = asyncio.get_running_loop().time()
        if self.completed_at is None:
            changes = self._reflector.receive_initial(batch)
            if changes is None:
                self._deadline.reschedule(now + INITIAL_IDLE_SECONDS)
                return
            self.completed_at, batch = now, changes
            self._deadline.reschedule(None)
        self._reflector.receive(batch)

    def lose(self) -> None:
        self._reflector.lose()


def _is_lower(one: str, other: str) -> bool:
    return one.isdecimal() and other.isdecimal() and int(one) < int(other)


def latest_version(one: str, other: str) -> str:
    """Return the later of two resource versions; the second if they are not numbers."""
    if one.isdecimal() and other.isdecimal():
        return one if int(one) >= int(other) else other
    return other or one
