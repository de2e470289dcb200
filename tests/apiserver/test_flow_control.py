"""Seats and queues of priority levels."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from kubewright.api.errors import TooManyRequests
from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.http.messages import HTTPRequest
from kubewright.apiserver.http.request_info import RequestInfo
from kubewright.apiserver.priority import flow_control
from kubewright.apiserver.priority.flow_control import EXEMPT, Flow, FlowControl, Occupied, PriorityLevel
from kubewright.apiserver.priority.work_estimate import WorkEstimate

INFO = RequestInfo("get", "/")


def control(**levels: PriorityLevel) -> FlowControl:
    """User names are `level/flow`."""
    return FlowControl(levels, lambda user, info: Flow(*user.name.split("/")))


async def test_flows_get_seats_in_turn() -> None:
    control_ = control(batch=PriorityLevel(seats=1, queue_length=10))
    order: list[str] = []
    released = asyncio.Event()

    async def request(name: str, *, hold: bool = False) -> None:
        async with control_.seat(User(f"batch/{name}"), INFO):
            order.append(name)
            if hold:
                await released.wait()

    first = asyncio.create_task(request("ada", hold=True))
    await asyncio.sleep(0)
    others = [asyncio.create_task(request(name)) for name in ("ada", "ada", "ada", "bob", "eve")]
    await asyncio.sleep(0)
    assert order == ["ada"]
    released.set()
    await asyncio.gather(first, *others)
    assert order == ["ada", "ada", "bob", "eve", "ada", "ada"]
    assert control_.occupied("batch") == 0


async def test_full_queues_and_timeouts_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_control, "QUEUE_TIMEOUT", 0.01)
    control_ = control(
        batch=PriorityLevel(seats=2, queue_length=1), now=PriorityLevel(seats=1, queue_length=0)
    )

    async def request(name: str) -> None:
        async with control_.seat(User(name), INFO):
            pass

    async with AsyncExitStack() as held:
        for name in ("batch/ada", "batch/ada", "now/ada"):
            await held.enter_async_context(control_.seat(User(name), INFO))
        with pytest.raises(TooManyRequests) as error:
            await request("now/bob")
        assert error.value.headers["Retry-After"] == "1"
        waiting = asyncio.create_task(request("batch/bob"))
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests):
            await request("batch/bob")  # the queue of this flow is full
        with pytest.raises(TooManyRequests):
            await waiting  # after the timeout
        cancelled = asyncio.create_task(request("batch/bob"))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        assert control_.occupied("batch") == 2
    await request("batch/bob")
    assert control_.occupied("batch") == 0


async def test_levels_can_change_while_requests_wait() -> None:
    control_ = control(batch=PriorityLevel(seats=1), other=EXEMPT)
    async with control_.seat(User("batch/ada"), INFO):
        seat = control_.seat(User("batch/bob"), INFO)
        waiting = asyncio.create_task(seat.__aenter__())
        await asyncio.sleep(0)
        async with control_.seat(User("other/bob"), INFO), control_.seat(User("unknown/bob"), INFO):
            assert not waiting.done()
        control_.set_levels({"batch": PriorityLevel(seats=2)})
        await waiting
        assert control_.occupied("batch") == 2
        await seat.__aexit__(None, None, None)
        waiting = asyncio.create_task(control_.seat(User("batch/bob"), INFO).__aenter__())
        await asyncio.sleep(0)
        control_.set_levels({})
        await waiting


async def occupy(control_: FlowControl, user: str, work: WorkEstimate) -> Occupied:
    """Occupy the seats of an estimate."""

    async def estimate(request: HTTPRequest, info: RequestInfo, max_seats: int) -> WorkEstimate:
        return work

    control_.estimate = estimate
    occupied = await control_.acquire(User(user), RequestInfo("list", "/"), HTTPRequest("GET", "/"))
    assert occupied is not None
    return occupied


async def test_wide_requests_wait_until_all_of_their_seats_are_free() -> None:
    control_ = control(batch=PriorityLevel(seats=3, queue_length=10))
    one, wide = WorkEstimate(), WorkEstimate(3)
    first = [await occupy(control_, "batch/ada", one) for _ in range(2)]
    waiting = asyncio.create_task(occupy(control_, "batch/bob", wide))
    await asyncio.sleep(0)
    later = asyncio.create_task(occupy(control_, "batch/eve", one))
    await asyncio.sleep(0)
    control_.release(first[0])
    await asyncio.sleep(0)
    assert not waiting.done()
    assert not later.done(), "a narrow request does not overtake"
    control_.release(first[1])
    occupied = await waiting
    assert control_.occupied("batch") == 3
    control_.release(occupied)
    control_.release(await later)
    # A request for more seats than there are is processed alone.
    occupied = await occupy(control_, "batch/ada", WorkEstimate(5))
    assert control_.occupied("batch") == 5
    control_.release(occupied)
    assert control_.occupied("batch") == 0


async def test_flows_with_wide_requests_get_fewer_turns() -> None:
    control_ = control(batch=PriorityLevel(seats=4, queue_length=10))
    order: list[str] = []

    async def request(name: str, width: int) -> None:
        occupied = await occupy(control_, f"batch/{name}", WorkEstimate(width))
        order.append(name)
        await asyncio.sleep(0)
        control_.release(occupied)

    first = await occupy(control_, "batch/x", WorkEstimate(4))
    tasks = [asyncio.create_task(request("wide", 4)) for _ in range(3)]
    tasks += [asyncio.create_task(request("narrow", 1)) for _ in range(6)]
    await asyncio.sleep(0)
    control_.release(first)
    await asyncio.gather(*tasks)
    assert order == ["wide", *["narrow"] * 4, "wide", *["narrow"] * 2, "wide"]


async def test_a_cancelled_wide_request_does_not_delay_others() -> None:
    control_ = control(batch=PriorityLevel(seats=2, queue_length=10))
    first = await occupy(control_, "batch/ada", WorkEstimate())
    wide = asyncio.create_task(occupy(control_, "batch/bob", WorkEstimate(2)))
    await asyncio.sleep(0)
    narrow = asyncio.create_task(occupy(control_, "batch/eve", WorkEstimate()))
    await asyncio.sleep(0)
    wide.cancel()
    await asyncio.gather(wide, return_exceptions=True)
    control_.release(await narrow)
    control_.release(first)
    assert control_.occupied("batch") == 0


async def test_seats_of_watchers_are_occupied_after_the_response() -> None:
    control_ = control(batch=PriorityLevel(seats=5, queue_length=10))
    occupied = await occupy(control_, "batch/ada", WorkEstimate(1, 3, 0.01))
    level = control_.levels["batch"]
    assert (level.executing, level.occupied) == (1, 3)
    control_.release(occupied)
    assert (level.executing, level.occupied) == (0, 3)
    waiting = asyncio.create_task(occupy(control_, "batch/bob", WorkEstimate(5)))
    control_.release(await waiting)
    assert (level.executing, level.occupied) == (0, 0)


async def test_levels_borrow_free_seats() -> None:
    control_ = control(
        busy=PriorityLevel(seats=1, queue_length=10, borrowable=2),
        quiet=PriorityLevel(seats=3, queue_length=10, lendable=2),
    )
    async with AsyncExitStack() as held:
        for _ in range(3):
            await held.enter_async_context(control_.seat(User("busy/ada"), INFO))
        assert control_.levels["busy"].borrowed == 2
        waiting = asyncio.create_task(control_.seat(User("busy/ada"), INFO).__aenter__())
        await asyncio.sleep(0)
        assert not waiting.done(), "nothing is left to borrow"
        # The lender has all of its seats when it needs them.
        for _ in range(3):
            await held.enter_async_context(control_.seat(User("quiet/bob"), INFO))
        assert control_.occupied("quiet") == 3
    await waiting
    assert control_.occupied("quiet") == 0


async def test_a_returned_seat_of_a_lender_goes_to_a_borrower() -> None:
    control_ = control(
        busy=PriorityLevel(seats=0, queue_length=10, borrowable=None),
        quiet=PriorityLevel(seats=1, queue_length=10, lendable=1),
    )
    async with control_.seat(User("quiet/bob"), INFO):
        waiting = asyncio.create_task(control_.seat(User("busy/ada"), INFO).__aenter__())
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting
    assert control_.occupied("busy") == 1


async def test_statistics_of_a_flow_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_control, "QUEUE_TIMEOUT", 0.01)
    control_ = control(batch=PriorityLevel(seats=4, queue_length=1))
    first = await occupy(control_, "batch/ada", WorkEstimate(3))
    level = control_.levels["batch"]
    (statistics,) = level.schemas.values()
    second = await occupy(control_, "batch/ada", WorkEstimate(1))
    with pytest.raises(TooManyRequests):
        await occupy(control_, "batch/bob", WorkEstimate(2))  # after the timeout
    monkeypatch.setattr(flow_control, "QUEUE_TIMEOUT", 600)
    cancelled = asyncio.create_task(occupy(control_, "batch/bob", WorkEstimate(2)))
    await asyncio.sleep(0)
    with pytest.raises(TooManyRequests):
        await occupy(control_, "batch/bob", WorkEstimate(2))  # the queue is full
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    waiting = asyncio.create_task(occupy(control_, "batch/eve", WorkEstimate(2)))
    await asyncio.sleep(0)
    assert (level.occupied, statistics.occupied, statistics.executing) == (4, 4, 2)
    control_.release(first)
    third = await waiting
    assert (level.occupied, statistics.occupied, statistics.executing) == (3, 3, 2)
    assert (statistics.dispatched, statistics.dequeued, statistics.abandoned) == (3, 1, 1)
    assert statistics.rejected == {"time-out": 1, "queue-full": 1}
    assert statistics.not_accommodated == 3
    seats = dict(statistics.estimated_seats(0).collect()[0])
    assert (seats["1"], seats["2"], seats["4"], seats["+Inf"]) == (1, 5, 6, 6)
    waits = dict(statistics.waits(dispatched=True).collect()[0])
    assert (waits["0"] >= 2, waits["+Inf"]) == (True, 3)
    waits = dict(statistics.waits(dispatched=False).collect()[0])
    assert (waits["0"] >= 1, waits["+Inf"]) == (True, 3)
    assert statistics.queue_lengths().count == 5
    for occupied in (second, third):
        control_.release(occupied)
    assert (level.occupied, statistics.occupied, statistics.executing) == (0, 0, 0)


async def test_the_current_limit_has_the_seats_that_can_be_borrowed() -> None:
    control_ = control(
        busy=PriorityLevel(seats=2, queue_length=10, borrowable=3),
        quiet=PriorityLevel(seats=6, queue_length=10, lendable=4),
        strict=PriorityLevel(seats=1, queue_length=10),
    )
    levels = control_.levels
    assert [each.limit for each in levels.values()] == [5, 6, 1]
    held = [await control_.acquire(User("busy/ada"), INFO) for _ in range(4)]
    assert [each.limit for each in levels.values()] == [5, 6, 1]
    held += [await control_.acquire(User("quiet/ada"), INFO) for _ in range(4)]
    assert [each.limit for each in levels.values()] == [4, 6, 1], "nothing is left to borrow"
    for each in held:
        assert each is not None
        control_.release(each)


async def test_own_seats_are_not_borrowed() -> None:
    control_ = control(
        wide=PriorityLevel(seats=3, queue_length=10, lendable=3, borrowable=None),
        other=PriorityLevel(seats=1, queue_length=10, lendable=1),
    )
    first = await occupy(control_, "wide/ada", WorkEstimate(2))
    second = asyncio.create_task(occupy(control_, "wide/ada", WorkEstimate(3)))
    await asyncio.sleep(0)
    assert not second.done(), "one own and one borrowed seat are free"
    control_.release(first)
    control_.release(await second)


async def test_a_returned_borrowed_seat_goes_to_another_borrower() -> None:
    control_ = control(
        first=PriorityLevel(seats=0, queue_length=10, borrowable=None),
        second=PriorityLevel(seats=0, queue_length=10, borrowable=None),
        quiet=PriorityLevel(seats=1, queue_length=10, lendable=1),
    )
    async with control_.seat(User("first/ada"), INFO):
        waiting = asyncio.create_task(control_.seat(User("second/bob"), INFO).__aenter__())
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting
    assert (control_.occupied("first"), control_.occupied("second")) == (0, 1)
