"""The work queue: deduplication, order, locks, delays, shutdown, metrics."""

import asyncio

import pytest
from prometheus_client import REGISTRY

from kubewright.controller.queues.queue import LOW_PRIORITY, QueueShutDown, WorkQueue
from kubewright.controller.queues.queue_metrics import queue_metrics
from kubewright.testing.time import fake_time


async def take_all(queue):
    taken = []
    while len(queue):
        taken.append((await queue.get())[:2])
    return taken


def test_a_key_is_queued_once_and_keeps_its_highest_priority():
    async def scenario():
        queue = WorkQueue()
        queue.add("a", priority=LOW_PRIORITY)
        queue.add("b")
        queue.add("a")
        queue.add("a", priority=LOW_PRIORITY)
        return await take_all(queue)

    assert fake_time(scenario()) == [("b", 0), ("a", 0)]


def test_changes_precede_the_initial_list():
    async def scenario():
        queue = WorkQueue()
        for number in range(1000):
            queue.add(number, priority=LOW_PRIORITY)
        queue.add(999)
        return (await queue.get()).key

    assert fake_time(scenario()) == 999


def test_key_added_while_processing_is_queued_after_done():
    async def scenario():
        queue = WorkQueue()
        queue.add("a")
        await queue.get()
        queue.add("a")
        assert len(queue) == 0
        waiting = asyncio.create_task(queue.get())
        await asyncio.sleep(10)
        assert not waiting.done()
        queue.done("a")
        return (await waiting).key

    assert fake_time(scenario()) == "a"


def test_different_keys_are_processed_concurrently():
    async def scenario():
        queue = WorkQueue()
        getters = [asyncio.create_task(queue.get()) for _ in range(3)]
        await asyncio.sleep(0)
        for key in "abc":
            queue.add(key)
        return sorted(taken.key for taken in await asyncio.gather(*getters))

    assert fake_time(scenario()) == ["a", "b", "c"]


def test_keys_are_ordered_by_ready_time():
    async def scenario():
        queue = WorkQueue()
        queue.add("first", after=5)
        queue.add("second", after=3)
        await asyncio.sleep(4)
        queue.add("third")
        await asyncio.sleep(4)
        return [taken[0] for taken in await take_all(queue)]

    assert fake_time(scenario()) == ["second", "third", "first"]


def test_delays_are_exact():
    async def scenario():
        queue = WorkQueue()
        queue.add("a", after=36_000)
        await queue.get()
        return asyncio.get_running_loop().time()

    assert fake_time(scenario()) == 36_000


def test_earlier_time_takes_precedence():
    async def scenario():
        queue = WorkQueue()
        loop = asyncio.get_running_loop()
        times = {}
        queue.add("a", after=60)
        queue.add("a", after=600)
        queue.add("b", after=60)
        queue.add("b", after=1)
        queue.add("c", after=60, rate_limited=True)
        queue.add("d", after=0.001, rate_limited=True)
        for _ in range(4):
            taken = await queue.get()
            times[taken.key] = loop.time()
        return times

    assert fake_time(scenario()) == {"d": 0.001, "c": 0.005, "b": 1, "a": 60}


def test_forget_resets_the_backoff():
    async def scenario():
        queue = WorkQueue()
        loop = asyncio.get_running_loop()
        delays = []
        for attempt in range(5):
            started = loop.time()
            if attempt == 3:
                queue.forget("a")
            queue.add("a", rate_limited=True)
            queue.done((await queue.get()).key)
            delays.append(round(loop.time() - started, 6))
        return delays

    assert fake_time(scenario()) == [0.005, 0.01, 0.02, 0.005, 0.01]


def test_shut_down_wakes_workers_and_drops_queued_keys():
    async def scenario():
        queue = WorkQueue()
        queue.add("held")
        await queue.get()
        getters = [asyncio.create_task(queue.get()) for _ in range(3)]
        await asyncio.sleep(0)
        queue.add("held")
        queue.add("later", after=5)
        queue.shut_down()
        queue.add("ignored")
        results = await asyncio.gather(*getters, return_exceptions=True)
        queue.done("held")
        with pytest.raises(QueueShutDown):
            await queue.get()
        return [type(result) for result in results], len(queue), queue.waiting

    assert fake_time(scenario()) == ([QueueShutDown] * 3, 0, 0)


def test_drain_processes_ready_and_added_keys():
    async def scenario():
        queue = WorkQueue()
        worked = []

        async def worker():
            while True:
                taken = await queue.get()
                await asyncio.sleep(1)
                worked.append(taken.key)
                queue.done(taken.key)

        for key in "abcd":
            queue.add(key)
        queue.add("later", after=100)
        tasks = [asyncio.create_task(worker()) for _ in range(2)]
        await asyncio.sleep(0.5)
        queue.add("a")
        await queue.drain()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [QueueShutDown] * 2
        await queue.drain()
        return worked

    assert fake_time(scenario()) == ["a", "b", "c", "d", "a"]


