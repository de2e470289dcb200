"""A queue in front of an audit backend: requests do not wait, events are processed in batches.

A batch is complete with the maximum number of events or after the maximum time since its first event. A rate
limit with a burst applies to batches. Events that arrive while the queue is full are dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from kubewright.background import run_forever

from .backends import AuditBackend, monitored
from .event import AuditEvent

logger = logging.getLogger("kubewright.apiserver.audit")

_STOP_TIMEOUT = 10.0
"""Seconds to process queued events when the server stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """Options of the mode `batch`."""

    buffer_size: int = 10_000
    max_size: int = 1
    max_wait: float = 0.0
    throttle: bool = False
    throttle_qps: float = 0.0
    throttle_burst: int = 0

    def check(self, name: str) -> None:
        """Raise `ValueError` for values that are not positive."""
        values: list[tuple[str, float]] = [
            ("buffer size", self.buffer_size),
            ("max batch size", self.max_size),
        ]
        if self.throttle:
            values += [("throttle QPS", self.throttle_qps), ("throttle burst", self.throttle_burst)]
        for what, value in values:
            if value <= 0:
                raise ValueError(f"invalid audit batch {name} {what} {value}, must be a positive number")


class BatchBackend:
    """Queues events for another backend."""

    accepts_all = True

    def __init__(self, delegate: AuditBackend, options: BatchOptions) -> None:
        self.name = delegate.name
        self.delegate = monitored(delegate)
        self.dropped_events = 0
        """Number of events that arrived while the queue was full."""
        self._options = options
        self._queue: list[AuditEvent] = []
        self._dropped = 0
        self._changed = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Future[bool]] = set()
        self._tokens = float(options.throttle_burst)
        self._refilled: float | None = None

    async def start(self) -> None:
        """Start to process the queue."""
        await self.delegate.start()
        self._task = run_forever(self._run, name=f"audit {self.name}")

    async def stop(self) -> None:
        """Process what is queued, for at most a few seconds."""
        self._stopping = True
        self._changed.set()
        if self._task is not None:
            try:
                async with asyncio.timeout(_STOP_TIMEOUT):
                    await self._task
                    while self._sending:
                        await asyncio.gather(*self._sending, return_exceptions=True)
            except TimeoutError:
                logger.error("audit events were not processed before shutdown", extra={"backend": self.name})
        await self.delegate.stop()

    def process(self, events: Sequence[AuditEvent]) -> bool:
        """Queue events; those that do not fit are dropped."""
        for event in events:
            if len(self._queue) >= self._options.buffer_size:
                if not self._dropped:
                    logger.error("audit queue is full; dropping events", extra={"backend": self.name})
                self._dropped += 1
                self.dropped_events += 1
                continue
            self._queue.append(event)
        if len(self._queue) == len(events) or len(self._queue) >= self._options.max_size:
            self._changed.set()
        return True

    async def _run(self) -> None:
        while not (self._stopping and not self._queue):
            await self._collect()
            if not self._queue:
                continue
            if not self._stopping:
                await self._throttle()
            batch = self._queue[: self._options.max_size]
            del self._queue[: len(batch)]
            if self._dropped:
                logger.error("dropped audit events", extra={"backend": self.name, "events": self._dropped})
                self._dropped = 0
            self._send(batch)

    async def _collect(self) -> None:
        """Wait until the next batch is complete."""
        while not self._queue and not self._stopping:
            self._changed.clear()
            await self._changed.wait()
        if self._options.max_wait <= 0:
            return
        try:
            async with asyncio.timeout(self._options.max_wait):
                while len(self._queue) < self._options.max_size and not self._stopping:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass

    def _send(self, batch: list[AuditEvent]) -> None:
        """Pass a batch to the delegate; several can be under way."""
        accepted = self.delegate.process(batch)
        if isinstance(accepted, bool):
            return
        sending = asyncio.ensure_future(accepted)
        self._sending.add(sending)
        sending.add_done_callback(self._sent)

    def _sent(self, sending: asyncio.Future[bool]) -> None:
        self._sending.discard(sending)
        if not sending.cancelled():
            sending.exception()  # the monitored delegate has logged it

    async def _throttle(self) -> None:
        """Wait for a token of the rate limit."""
        options = self._options
        if not options.throttle:
            return
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            if self._refilled is not None:
                gained = (now - self._refilled) * options.throttle_qps
                self._tokens = min(options.throttle_burst, self._tokens + gained)
            self._refilled = now
            if self._tokens >= 1:
                self._tokens -= 1
                return
            await asyncio.sleep((1 - self._tokens) / options.throttle_qps)
