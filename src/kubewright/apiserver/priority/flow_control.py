"""Priority and fairness: seats of priority levels, and queues of their flows.

    levels = {"batch": PriorityLevel(seats=5)}
    server.flow_control = FlowControl(levels, classify=lambda user, info: Flow("batch", user.name))

A request belongs to a priority level and, within it, to a flow (usually its user). A level has seats; a
request occupies one while it is processed, or several, as `work_estimate` says. If too
few are free, the level borrows free seats that other levels lend. Otherwise the request waits in the queue of
its flow, and seats that become free are given to the flow that got the fewest, so a flow with many or with
expensive requests delays only itself. A request for more seats than the level has waits until it is the only
one. A request is rejected with 429 if the queue of its flow is full, or if it has waited for a quarter of the
request timeout, as in kube-apiserver.

A level that has lent seats gets its own number of seats immediately when it needs them; then more seats are
occupied than there are, until requests of the borrowers finish. Watches need seats until their initial events
have been sent, requests of exempt levels need none.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from .flow_statistics import FlowSchemaStatistics
from .limits import too_many_requests
from .work_estimate import ESTIMATED_VERBS, ONE_SEAT, Estimate, WorkEstimate

if TYPE_CHECKING:
    from kubewright.apiserver.authentication.user import User
    from kubewright.apiserver.http.messages import HTTPRequest
    from kubewright.apiserver.http.request_info import RequestInfo

QUEUE_TIMEOUT = 15.0
"""Seconds that a request waits for a seat at most: a quarter of the request timeout."""


@dataclass(frozen=True, slots=True)
class PriorityLevel:
    """Requests that are processed at the same time, and those of one flow that wait.

    Without a queue, requests are rejected when all seats are occupied; an exempt level has no limit. At most
    `lendable` of the seats are lent, and at most `borrowable` (`None`: any number) borrowed. One request
    occupies at most `max_seats` (0: any number).
    """

    seats: int = 0
    queue_length: int = 50
    exempt: bool = False
    lendable: int = 0
    borrowable: int | None = 0
    max_seats: int = 0


EXEMPT = PriorityLevel(exempt=True)


class Flow(NamedTuple):
    """The level and the flow of a request, and the FlowSchema that assigned it."""

    level: str
    name: str
    schema: str = ""


Classify = Callable[["User", "RequestInfo"], Flow]


class WaitingRequest(NamedTuple):
    """A request in a queue: completed when it has its seats."""

    seated: asyncio.Future[None]
    width: int
    statistics: FlowSchemaStatistics
    enqueued: float
    """The time of the event loop."""

    @property
    def is_dispatched(self) -> bool:
        """Whether the request has its seats."""
        return self.seated.done() and not self.seated.cancelled()

    @property
    def waited(self) -> float:
        """The seconds since the request was queued."""
        return self.seated.get_loop().time() - self.enqueued


class LevelSeats:
    """The seats of one level, and what happened to its requests."""

    def __init__(
        self, level: PriorityLevel, lenders: Callable[[], int], crowded: dict[LevelSeats, None]
    ) -> None:
        """`lenders` returns the number of seats that all levels together could lend now. The level is in
        `crowded` while requests wait."""
        self.level = level
        self.occupied = 0
        """Occupied seats."""
        self.waiting: dict[str, deque[WaitingRequest]] = {}
        self.schemas: dict[str, FlowSchemaStatistics] = {}
        """Statistics of the requests of each FlowSchema."""
        self._lenders = lenders
        self._crowded = crowded
        self._given: dict[str, int] = {}
        """Seats that each flow got since the first request began to wait."""

    @property
    def executing(self) -> int:
        """The number of requests that are processed."""
        return sum(each.executing for each in self.schemas.values())

    def statistics(self, schema: str) -> FlowSchemaStatistics:
        """Return the statistics of a FlowSchema."""
        return self.schemas.setdefault(schema, FlowSchemaStatistics())

    @property
    def limit(self) -> int:
        """The number of seats that requests of this level could occupy now, with those that it can borrow."""
        level, borrowed = self.level, self.borrowed
        free = max(0, self._lenders() - self.lendable)
        if level.borrowable is not None:
            free = min(free, max(0, level.borrowable - borrowed))
        return level.seats + borrowed + free

    @property
    def lendable(self) -> int:
        """The number of seats that others can borrow now."""
        return max(0, min(self.level.lendable, self.level.seats - self.occupied))

    @property
    def borrowed(self) -> int:
        """The number of occupied seats that are borrowed."""
        return max(0, self.occupied - self.level.seats)

    def _has_seats(self, width: int) -> bool:
        level, wanted = self.level, self.occupied + width
        if wanted <= level.seats or (not self.occupied and level.seats):
            return True
        missing = wanted - max(level.seats, self.occupied)
        if level.borrowable is not None and wanted - level.seats > level.borrowable:
            return False
        return self._lenders() - self.lendable >= missing

    async def acquire(self, flow: str, statistics: FlowSchemaStatistics, width: int = 1) -> None:
        """Occupy seats, wait for them, or raise `TooManyRequests`."""
        if not self.waiting and self._has_seats(width):
            self._occupy(statistics, width)
            return
        queue = self.waiting.get(flow)
        if self.level.queue_length <= (len(queue) if queue is not None else 0):
            statistics.reject("queue-full" if self.level.queue_length else "concurrency-limit")
            raise too_many_requests()
        loop = asyncio.get_running_loop()
        request = WaitingRequest(loop.create_future(), width, statistics, loop.time())
        if queue is None:
            self._given[flow] = max(self._given.get(flow, 0), self._fewest())
            queue = self.waiting[flow] = deque()
            self._crowded[self] = None
        queue.append(request)
        statistics.observe_queue(len(queue))
        self.fill()
        try:
            async with asyncio.timeout(QUEUE_TIMEOUT):
                await request.seated
        except BaseException as error:
            is_timeout = isinstance(error, TimeoutError)
            if not request.is_dispatched:
                self._forget(flow, request)
                statistics.observe_wait(request.waited, dispatched=False)
                if not is_timeout:
                    statistics.abandoned += 1
                    raise
                statistics.reject("time-out")
                raise too_many_requests() from None
            if not is_timeout:
                statistics.executing -= 1
                statistics.additional_seats -= width - 1
                self.release(width)
                raise

    def _fewest(self) -> int:
        """Return the seats of the waiting flow that got the fewest."""
        return min((self._given[flow] for flow in self.waiting), default=0)

    def _occupy(self, statistics: FlowSchemaStatistics, width: int) -> None:
        self.occupied += width
        statistics.executing += 1
        statistics.dispatched += 1
        if width > 1:
            statistics.additional_seats += width - 1

    def release(self, seats: int = 1) -> None:
        """Give free seats to the next requests of this level, or of a level that borrows them."""
        self.occupied -= seats
        if self._crowded:
            was_borrowing = self.occupied + seats > self.level.seats
            self.fill()
            if was_borrowing or self.level.lendable:
                for other in tuple(self._crowded):
                    other.fill()

    def fill(self) -> None:
        """Give free seats to waiting requests, first to the flow that got the fewest."""
        while self.waiting:
            flow = min(self.waiting, key=self._given.__getitem__)
            queue = self.waiting[flow]
            request = queue[0]
            if not request.seated.done():
                if not self._has_seats(request.width):
                    request.statistics.not_accommodated += 1
                    return
                request.seated.set_result(None)
                request.statistics.observe_wait(request.waited, dispatched=True)
                self._occupy(request.statistics, request.width)
                self._given[flow] += request.width
            queue.popleft()
            self._clean(flow, queue)

    def _forget(self, flow: str, request: WaitingRequest) -> None:
        queue = self.waiting.get(flow)
        if queue is not None and request in queue:
            queue.remove(request)
            self._clean(flow, queue)
            self.fill()  # a wide request may have delayed others

    def _clean(self, flow: str, queue: deque[WaitingRequest]) -> None:
        if not queue:
            del self.waiting[flow]
        if not self.waiting:
            self._given.clear()
            self._crowded.pop(self, None)


class Occupied(NamedTuple):
    """The seats of one request."""

    level: LevelSeats
    work: WorkEstimate
    statistics: FlowSchemaStatistics


class FlowControl:
    """Priority levels by name, and the function that assigns requests to them."""

    def __init__(
        self, levels: Mapping[str, PriorityLevel], classify: Classify, *, estimate: Estimate | None = None
    ) -> None:
        """Without `estimate`, each request occupies one seat."""
        self._classify = classify
        self.estimate = estimate
        self.levels: dict[str, LevelSeats] = {}
        self._crowded: dict[LevelSeats, None] = {}
        """Levels in which requests wait."""
        self.set_levels(levels)

    def set_levels(self, levels: Mapping[str, PriorityLevel]) -> None:
        """Replace the levels; requests keep the seats that they have."""
        for name in self.levels.keys() - levels.keys():
            # Requests that wait in a removed level are processed.
            seats = self.levels.pop(name)
            queued = sum(request.width for queue in seats.waiting.values() for request in queue)
            seats.level = PriorityLevel(seats=seats.occupied + queued)
            seats.fill()
        for name, level in levels.items():
            found = self.levels.get(name)
            if found is None:
                self.levels[name] = LevelSeats(level, self._lendable, self._crowded)
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

    async def acquire(
        self, user: User, info: RequestInfo, request: HTTPRequest | None = None
    ) -> Occupied | None:
        """Occupy seats; raise `TooManyRequests`. A request of an exempt or unknown level needs none."""
        flow = self._classify(user, info)
        seats = self.levels.get(flow.level)
        if seats is None or seats.level.exempt:
            return None
        statistics = seats.schemas.get(flow.schema) or seats.statistics(flow.schema)
        work, width = ONE_SEAT, 1
        if request is not None and info.verb in ESTIMATED_VERBS and self.estimate is not None:
            work = await self.estimate(request, info, seats.level.max_seats)
            if work is not ONE_SEAT:
                width = work.width
                statistics.observe_width(width)
        await seats.acquire(flow.name, statistics, width)
        return Occupied(seats, work, statistics)

    def release(self, occupied: Occupied) -> None:
        """Return the seats of a request: to the next of its level, or of a level that borrows.

        Final seats stay occupied for their time; the response does not wait for that.
        """
        level, work, statistics = occupied
        statistics.executing -= 1
        if work is ONE_SEAT:
            level.release(1)
            return
        width, final = work.width, work.final_seats
        statistics.additional_seats -= width - 1 - final
        if final:
            loop = asyncio.get_running_loop()
            loop.call_later(work.seconds, self._release_final, level, statistics, final)
        if width > final:
            level.release(width - final)

    def _release_final(self, level: LevelSeats, statistics: FlowSchemaStatistics, seats: int) -> None:
        statistics.additional_seats -= seats
        level.release(seats)

    @asynccontextmanager
    async def seat(
        self, user: User, info: RequestInfo, request: HTTPRequest | None = None
    ) -> AsyncIterator[None]:
        """Occupy seats for the duration of a block."""
        seats = await self.acquire(user, info, request)
        try:
            yield
        finally:
            if seats is not None:
                self.release(seats)
