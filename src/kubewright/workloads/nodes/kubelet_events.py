"""Events as kubelets record them: about pods, containers and nodes, in the background and at a limited rate.

All simulated nodes share one queue. Events wait while many pod statuses are written, which have precedence.
If the queue is full, events are dropped, Normal ones first, as the recorder of a kubelet drops events.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kubewright.api.errors import APIError, NotFound
from kubewright.api.unstructured import Unstructured
from kubewright.client import Client, patches
from kubewright.client.errors import ConnectionFailed

from .objects import EVENT, LoopClock, Object
from .settings import SimulationSettings

logger = logging.getLogger(__name__)

QUEUE_LENGTH: Final = 2000
_REMEMBERED: Final = 4096
_REMEMBERED_SECONDS: Final = 3600.0
"""Events that were not repeated for this long have expired in the API server."""
_DEFERRED_SECONDS: Final = 0.1


class KubeletEvent(NamedTuple):
    """One event, before it is sent."""

    node: str
    involved: tuple[str, str, str, str, str, str]
    """apiVersion, kind, namespace, name, uid and field path."""
    type: str
    reason: str
    message: str


class _Sent:
    __slots__ = ("at", "count", "name", "namespace")

    def __init__(self, name: str, namespace: str, at: float) -> None:
        self.name, self.namespace, self.at, self.count = name, namespace, at, 1


class KubeletEvents:
    """Queue and sender of events."""

    def __init__(
        self, client: Client, clock: LoopClock, settings: SimulationSettings, component: str = "kubelet"
    ) -> None:
        self._client = client
        self._clock = clock
        self._settings = settings
        self._component = component
        self._queue: deque[KubeletEvent] = deque()
        self._wake = asyncio.Event()
        self._sent: OrderedDict[KubeletEvent, _Sent] = OrderedDict()
        self._tokens = settings.event_rate * 2
        self._refilled = clock.time()
        self._last_name = 0
        self._sending = False
        self.is_deferred: Callable[[], bool] = lambda: False
        """Whether events have to wait now."""

    def record(self, event: KubeletEvent) -> None:
        """Add an event to the queue; it does not wait or fail."""
        mode = self._settings.events
        if mode == "none" or (mode == "warnings" and event.type == "Normal"):
            return
        if len(self._queue) >= QUEUE_LENGTH:
            self._drop()
        self._queue.append(event)
        self._wake.set()

    def _drop(self) -> None:
        for position, each in enumerate(self._queue):
            if each.type == "Normal":
                del self._queue[position]
                return
        self._queue.popleft()

    async def run(self) -> None:
        """Send events until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                if self.is_deferred():
                    await asyncio.sleep(_DEFERRED_SECONDS)
                    continue
                await self._wait_for_token()
                if not self._queue:
                    break
                await self._send(self._queue.popleft())

    @property
    def is_idle(self) -> bool:
        """Whether all events have been sent."""
        return not self._queue and not self._sending

    async def flush(self) -> None:
        """Send the queued events that the rate limit allows now."""
        while self._queue and self._tokens >= 1:
            self._tokens -= 1
            await self._send(self._queue.popleft())

    async def _wait_for_token(self) -> None:
        rate = self._settings.event_rate
        now = self._clock.time()
        self._tokens = min(rate * 2, self._tokens + (now - self._refilled) * rate)
        self._refilled = now
        if self._tokens < 1:
            await asyncio.sleep((1 - self._tokens) / rate)
            self._refilled = self._clock.time()
            self._tokens = 1.0
        self._tokens -= 1

    async def _send(self, event: KubeletEvent) -> None:
        self._sending = True
        try:
            sent = self._sent.get(event)
            if sent is not None:
                try:
                    await self._count(sent)
                    sent.at = self._clock.time()
                    if event in self._sent:
                        self._sent.move_to_end(event)
                    return
                except NotFound:
                    del self._sent[event]
            await self._create(event)
        except (APIError, ConnectionFailed, OSError, TimeoutError) as error:
            # The namespace of a deleted pod may be terminating, for example.
            logger.debug("could not send event", extra={"reason": event.reason, "error": str(error)})
        finally:
            self._sending = False

    async def _count(self, sent: _Sent) -> None:
        sent.count += 1
        change = patches.merge_patch({"count": sent.count, "lastTimestamp": self._clock.stamp()})
        await self._client.patch(EVENT, sent.name, change, namespace=sent.namespace)

    async def _create(self, event: KubeletEvent) -> None:
        api_version, kind, namespace, name, uid, path = event.involved
        involved: Object = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}
        if namespace:
            involved["namespace"] = namespace
        if path:
            involved["fieldPath"] = path
        self._last_name = max(self._last_name + 1, int(self._clock.date().timestamp() * 1_000_000) * 1000)
        now = self._clock.time()
        sent = _Sent(f"{name}.{self._last_name:x}", namespace or "default", now)
        stamp = self._clock.stamp()
        body: Object = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": sent.name, "namespace": sent.namespace},
            "involvedObject": involved,
            "type": event.type,
            "reason": event.reason,
            "message": event.message[:1024],
            "source": {"component": self._component, **({"host": event.node} if event.node else {})},
            "reportingComponent": self._component,
            "reportingInstance": event.node,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }
        await self._client.create(Unstructured(body))
        self._sent[event] = sent
        while (
            len(self._sent) > _REMEMBERED or now - self._sent[next(iter(self._sent))].at > _REMEMBERED_SECONDS
        ):
            self._sent.popitem(last=False)

    def pending(self) -> Iterator[KubeletEvent]:
        """Iterate the events that are not sent yet."""
        return iter(tuple(self._queue))
