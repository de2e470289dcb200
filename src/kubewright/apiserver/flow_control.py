"""Priority and fairness: seats of priority levels, and queues of their flows.

    levels = {"batch": PriorityLevel(seats=5)}
    server.flow_control = FlowControl(levels, classify=lambda user, info: Flow("batch", user.name))

A request belongs to a priority level and, within it, to a flow (usually its user). A level has seats; a
request occupies one while it is processed. If all are occupied, the level borrows free seats that other
levels lend. Otherwise the request waits in the queue of its flow, and seats that become free are given to the
flows in turn, so a flow with many requests delays only itself. A request is rejected with 429 if the queue of
its flow is full, or if it has waited for a quarter of the request timeout, as in kube-apiserver.

A level that has lent seats gets its own number of seats immediately when it needs them; then more seats are
occupied than there are, until requests of the borrowers finish. Watches and requests of exempt levels need no
seat.
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
    from kubewright.api.errors import TooManyRequests

    from .authentication.user import User
    from .http.request_info import RequestInfo

QUEUE_TIMEOUT = 15.0
"""Seconds that a request waits for a seat at most: a quarter of the request timeout."""


@dataclass(frozen=True, slots=True)
class PriorityLevel:
    """Requests that are processed at the same time, and those of one flow that wait.

    Without a queue, requests are rejected when all seats are occupied; an exempt level has no limit. At most
    `lendable` of the seats are lent, and at most `borrowable` (`None`: any number) borrowed.
    """

    seats: int = 0
    queue_length: int = 50
    exempt: bool = False
    lendable: int = 0
    borrowable: int | None = 0


EXEMPT = PriorityLevel(exempt=True)


class Flow(NamedTuple):
    """The level and the flow of a request."""

    level: str
    name: str


Classify = Callable[["User", "RequestInfo"], Flow]


class LevelSeats:
    """The seats of one level, and what happened to its requests."""

    def __init__(self, level: PriorityLevel, lenders: Callable[[], int]) -> None:
        """`lenders` returns the number of seats that all levels together could lend now."""
        self.level = level
        self.occupied = 0
        self.waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self.dispatched = 0
        self.rejected: dict[str, int] = {}
        """Rejected requests, by reason."""
        self._lenders = lenders

    @property
    def lendable(self) -> int:
        """The number of seats that others can borrow now."""
        return max(0, min(self.level.lendable, self.level.seats - self.occupied))

    @property
    def borrowed(self) -> int:
        """The number of occupied seats that are borrowed."""
        return max(0, self.occupied - self.level.seats)

    def _has_seat(self) -> bool:
        level = self.level
        if self.occupied < level.seats:
            return True
        if level.borrowable is not None and self.borrowed >= level.borrowable:
            return False
        return self._lenders() > 0

    def _reject(self, reason: str) -> TooManyRequests:
        self.rejected[reason] = self.rejected.get(reason, 0) + 1
        return too_many_requests()

    async def acquire(self, flow: str) -> None:
        """Occupy a seat, wait for one, or raise `TooManyRequests`."""
        if not self.waiting and self._has_seat():
            self._occupy()
            return
        queue = self.waiting.get(flow)
        if self.level.queue_length <= (len(queue) if queue is not None else 0):
            raise self._reject("queue-full" if self.level.queue_length else "concurrency-limit")
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
                raise self._reject("time-out") from None
            raise

    def _occupy(self) -> None:
        self.occupied += 1
        self.dispatched += 1

    def release(self) -> None:
        """Give a free seat to the next flow."""
        self.occupied -= 1
        self.fill()

    def fill(self) -> None:
        """Give free seats to waiting requests, one flow after the other."""
        while self.waiting and self._has_seat():
            flow, queue = next(iter(self.waiting.items()))
            seat = queue.popleft()
            if queue:
                self.waiting.move_to_end(flow)
            else:
                del self.waiting[flow]
            if not seat.done():
                seat.set_result(None)
                self._occupy()

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
        self.levels: dict[str, LevelSeats] = {}
        self.set_levels(levels)

    def set_levels(self, levels: Mapping[str, PriorityLevel]) -> None:
        """Replace the levels; requests keep the seats that they have."""
        for name in self.levels.keys() - levels.keys():
            # Requests that wait in a removed level are processed.
            seats = self.levels.pop(name)
            seats.level = PriorityLevel(seats=seats.occupied + sum(map(len, seats.waiting.values())))
            seats.fill()
        for name, level in levels.items():
            found = self.levels.get(name)
            if found is None:
                self.levels[name] = LevelSeats(level, self._lendable)
            else:
                found.level = level
                found.fill()

    def _lendable(self) -> int:
        """Return the number of free seats that levels lend and no other level has borrowed yet."""
        levels = self.levels.values()
        return sum(each.lendable for each in levels) - sum(each.borrowed for each in levels)

    def occupied(self, level: str) -> int:
        """Return the number of occupied seats of a level."""
        return self.levels[level].occupied

    async def acquire(self, user: User, info: RequestInfo) -> LevelSeats | None:
        """Occupy a seat; raise `TooManyRequests`. A request of an exempt or unknown level needs none."""
        flow = self._classify(user, info)
        seats = self.levels.get(flow.level)
        if seats is None or seats.level.exempt:
            return None
        await seats.acquire(flow.name)
        return seats

    def release(self, seats: LevelSeats) -> None:
        """Return a seat: to the next request of its level, or of a level that borrows."""
        seats.release()
        if seats.level.lendable:
            for level in self.levels.values():
                if level.waiting:
                    level.fill()

    @asynccontextmanager
    async def seat(self, user: User, info: RequestInfo) -> AsyncIterator[None]:
        """Occupy a seat for the duration of a block."""
        seats = await self.acquire(user, info)
        try:
            yield
        finally:
            if seats is not None:
                self.release(seats)


__all__ = ["EXEMPT", "Flow", "FlowControl", "LevelSeats", "PriorityLevel"]