@pytest.mark.parametrize(("drain", "worked"), [(True, ["b", "c", "a"]), (False, [])])
def test_shut_down_drains_or_drops_and_does_not_wait(drain, worked):
    async def scenario():
        queue = WorkQueue()
        assert not queue.shutting_down
        for key in "abc":
            queue.add(key)
        assert (await queue.get()).key == "a"
        queue.add("a")
        queue.add("later", after=5)
        queue.shut_down(drain=drain)
        assert queue.shutting_down
        queue.add("ignored")
        found = []
        queue.done("a")
        with pytest.raises(QueueShutDown):
            while True:
                found.append((await queue.get()).key)
                queue.done(found[-1])
        await asyncio.wait_for(queue.drain(), 1)
        return found

    assert fake_time(scenario()) == worked


def test_a_second_shut_down_drops_what_was_to_be_drained():
    async def scenario():
        queue = WorkQueue()
        queue.add("a")
        queue.shut_down(drain=True)
        queue.shut_down()
        with pytest.raises(QueueShutDown):
            await queue.get()
        queue.shut_down(drain=True)
        assert not len(queue)
        with pytest.raises(QueueShutDown):
            await queue.get()

    fake_time(scenario())


def test_cancelled_worker_loses_no_key():
    async def scenario():
        queue = WorkQueue()
        first, second = (asyncio.create_task(queue.get()) for _ in range(2))
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        return (await second).key

    assert fake_time(scenario()) == "a"


def test_obsolete_heap_entries_are_removed():
    async def scenario():
        queue = WorkQueue()
        for _ in range(5000):
            queue.add("a", after=36_000)
            queue.add("a")
            queue.done((await queue.get()).key)
        for _ in range(5000):
            queue.add("busy", priority=10)
            queue.add("a", priority=-1)
            queue.add("a", priority=20)
            queue.done((await queue.get()).key)
        return len(queue._waiting), len(queue._ready)

    waiting, ready = fake_time(scenario())
    assert waiting < 100
    assert ready < 100


def test_metrics_have_client_gos_names():
    async def scenario():
        queue = WorkQueue("metrics-test", metrics=queue_metrics("metrics-test"))
        queue.add("slow", priority=5)
        queue.add("fast")
        queue.add("fast", after=1)
        queue.add("later", after=1)
        await asyncio.sleep(0.5)
        await queue.get()
        await asyncio.sleep(0.25)
        labels = {"name": "metrics-test", "controller": "metrics-test"}

        def value(name, **more):
            return REGISTRY.get_sample_value(f"workqueue_{name}", {**labels, **more})

        running = [value("unfinished_work_seconds"), value("longest_running_processor_seconds")]
        queue.done("slow")
        return {
            "depth": value("depth", priority="0"),
            "depth of the level": value("depth", priority="5"),
            "adds": value("adds_total"),
            "retries": value("retries_total"),
            "waited": value("queue_duration_seconds_sum"),
            "worked": value("work_duration_seconds_sum"),
            "bucket": value("work_duration_seconds_bucket", le="0.1"),
            "higher bucket": value("work_duration_seconds_bucket", le="1"),
            "running": running,
            "idle": value("unfinished_work_seconds"),
        }

    assert fake_time(scenario()) == {
        "depth": 1,
        "depth of the level": 0,
        "adds": 3,
        "retries": 2,
        "waited": 0.5,
        "worked": 0.25,
        "bucket": 0,
        "higher bucket": 1,
        "running": [0.25, 0.25],
        "idle": 0,
    }


def test_low_priorities_age_and_are_not_starved():
    async def scenario():
        queue = WorkQueue("aging")
        queue.add("low", priority=LOW_PRIORITY)
        returned = []
        for number in range(120):
            queue.add(f"change {number}")
            item = await queue.get()
            returned.append(item.key)
            queue.done(item.key)
            await asyncio.sleep(1)
        return returned

    returned = fake_time(scenario())
    assert returned[:5] == [f"change {number}" for number in range(5)]
    assert 99 <= returned.index("low") <= 102


def test_causes_are_merged_and_bounded():
    async def scenario():
        queue = WorkQueue("causes")
        queue.add("a", causes=("first",))
        for number in range(20):
            queue.add("a", causes=(number,))
        assert (await queue.get()).causes == ("first", 0, 1, 2, 3, 4, 5, 19)
        queue.add("a", causes=("while locked",))
        queue.done("a")
        assert (await queue.get()).causes == ("while locked",)

    fake_time(scenario())


def test_very_short_delays_on_uvloop():
    uvloop = pytest.importorskip("uvloop")

    async def scenario():
        queue = WorkQueue()
        for number in range(50):
            queue.add(number, after=1e-6)
        async with asyncio.timeout(120):
            return {(await queue.get()).key for _ in range(50)}

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(scenario()) == set(range(50))


def test_two_queues_with_the_same_name_do_not_share_their_state():
    """Two managers in one process, or one that is started while another stops."""

    async def scenario():
        first = WorkQueue("same-name", metrics=queue_metrics("same-name"))
        first.add("a", priority=-100)
        second = WorkQueue("same-name", metrics=queue_metrics("same-name"))
        second.add("b")
        assert (len(first), len(second)) == (1, 1)
        assert (await first.get()).key == "a"
        second.shut_down()
        first.add("c", priority=5)
        assert (await first.get()).key == "c"
        return len(first), first.metrics.adds

    assert fake_time(scenario()) == (0, 3)
