"""The reconcile loop, end to end on a control plane."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY
from tests.controller.controller_runs import config_map, controller_of, run_until

from kubewright.api.core.v1 import ConfigMap
from kubewright.controller import (
    ChannelSource,
    Controller,
    ControllerBuilder,
    Request,
    Result,
    current_reconcile,
)
from kubewright.tracing import OpenTelemetrySink


async def test_existing_objects_and_changes_are_reconciled(bench):
    seen = []

    async def reconcile(request: Request) -> None:
        seen.append(request.name)

    for name in "ab":
        await bench.client.create(config_map(name))
    ControllerBuilder(bench).for_(ConfigMap).complete(reconcile)
    async with bench.running():
        await bench.settled()
        assert sorted(name for name in seen if name in "ab") == ["a", "b"]
        seen.clear()
        await bench.client.create(config_map("c"))
        await bench.settled()
        assert seen == ["c"]


async def test_own_writes_are_visible_immediately(bench):
    versions = []

    async def reconcile(obj: ConfigMap) -> None:
        if obj.metadata.name != "a":
            return
        count = int((obj.data or {}).get("count", "0"))
        versions.append(count)
        if count < 5:
            obj.data = {"count": str(count + 1)}
            await bench.client.update(obj)
            again = await bench.client.get(ConfigMap, "a", namespace="default")
            assert again.data == {"count": str(count + 1)}

    await bench.client.create(config_map("a", count="0"))
    bench.writes.clear()
    ControllerBuilder(bench).for_(ConfigMap).complete(reconcile)
    async with bench.running():
        await bench.settled()
    assert versions == [0, 1, 2, 3, 4, 5]
    assert bench.writes == ["patch configmaps"] * 5


async def test_requeue_after_keeps_or_sets_the_priority():
    calls = []

    async def reconcile(request):
        calls.append(request)
        return Result(requeue_after=10, priority=7) if len(calls) == 1 else Result(requeue_after=10)

    controller = controller_of(reconcile, "a")
    priorities = []

    def enough():
        queue = controller.queue
        if queue is not None and "a" in queue and len(calls) > len(priorities):
            priorities.append(queue._items["a"].priority)
        return len(priorities) == 3

    await run_until(controller, enough)
    assert priorities == [7, 7, 7]


async def test_sync_function_runs_in_a_thread_with_the_context():
    seen = []

    def reconcile(request):
        seen.append(
            (threading.current_thread() is threading.main_thread(), current_reconcile.get().controller)
        )

    await run_until(controller_of(reconcile, "a", name="threaded"), lambda: seen)
    assert seen == [(False, "threaded")]


def test_a_key_stays_locked_until_its_thread_has_ended():
    running, most = [0], [0]
    release = threading.Event()

    def reconcile(request):
        running[0] += 1
        most[0] = max(most[0], running[0])
        release.wait(0.05)
        running[0] -= 1

    async def scenario():
        controller = controller_of(reconcile, "a", name="stuck", timeout=0.001, workers=3)
        await run_until(controller, lambda: controller.metrics.outcomes["timeout"] >= 2)

    asyncio.run(scenario())  # real time: fake time does not advance while a thread runs
    assert most[0] == 1


async def test_one_key_is_never_processed_concurrently():
    active, overlaps, done = set(), [], []

    async def reconcile(request):
        if request in active:
            overlaps.append(request)
        active.add(request)
        await asyncio.sleep(1)
        active.discard(request)
        done.append(request)

    async def items():
        for _ in range(20):
            for key in "abc":
                yield key
            await asyncio.sleep(0.3)

    controller = Controller("overlap", reconcile, workers=10)
    controller.watch(ChannelSource(items()))
    await run_until(controller, lambda: asyncio.get_running_loop().time() > 10)
    assert not overlaps
    assert len(done) > 9


async def test_workers_finish_current_items_on_stop():
    finished, started = [], []

    async def reconcile(request):
        started.append(request)
        await asyncio.sleep(5)
        finished.append(request)

    await run_until(controller_of(reconcile, *"abcdef", workers=2), lambda: len(started) == 2)
    assert finished == started == ["a", "b"]


async def test_busy_controller_yields_to_the_loop():
    turns, reconciles = [0], [0]

    async def reconcile(request):
        reconciles[0] += 1

    async def other():
        while reconciles[0] < 1000:
            turns[0] += 1
            await asyncio.sleep(0)

    controller = Controller("busy", reconcile)
    await controller.warm_up()
    for number in range(1000):
        controller.queue.add(number)
    task = asyncio.create_task(other())
    await run_until(controller, lambda: reconciles[0] == 1000)
    await task
    assert turns[0] > 20


async def test_metrics_exist_from_the_start():
    Controller("fresh", lambda request: None, workers=3)
    value = REGISTRY.get_sample_value
    for result in ("success", "error", "requeue", "requeue_after"):
        labels = {"controller": "fresh", "result": result}
        assert value("controller_runtime_reconcile_total", labels) == 0
    labels = {"controller": "fresh"}
    for name in ("reconcile_errors", "terminal_reconcile_errors", "reconcile_panics", "reconcile_timeouts"):
        assert value(f"controller_runtime_{name}_total", labels) == 0
    assert value("controller_runtime_reconcile_time_seconds_count", labels) == 0
    assert value("controller_runtime_max_concurrent_reconciles", labels) == 3
    assert value("controller_runtime_active_workers", labels) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [({"workers": 0}, "at least 1"), ({"timeout": 0}, "greater than 0"), ({"name": ""}, "requires a name")],
)
def test_invalid_options(options, message):
    with pytest.raises(ValueError, match=message):
        Controller(**{"name": "x", "reconcile": lambda request: None, **options})


async def test_a_span_per_reconcile(monkeypatch):
    trace = pytest.importorskip("opentelemetry.trace")
    spans = []

    class Tracer(trace.NoOpTracer):
        def start_as_current_span(self, name, **options):
            spans.append((name, options["attributes"]["kubewright.request"]))
            return super().start_as_current_span(name, **options)

    monkeypatch.setattr(trace, "get_tracer", lambda scope: Tracer())

    async def reconcile(request):
        pass

    await run_until(controller_of(reconcile, "a", name="traced", sinks=(OpenTelemetrySink(),)), lambda: spans)
    assert spans == [("reconcile traced", "a")]


@pytest.mark.parametrize("after", ["30", None, True])
def test_invalid_delay_fails_in_the_constructor(after: Any) -> None:
    with pytest.raises(TypeError, match="expected seconds or a timedelta"):
        Result(requeue_after=after)


@pytest.mark.parametrize("after", [-1, -0.001, timedelta(seconds=-1)])
def test_negative_delay_is_an_error(after: Any) -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        Result(requeue_after=after)
