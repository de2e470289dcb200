"""The interface of audit backends, and what wraps them: truncation and the handling of errors."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from typing import Protocol

from .event import AuditEvent

logger = logging.getLogger("kubewright.apiserver.audit")


class AuditBackend(Protocol):
    """Receives events. `process` returns whether all were accepted, now or when the awaitable is done."""

    name: str

    async def start(self) -> None:
        """Prepare; raises `OSError` or `ValueError` if events cannot be processed."""

    async def stop(self) -> None:
        """Process what is queued and release resources."""

    def process(self, events: Sequence[AuditEvent]) -> bool | Awaitable[bool]:
        """Process the events of one or several requests, which are not changed later."""


class _Wrapper:
    """A backend that passes events to another one."""

    def __init__(self, delegate: AuditBackend) -> None:
        self.delegate = delegate
        self.name = delegate.name

    async def start(self) -> None:
        """Start the delegate."""
        await self.delegate.start()

    async def stop(self) -> None:
        """Stop the delegate."""
        await self.delegate.stop()


class IgnoreErrors(_Wrapper):
    """Accepts all events: requests do not fail if their events cannot be stored."""

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
    """Removes the objects of large events, and drops those that are too large without them."""

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
                logger.error("dropped an audit event that is too large", extra={"audit_id": event.audit_id})
                continue
            if batches[-1] and total + size > self._max_batch_size:
                batches.append([])
                total = 0
            batches[-1].append(event)
            total += size
        return _all([self.delegate.process(batch) for batch in batches if batch])


def truncated(event: AuditEvent) -> AuditEvent:
    """Return an event without its objects, marked as truncated."""
    from msgspec.structs import replace

    annotations = {**(event.annotations or {}), "audit.k8s.io/truncated": "true"}
    return replace(event, request_object=None, response_object=None, annotations=annotations)


def _all(accepted: list[bool | Awaitable[bool]]) -> bool | Awaitable[bool]:
    if all(isinstance(each, bool) for each in accepted):
        return all(accepted)

    async def wait() -> bool:
        return all([each if isinstance(each, bool) else await each for each in accepted])

    return wait()
