"""Event recorder: Kubernetes events about objects, shown by `kubectl describe`.

`EventRecorder.event` does not wait or fail: events are sent in the background, and dropped if the API server
is unavailable and the queue is full. Repeated events become one event with a count. Two filters limit the
rate, with the numbers of client-go: more than 10 events in 10 minutes that differ only in their message are
aggregated, and an object can have a burst of 25 events and then one every five minutes. It can be called from
any thread.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from kubewright.api.codec import to_plain
from kubewright.api.errors import APIError, NotFound
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject, ObjectReference
from kubewright.api.times import format_micro_time, format_time, now_micro
from kubewright.api.unstructured import Unstructured
from kubewright.client import Client, patches
from kubewright.client.errors import ConnectionFailed

logger = logging.getLogger(__name__)

EventType = Literal["Normal", "Warning"]
EventAPI = Literal["v1", "events.k8s.io/v1"]

AGGREGATE_AFTER = 10
AGGREGATE_SECONDS = 600.0
SPAM_BURST = 25
SPAM_REFILL_SECONDS = 300.0
MAX_CACHE_ENTRIES = 4096
MESSAGE_LENGTH = 1024
RECENT = 50
QUEUE_LENGTH = 1000


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


class EventSpamFilter:
    """Token bucket of events per object."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._buckets = _LRUCache()

    def allows(self, key: object) -> bool:
        """Take a token; return whether there was one."""
        now = self._clock()
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
        """Return the key to count an event under, and its message or that of the aggregate."""
        now = self._clock()
        seen: dict[str, None]
        last: float
        seen, last = self._groups.get(group, ({}, now))
        if now - last > AGGREGATE_SECONDS:
            seen = {}
        seen[message] = None
        self._groups.pop(group, None)
        self._groups.touch(group, lambda: (seen, now))
        if len(seen) < AGGREGATE_AFTER:
            return (group, message), message
        del seen[next(iter(seen))]
        return (group, ""), f"(combined from similar events): {message}"


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


class EventRecorder:
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
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = now_micro,
    ) -> None:
        self.component = component
        self._client = client
        self._api = api
        self._now = now
        self._instance = f"{component}-{socket.gethostname()}"[:128]
        self._filter = EventSpamFilter(clock)
        self._aggregator = EventAggregator(clock)
        self._posted = _LRUCache()
        self._queue: deque[Callable[[], Any]] = deque()
        self._lock = threading.Lock()
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._dropped = 0
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
        with self._lock:
            self.recent.append(RecordedEvent(self._now(), about, type, reason, message))
            if not self._filter.allows(subject):
                logger.debug(
                    "dropped event because of its rate",
                    extra={"kind": about.kind, "namespace": about.namespace, "object": about.name},
                )
                return
            key, text = self._aggregator.message((subject, type, reason, action), message)
            text = text if len(text) <= MESSAGE_LENGTH else f"{text[: MESSAGE_LENGTH - 3]}..."
            if len(self._queue) >= QUEUE_LENGTH:
                self._queue.popleft()
                self._dropped += 1
            self._queue.append(lambda: self._send(key, about, other, type, reason, text, action))
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake.set)

    async def run(self, stop: asyncio.Event) -> None:
        """Send events until `stop` is set, then send the remaining ones."""
        self._loop = asyncio.get_running_loop()
        stopping = asyncio.create_task(stop.wait())
        try:
            await self.flush()
            while not stop.is_set():
                waking = asyncio.create_task(self._wake.wait())
                await asyncio.wait([stopping, waking], return_when=asyncio.FIRST_COMPLETED)
                waking.cancel()
                await self.flush()
        finally:
            self._loop = None
            stopping.cancel()

    async def flush(self) -> None:
        """Send all queued events."""
        self._wake.clear()
        while self._queue:
            send = self._queue.popleft()
            try:
                await send()
            except (APIError, ConnectionFailed, OSError, TimeoutError) as error:
                logger.warning("could not send event", extra={"error": str(error)})
            except Exception:
                logger.exception("could not send event")
        if self._dropped:
            logger.warning("dropped events, the queue was full", extra={"count": self._dropped})
            self._dropped = 0

    async def _send(
        self,
        key: object,
        about: ObjectReference,
        related: ObjectReference | None,
        type: EventType,
        reason: str,
        message: str,
        action: str,
    ) -> None:
        now = self._now()
        posted: _StoredEvent | None = self._posted.get(key)
        if posted is not None:
            try:
                await self._count(posted, message, now)
                return
            except NotFound:
                self._posted.pop(key, None)
        namespace = about.namespace or "default"
        self._last_stamp = max(self._last_stamp + 1, int(now.timestamp() * 1_000_000) * 1000)
        name = f"{about.name}.{self._last_stamp:x}"
        body = self._body(name, namespace, about, related, type, reason, message, action, now)
        await self._client.create(Unstructured(body))
        entry = _StoredEvent(name, namespace, 1, now)
        self._posted.pop(key, None)
        self._posted.touch(key, lambda: entry)

    async def _count(self, posted: _StoredEvent, message: str, now: datetime) -> None:
        posted.count += 1
        if self._api == "v1":
            change: dict[str, Any] = {
                "count": posted.count,
                "lastTimestamp": format_time(now),
                "message": message,
            }
        else:
            # Other fields of these events are immutable, including the note.
            change = {"series": {"count": posted.count, "lastObservedTime": format_micro_time(now)}}
        kind = GroupVersionKind.from_api_version(self._api, "Event")
        await self._client.patch(
            kind, patches.merge_patch(change), name=posted.name, namespace=posted.namespace
        )

    def _body(
        self,
        name: str,
        namespace: str,
        about: ObjectReference,
        related: ObjectReference | None,
        type: EventType,
        reason: str,
        message: str,
        action: str,
        now: datetime,
    ) -> dict[str, Any]:
        body: dict[str, Any] = {
            "apiVersion": self._api,
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "type": type,
            "reason": reason,
        }
        if related is not None:
            body["related"] = to_plain(related)
        if self._api == "v1":
            # As client-go: no action, an empty instance.
            body["reportingInstance"] = ""
            body["involvedObject"] = to_plain(about)
            body["message"] = message
            body["source"] = {"component": self.component}
            body["reportingComponent"] = self.component
            body["firstTimestamp"] = body["lastTimestamp"] = format_time(now)
            body["count"] = 1
        else:
            body["action"] = action
            body["reportingInstance"] = self._instance
            body["regarding"] = to_plain(about)
            body["note"] = message
            body["reportingController"] = self.component
            body["eventTime"] = format_micro_time(now)
        return body
