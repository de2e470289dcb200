"""Event recorder: Kubernetes events about objects, shown by `kubectl describe`.

`EventRecorder.event` does not wait or fail: events are sent in the background, one after the other, and the
oldest are dropped if the API server is slow or unavailable and the queue is full. A process that stops sends
queued events for at most five seconds. Repeated events become one event with a count; repetitions of an event
that is still queued need no request of their own. Two filters limit the rate, with the numbers of client-go:
more than 10 events in 10 minutes that differ only in their message are aggregated, and an object can have a
burst of 25 events and then one every five minutes. It can be called from any thread.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal

from kubewright.api.encoding.codec import to_plain
from kubewright.api.errors import AlreadyExists, APIError, NotFound
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject, ObjectReference
from kubewright.api.unstructured import Unstructured
from kubewright.api.values.times import format_micro_time, format_time, monotonic_time, now_micro
from kubewright.background import run_forever
from kubewright.client import Client, patches
from kubewright.client.errors import ConnectionFailed
from kubewright.controller.controller import current_reconcile
from kubewright.runnable import BaseRunnable

logger = logging.getLogger(__name__)

EventType = Literal["Normal", "Warning"]
EventAPI = Literal["v1", "events.k8s.io/v1"]

AGGREGATE_AFTER = 10
AGGREGATE_SECONDS = 600.0
SPAM_BURST = 25
SPAM_REFILL_SECONDS = 300.0
MAX_CACHE_ENTRIES = 4096
POSTED_SECONDS = 3600.0
"""Events that were not repeated for this long have expired in the API server."""
MESSAGE_LENGTH = 1024
RECENT = 50
QUEUE_LENGTH = 1000
STOP_SECONDS = 5.0
"""How long the remaining events are sent after a stop; the rest is dropped."""
NAME_ATTEMPTS = 10


def reference_to(obj: MetaObject | Unstructured) -> ObjectReference:
    """Return a reference to an object."""
    meta = obj.metadata
    return ObjectReference(
        api_version=obj.api_version,
        kind=obj.kind,
        namespace=meta.namespace or None,
        name=meta.name,
        uid=meta.uid or None,
        resource_version=meta.resource_version or None,
    )


class _LRUCache(OrderedDict[Any, Any]):
    """Map that drops the least recently used keys."""

    def touch(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return the value of a key, created if missing."""
        if key in self:
            self.move_to_end(key)
        else:
            self[key] = make()
            if len(self) > MAX_CACHE_ENTRIES:
                self.popitem(last=False)
        return self[key]

    def expire(self, has_expired: Callable[[Any], bool]) -> None:
        """Drop the least recently used keys whose values have no effect any more."""
        while self and has_expired(self[next(iter(self))]):
            self.popitem(last=False)


class EventSpamFilter:
    """Token bucket of events per object."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._buckets = _LRUCache()

    def allows(self, key: object) -> bool:
        """Take a token; return whether there was one."""
        now = self._clock()
        self._buckets.expire(lambda each: each[0] + (now - each[1]) / SPAM_REFILL_SECONDS >= SPAM_BURST)
        bucket = self._buckets.touch(key, lambda: [float(SPAM_BURST), now])
        bucket[0] = min(float(SPAM_BURST), bucket[0] + (now - bucket[1]) / SPAM_REFILL_SECONDS)
        bucket[1] = now
        if bucket[0] < 1:
            return False
        bucket[0] -= 1
        return True


class EventAggregator:
    """Aggregates frequent events that differ only in their message."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._groups = _LRUCache()

    def message(self, group: object, message: str) -> tuple[object, str]:
        """Return the key to count an event under, and its message or that of the aggregate.

        Keys have hashes of messages, which can be long.
        """
        now = self._clock()
        seen: dict[int, None]
        last: float
        seen, last = self._groups.get(group, ({}, now))
        if now - last > AGGREGATE_SECONDS:
            seen = {}
        digest = hash(message)
        seen[digest] = None
        self._groups.pop(group, None)
        self._groups.expire(lambda each: now - each[1] > AGGREGATE_SECONDS)
        self._groups.touch(group, lambda: (seen, now))
        if len(seen) < AGGREGATE_AFTER:
            return (group, digest), message
        del seen[next(iter(seen))]
        return (group, ""), f"(combined from similar events): {message}"


