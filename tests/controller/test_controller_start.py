"""The start of a controller: its sources, their order and priorities, warm-up."""

import asyncio

import pytest
from tests.controller.controller_runs import channel, config_map, controller_of, run_until

from kubewright.api.core.v1 import ConfigMap
from kubewright.controller import (
    LOW_PRIORITY,
    ChannelSource,
    Controller,
    ControllerBuilder,
    Request,
    SyncTimeout,
)


async def test_a_second_start_is_an_error():
    async def reconcile(request):
        pass

    controller = controller_of(reconcile, "a")
    await run_until(controller, lambda: controller.ready)
    with pytest.raises(RuntimeError, match="already been started"):
        await controller.run(asyncio.Event())


async def test_source_added_later_starts_immediately():
    seen = []

    async def reconcile(request):
        seen.append(request)

    controller = controller_of(reconcile, "a")

    def late():
        if seen == ["a"] and len(controller._sources) == 1:
            controller.watch(ChannelSource(channel("b")))
        return "b" in seen

    await run_until(controller, late)
    assert seen == ["a", "b"]


class Slow:
    """A source with a slow start."""

    name, last_error = "Slow", None

    def __init__(self, seconds, log):
        self.seconds, self.log = seconds, log

    async def start(self, queue):
        self.log.append("start")
        await asyncio.sleep(self.seconds)
        self.log.append("synced")
        queue.add("a")

    async def stop(self):
        self.log.append("stop")


async def test_sources_start_concurrently_and_before_workers():
    log = []

    async def reconcile(request):
        log.append("reconcile")

    controller = Controller("order", reconcile)
    for seconds in (30, 60):
        controller.watch(Slow(seconds, log))
    await run_until(controller, lambda: "reconcile" in log)
    assert log == ["start", "start", "synced", "synced", "reconcile", "stop", "stop"]
    assert asyncio.get_running_loop().time() < 61


async def test_unsynced_source_is_named():
    controller = Controller("late", lambda request: None)
    controller.watch(Slow(10**9, []))
    with pytest.raises(SyncTimeout, match="'late': Slow did not sync within 120 s"):
        await controller.run(asyncio.Event())


async def test_stopping_while_sources_start():
    log = []
    controller = Controller("early", lambda request: None)
    controller.watch(Slow(100, log))
    stop = asyncio.Event()
    task = asyncio.create_task(controller.run(stop))
    await asyncio.sleep(1)
    stop.set()
    await task
    assert log == ["start", "stop"]


async def test_warm_up_fills_the_queue_before_workers_start(bench):
    seen = []

    async def reconcile(request: Request) -> None:
        seen.append(request.name)

    await bench.client.create(config_map("a"))
    controller = ControllerBuilder(bench).for_(ConfigMap).with_options(warm_up=True).complete(reconcile)
    assert controller.needs_warm_up
    await controller.warm_up()
    assert Request("default", "a") in controller.queue
    assert seen == []
    async with bench.running():
        await bench.settled()
    assert "a" in seen


async def test_a_warm_up_can_be_undone(bench):
    controller = ControllerBuilder(bench).for_(ConfigMap).complete(lambda request: None)
    await controller.warm_up()
    await controller.stop_warm_up()
    await bench.client.create(config_map("later"))
    assert len(controller.queue) == controller.queue.waiting == 0
    assert not (await bench.cache.informer(ConfigMap))._handlers._handlers


async def test_the_initial_list_and_resyncs_have_low_priority(bench):
    await bench.client.create(config_map("old"))
    controller = ControllerBuilder(bench).for_(ConfigMap).complete(lambda request: None)
    await controller.warm_up()
    queue = controller.queue

    def priority(name):
        return queue._items[Request("default", name)].priority

    assert priority("old") == LOW_PRIORITY
    await bench.client.create(config_map("new"))
    assert priority("new") == 0
    queue._items.clear()
    (await bench.cache.informer(ConfigMap)).resync()
    assert priority("new") == LOW_PRIORITY
    changed = await bench.client.get(ConfigMap, "new", namespace="default")
    changed.data = {"a": "1"}
    await bench.client.update(changed)
    assert priority("new") == 0
