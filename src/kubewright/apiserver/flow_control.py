"""Priority and fairness: seats of priority levels, and queues of their flows.

    levels = {"batch": PriorityLevel(seats=5)}
    server.flow_control = FlowControl(levels, classify=lambda user, info: Flow("batch", user.name))

A request belongs to a priority level and, within it, to a flow (usually its user). A level has seats; a
request occupies one while it is processed. If all are occupied, it waits in the queue of its flow, and seats
that become free are given to the flows in turn, so a flow with many requests delays only itself. A request is
rejected with 429 if the queue of its flow is full, or if it has waited for a quarter of the request timeout,
as in kube-apiserver.

Watches and requests of exempt levels need no seat.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from .limits import too_many_requests

if TYPE_CHECKING:
    from .authentication.user import User
    from .http.request_info import RequestInfo

QUEUE_TIMEOUT = 15.0
"""Seconds that a request waits for a seat at most: a quarter of the request timeout."""


@dataclass(frozen=True, slots=True)
class PriorityLevel:
    """Requests that are processed at the same time, and those of one flow that wait.

    Without a queue, requests are rejected when all seats are occupied; an exempt level has no limit.
    """

    seats: int = 0
    queue_length: int = 50
    exempt: bool = False


EXEMPT = PriorityLevel(exempt=True)


class Flow(NamedTuple):
    """The level and the flow of a request."""

    level: str
    name: str


Classify = Callable[["User", "RequestInfo"], Flow]


class _Seats:
    """The seats of one level."""

    def __init__(self, level: PriorityLevel) -> None:
        self.level = level
        self.occupied = 0
        self.waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def acquire(self, flow: str) -> None:
        if self.occupied < self.level.seats and not self.waiting:
            self.occupied += 1
            return
        queue = self.waiting.get(flow)
        if self.level.queue_length <= (len(queue) if queue is not None else 0):
            raise too_many_requests()
        if queue is None:
            queue = self.waiting[flow] = deque()
        seat: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(seat)
        try:
            async with asyncio.timeout(QUEUE_TIMEOUT):
                await seat
        except BaseException as error:
            if seat.done() and not seat.cancelled():
                self.release()
            else:
                self._forget(flow, seat)
            if isinstance(error, TimeoutError):
                raise too_many_requests() from None
            raise

    def release(self) -> None:
        """Give a free seat to the next flow."""
        self.occupied -= 1
        self.fill()

    def fill(self) -> None:
        """Give free seats to waiting requests, one flow after the other."""
        while self.waiting and self.occupied < self.level.seats:
            flow, queue = next(iter(self.waiting.items()))
            seat = queue.popleft()
            if queue:
                self.waiting.move_to_end(flow)
            else:
                del self.waiting[flow]
            if not seat.done():
                seat.set_result(None)
                self.occupied += 1

    def _forget(self, flow: str, seat: asyncio.Future[None]) -> None:
        queue = self.waiting.get(flow)
        if queue is not None and seat in queue:
            queue.remove(seat)
            if not queue:
                del self.waiting[flow]


class FlowControl:
    """Priority levels by name, and the function that assigns requests to them."""

    def __init__(self, levels: Mapping[str, PriorityLevel], classify: Classify) -> None:
        self._classify = classify
        self._seats: dict[str, _Seats] = {}
        self.set_levels(levels)

    def set_levels(self, levels: Mapping[str, PriorityLevel]) -> None:
        """Replace the levels; requests keep the seats that they have."""
        for name in self._seats.keys() - levels.keys():
            # Requests that wait in a removed level are processed.
            seats = self._seats.pop(name)
            seats.level = PriorityLevel(seats=seats.occupied + sum(map(len, seats.waiting.values())))
            seats.fill()
        for name, level in levels.items():
            found = self._seats.get(name)
            if found is None:
                self._seats[name] = _Seats(level)
            else:
                found.level = level
                found.fill()

    def occupied(self, level: str) -> int:
        """Return the number of occupied seats of a level."""
        return self._seats[level].occupied

    @asynccontextmanager
    async def seat(self, user: User, info: RequestInfo) -> AsyncIterator[None]:
        """Occupy a seat; raise `TooManyRequests`. A request of an unknown level needs none."""
        flow = self._classify(user, info)
        seats = self._seats.get(flow.level)
        if seats is None or seats.level.exempt:
            yield
            return
        await seats.acquire(flow.name)
        try:
            yield
        finally:
            seats.release()


__all__ = ["EXEMPT", "Flow", "FlowControl", "PriorityLevel"]