class EventCorrelator:
    """What is known of earlier events. Recorders of one process can share it, and its memory."""

    def __init__(self, clock: Callable[[], float] = monotonic_time) -> None:
        self.clock = clock
        self.filter = EventSpamFilter(clock)
        self.aggregator = EventAggregator(clock)
        self._posted = _LRUCache()

    def find(self, key: object) -> _StoredEvent | None:
        """Return the stored event that a repetition is counted in."""
        found: _StoredEvent | None = self._posted.get(key)
        return found

    def store(self, key: object, event: _StoredEvent) -> None:
        """Remember an event that was created or counted."""
        event.at = now = self.clock()
        self._posted.pop(key, None)
        self._posted.expire(lambda each: now - each.at > POSTED_SECONDS)
        self._posted.touch(key, lambda: event)

    def discard(self, key: object) -> None:
        """Forget an event that does not exist any more."""
        self._posted.pop(key, None)


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event as it was recorded, for the console view."""

    at: datetime
    about: ObjectReference
    type: EventType
    reason: str
    message: str


@dataclass(slots=True)
class _StoredEvent:
    """An event that exists on the server; repetitions increase its count."""

    name: str
    namespace: str
    count: int
    first: datetime
    at: float = 0.0
    """When it was created or counted last."""


@dataclass(slots=True)
class _QueuedEvent:
    """An event that is not sent yet, with its repetitions."""

    about: ObjectReference
    related: ObjectReference | None
    type: EventType
    reason: str
    message: str
    action: str
    first: datetime
    last: datetime
    count: int = 1


def _describe_event(
    now: datetime, about: ObjectReference, type: EventType, reason: str, message: str
) -> dict[str, Any]:
    """Return an event for the span of a reconcile."""
    return {
        "type": type,
        "reason": reason,
        "message": message,
        "time": now.timestamp() * 1000,
        "kind": about.kind or "",
        "namespace": about.namespace or "",
        "name": about.name or "",
    }


class EventRecorder(BaseRunnable):
    """Records events about objects. A runnable of the manager that stops last.

    Permissions: `create` and `patch` of `events` (in the core group, or in `events.k8s.io`).
    """

    needs_leader = False
    group = "events"

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        api: EventAPI = "events.k8s.io/v1",
        clock: Callable[[], float] = monotonic_time,
        now: Callable[[], datetime] = now_micro,
        correlator: EventCorrelator | None = None,
    ) -> None:
        """`correlator` is one that is shared with other recorders, with its clock instead of `clock`."""
        self.component = component
        self._client = client
        self._api = api
        self._now = now
        self._instance = f"{component}-{socket.gethostname()}"[:128]
        self._correlator = correlator or EventCorrelator(clock)
        self._queue: OrderedDict[object, _QueuedEvent] = OrderedDict()
        self._lock = threading.Lock()
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._dropped = 0
        self._sending = 0
        self._last_stamp = 0
        self.recent: deque[RecordedEvent] = deque(maxlen=RECENT)
        """The last events, including those that could not be sent."""

    def event(
        self,
        regarding: MetaObject | Unstructured | ObjectReference,
        type: EventType,
        reason: str,
        message: str,
        *,
        action: str = "Reconcile",
        related: MetaObject | Unstructured | ObjectReference | None = None,
    ) -> None:
        """Record an event about an object. `reason` is a CamelCase word, `message` a readable text."""
        about = regarding if isinstance(regarding, ObjectReference) else reference_to(regarding)
        other = related if related is None or isinstance(related, ObjectReference) else reference_to(related)
        subject = (self.component, about.kind, about.namespace, about.name, about.uid)
        now = self._now()
        info = current_reconcile.get()
        shown = _shortened(message)
        if info is not None and info.span is not None:
            info.span.add_event(_describe_event(now, about, type, reason, shown))
        with self._lock:
            self.recent.append(RecordedEvent(now, about, type, reason, shown))
            if not self._correlator.filter.allows(subject):
                logger.debug(
                    "dropped event because of its rate",
                    extra={"kind": about.kind, "namespace": about.namespace, "object": about.name},
                )
                return
            key, text = self._correlator.aggregator.message((subject, type, reason, action), message)
            text = _shortened(text)
            queued = self._queue.get(key)
            if queued is not None:
                queued.count += 1
                queued.message, queued.last = text, now
                return
            if len(self._queue) >= QUEUE_LENGTH:
                self._queue.popitem(last=False)
                self._dropped += 1
            self._queue[key] = _QueuedEvent(about, other, type, reason, text, action, now, now)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake.set)

    @property
    def is_idle(self) -> bool:
        """Whether all recorded events have been sent."""
        return not self._queue and not self._sending

    async def run(self, stop: asyncio.Event) -> None:
        """Send events until `stop` is set, then send the remaining ones for at most `STOP_SECONDS`."""
        self._loop = asyncio.get_running_loop()
        sending = run_forever(partial(self._send_queued, stop), name="events", required=False)
        try:
            await stop.wait()
            self._wake.set()
            await asyncio.wait([sending], timeout=STOP_SECONDS)
            if not sending.done():
                count = len(self._queue) + self._sending
                logger.warning("dropped events, the API server is too slow", extra={"count": count})
        finally:
            self._loop = None
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send_queued(self, stop: asyncio.Event) -> None:
        while True:
            await self.flush()
            if stop.is_set():
                return
            await self._wake.wait()

    async def flush(self) -> None:
        """Send all queued events."""
        self._wake.clear()
        while self._queue:
            with self._lock:
                key, event = self._queue.popitem(last=False)
            self._sending += 1
            try:
                await self._send(key, event)
            except (APIError, ConnectionFailed, OSError, TimeoutError) as error:
                logger.warning("could not send event", extra={"error": str(error)})
            except Exception:
                logger.exception("could not send event")
            finally:
                self._sending -= 1
            if self._dropped:
                logger.warning("dropped events, the queue was full", extra={"count": self._dropped})
                self._dropped = 0

    async def _send(self, key: object, event: _QueuedEvent) -> None:
        posted = self._correlator.find(key)
        if posted is not None:
            try:
                await self._count(posted, event)
                self._correlator.store(key, posted)
                return
            except NotFound:
                self._correlator.discard(key)
        namespace = event.about.namespace or "default"
        for attempt in range(NAME_ATTEMPTS):
            self._last_stamp = max(self._last_stamp + 1, int(event.first.timestamp() * 1_000_000) * 1000)
            name = f"{event.about.name}.{self._last_stamp:x}"
            try:
                await self._client.create(Unstructured(self._body(name, namespace, event)))
                break
            except AlreadyExists:
                # Another recorder had an event about an object of this name in the same microsecond.
                if attempt + 1 == NAME_ATTEMPTS:
                    raise
        self._correlator.store(key, _StoredEvent(name, namespace, event.count, event.first))

    async def _count(self, posted: _StoredEvent, event: _QueuedEvent) -> None:
        posted.count += event.count
        if self._api == "v1":
            change: dict[str, Any] = {
                "count": posted.count,
                "lastTimestamp": format_time(event.last),
                "message": event.message,
            }
        else:
            # Other fields of these events are immutable, including the note.
            change = {"series": _series(posted.count, event.last)}
        kind = GroupVersionKind.from_api_version(self._api, "Event")
        await self._client.patch(kind, posted.name, patches.merge_patch(change), namespace=posted.namespace)

    def _body(self, name: str, namespace: str, event: _QueuedEvent) -> dict[str, Any]:
        body: dict[str, Any] = {
            "apiVersion": self._api,
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "type": event.type,
            "reason": event.reason,
        }
        if event.related is not None:
            body["related"] = to_plain(event.related)
        if self._api == "v1":
            # As client-go: no action, an empty instance.
            body["reportingInstance"] = ""
            body["involvedObject"] = to_plain(event.about)
            body["message"] = event.message
            body["source"] = {"component": self.component}
            body["reportingComponent"] = self.component
            body["firstTimestamp"] = format_time(event.first)
            body["lastTimestamp"] = format_time(event.last)
            body["count"] = event.count
        else:
            body["action"] = event.action
            body["reportingInstance"] = self._instance
            body["regarding"] = to_plain(event.about)
            body["note"] = event.message
            body["reportingController"] = self.component
            body["eventTime"] = format_micro_time(event.first)
            if event.count > 1:
                body["series"] = _series(event.count, event.last)
        return body


def _shortened(message: str) -> str:
    return message if len(message) <= MESSAGE_LENGTH else f"{message[: MESSAGE_LENGTH - 3]}..."


def _series(count: int, last: datetime) -> dict[str, Any]:
    return {"count": count, "lastObservedTime": format_micro_time(last)}
