"""The interface of audit backends, and what wraps them: truncation and the handling of errors.

Every backend that stores events is wrapped in `MonitoredBackend`, by whatever uses it: a backend that raises
rejects its events, and rejected events are counted and logged. `IgnoreErrors` and `BatchBackend` accept all
events, so that requests do not wait for a backend or depend on it; without them (the mode `blocking-strict`)
a request whose event is rejected is not executed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from kubewright.api.values.times import monotonic_time
from kubewright.client.transport.headers import replace_surrogates

from .event import AuditEvent, ObjectReference

logger = logging.getLogger("kubewright.apiserver.audit")

FAILURE_SECONDS: Final = 30.0
"""Time after a failure in which a backend counts as failing, unless it accepts an event."""
_SHORT: Final = 256
"""Characters of a text of an event that is too large."""
_ITEMS: Final = 16


class AuditBackend(Protocol):
    """Receives events. `process` returns whether all were accepted, now or when the awaitable is done."""

    name: str

    async def start(self) -> None:
        """Prepare; raises `OSError` or `ValueError` if events cannot be processed."""

    async def stop(self) -> None:
        """Process what is queued and release resources."""

    def process(self, events: Sequence[AuditEvent]) -> bool | Awaitable[bool]:
        """Process the events of one or several requests, which are not changed later."""


class MonitoredBackend:
    """A backend whose errors are rejections, counted and logged."""

    def __init__(self, delegate: AuditBackend, *, clock: Callable[[], float] = monotonic_time) -> None:
        self.delegate = delegate
        self.name = delegate.name
        self.failed_events = 0
        """Number of events that were not stored."""
        self._clock = clock
        self._failed_at: float | None = None

    async def start(self) -> None:
        """Start the delegate."""
        await self.delegate.start()

    async def stop(self) -> None:
        """Stop the delegate."""
        await self.delegate.stop()

    @property
    def is_failing(self) -> bool:
        """Whether the last events were rejected, a short time ago."""
        return self._failed_at is not None and self._clock() - self._failed_at < FAILURE_SECONDS

    def process(self, events: Sequence[AuditEvent]) -> bool | Awaitable[bool]:
        """Process events; false if the delegate rejects them or raises."""
        try:
            accepted = self.delegate.process(events)
        except Exception:
            self._log_error(events)
            accepted = False
        return self._count(accepted, events) if isinstance(accepted, bool) else self._wait(accepted, events)

    async def _wait(self, accepted: Awaitable[bool], events: Sequence[AuditEvent]) -> bool:
        try:
            result = await accepted
        except asyncio.CancelledError:
            self._count(False, events)
            raise
        except Exception:
            self._log_error(events)
            result = False
        return self._count(bool(result), events)

    def _count(self, accepted: bool, events: Sequence[AuditEvent]) -> bool:
        if accepted:
            self._failed_at = None
        else:
            self.failed_events += len(events)
            self._failed_at = self._clock()
        return accepted

    def _log_error(self, events: Sequence[AuditEvent]) -> None:
        logger.exception("audit backend failed", extra={"backend": self.name, "events": len(events)})


def monitored(backend: AuditBackend) -> AuditBackend:
    """Return a backend whose errors are counted; one that wraps another has done this for the other."""
    return backend if hasattr(backend, "delegate") else MonitoredBackend(backend)


def monitors(backend: AuditBackend) -> list[MonitoredBackend]:
    """Return the monitored backends behind a backend and its wrappers."""
    found = []
    inner: AuditBackend | None = backend
    while inner is not None:
        if isinstance(inner, MonitoredBackend):
            found.append(inner)
        inner = getattr(inner, "delegate", None)
    return found


def accepts_all(backend: AuditBackend) -> bool:
    """Whether no request fails because of the backend: its mode is not `blocking-strict`."""
    inner: AuditBackend | None = backend
    while inner is not None:
        if getattr(inner, "accepts_all", False):
            return True
        inner = getattr(inner, "delegate", None)
    return False


class _Wrapper:
    """A backend that passes events to another one."""

    def __init__(self, delegate: AuditBackend) -> None:
        self.delegate = monitored(delegate)
        self.name = delegate.name

    async def start(self) -> None:
        """Start the delegate."""
        await self.delegate.start()

    async def stop(self) -> None:
        """Stop the delegate."""
        await self.delegate.stop()


class IgnoreErrors(_Wrapper):
    """Accepts all events: requests do not fail if their events cannot be stored."""

    accepts_all = True

    def process(self, events: Sequence[AuditEvent]) -> bool | Awaitable[bool]:
        """Process events and return true."""
        accepted = self.delegate.process(events)
        return accepted if isinstance(accepted, bool) and accepted else _true(accepted)


def _true(accepted: bool | Awaitable[bool]) -> bool | Awaitable[bool]:
    if isinstance(accepted, bool):
        return True

    async def wait() -> bool:
        await accepted
        return True

    return wait()


class TruncateEvents(_Wrapper):
    """Removes the objects of large events, and shortens the texts of those that are too large without them.

    No event is dropped: a client could choose a long path to leave no trace.
    """

    def __init__(self, delegate: AuditBackend, *, max_event_size: int, max_batch_size: int) -> None:
        super().__init__(delegate)
        self._max_event_size = max_event_size
        self._max_batch_size = max_batch_size

    def process(self, events: Sequence[AuditEvent]) -> bool | Awaitable[bool]:
        """Truncate events, and forward them in batches of at most the maximum size."""
        batches: list[list[AuditEvent]] = [[]]
        total = 0
        for event in events:
            size = len(event.encode())
            if size > self._max_event_size and (event.request_object or event.response_object):
                event = truncated(event)
                size = len(event.encode())
            if size > self._max_event_size:
                event = shortened(event)
                size = len(event.encode())
            if batches[-1] and total + size > self._max_batch_size:
                batches.append([])
                total = 0
            batches[-1].append(event)
            total += size
        return _all([self.delegate.process(batch) for batch in batches if batch])


def truncated(event: AuditEvent) -> AuditEvent:
    """Return an event without its objects, marked as truncated."""
    annotations = {**(event.annotations or {}), "audit.k8s.io/truncated": "true"}
    return replace(event, request_object=None, response_object=None, annotations=annotations)


def shortened(event: AuditEvent) -> AuditEvent:
    """Return an event without its objects and with the beginning of each text and list."""
    short = {name: _shorten(getattr(event, name)) for name in event.__struct_fields__}
    return truncated(AuditEvent(**{**short, "request_object": None, "response_object": None}))


def _shorten(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _SHORT else f"{replace_surrogates(value[:_SHORT])}...TRUNCATED"
    if isinstance(value, dict):
        return {_shorten(key): _shorten(each) for key, each in list(value.items())[:_ITEMS]}
    if isinstance(value, list):
        return [_shorten(each) for each in value[:_ITEMS]]
    if isinstance(value, ObjectReference):
        return ObjectReference(
            **{name: _shorten(each) for name, each in msgspec.structs.asdict(value).items()}
        )
    return value


def _all(accepted: list[bool | Awaitable[bool]]) -> bool | Awaitable[bool]:
    if all(isinstance(each, bool) for each in accepted):
        return all(accepted)

    async def wait() -> bool:
        return all([each if isinstance(each, bool) else await each for each in accepted])

    return wait()
