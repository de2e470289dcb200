"""The reconcile loop, end to end on a control plane."""

import asyncio
import logging
import threading
import traceback
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY

from kubewright.api.core.v1 import ConfigMap
from kubewright.api.errors import Conflict
from kubewright.api.meta import ObjectMeta
from kubewright.controller import (
    LOW_PRIORITY,
    ChannelSource,
    Controller,
    ControllerBuilder,
    Request,
    Result,
    SyncTimeout,
    TemporaryError,
    TerminalError,
    current_reconcile,
)
from kubewright.controller.failures import WorkerStopped
from kubewright.tracing import OpenTelemetrySink


def config_map(name, **data):
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data or None)


async def channel(*items):
    for item in items:
        yield item


async def run_until(controller, condition, step=0.001):
    """Run a controller until a condition holds; check it every `step` seconds of fake time."""
    stop = asyncio.Event()
    task = asyncio.create_task(controller.run(stop))
    async with asyncio.timeout(step * 200_000):
        while not condition() and not task.done():
            await asyncio.sleep(step)
    stop.set()
    await task


def controller_of(reconcile, *items, **options):
    options.setdefault("name", "test")
    controller = Controller(options.pop("name"), reconcile, **options)
    controller.watch(ChannelSource(channel(*items)))
    return controller


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


async def test_failures_are_retried_with_backoff():
    loop = asyncio.get_running_loop()
    times = []

    async def reconcile(request):
        times.append(loop.time())
        if len(times) < 5:
            raise OSError("the disk is full")

    await run_until(controller_of(reconcile, "a"), lambda: len(times) == 5)
    assert [round(b - a, 6) for a, b in pairwise(times)] == [0.005, 0.01, 0.02, 0.04]


async def test_success_resets_the_backoff():
    loop = asyncio.get_running_loop()
    times = []

    async def reconcile(request):
        times.append(loop.time())
        if len(times) in (1, 2, 4):
            raise OSError("no")
        return Result(requeue_after=100)

    await run_until(controller_of(reconcile, "a"), lambda: len(times) == 5)
    assert [round(b - a, 6) for a, b in pairwise(times)] == [0.005, 0.01, 100, 0.005]


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


async def test_terminal_error_is_not_retried(caplog):
    calls = []

    async def reconcile(request):
        calls.append(request)
        raise TerminalError("the spec cannot work")

    controller = controller_of(reconcile, "a", name="terminal")
    before = controller.metrics.outcomes["terminal"]
    await run_until(controller, lambda: asyncio.get_running_loop().time() > 5000, step=10)
    assert calls == ["a"]
    assert controller.metrics.outcomes["terminal"] == before + 1
    assert "not retrying" in caplog.text


async def test_the_traceback_is_logged_once_and_starts_in_the_reconciler(caplog):
    calls = []

    async def reconcile(request):
        calls.append(request)
        raise KeyError("replicas")

    await run_until(controller_of(reconcile, "a", name="loud"), lambda: len(calls) == 4)
    records = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(records) == 4
    assert [record.exc_info is not None for record in records] == [True, False, False, False]
    assert records[0].exc_info[2].tb_frame.f_code.co_name == "reconcile"
    assert len({record.reconcile_id for record in records}) == 4
    assert {record.controller for record in records} == {"loud"}


async def test_programming_error_is_a_panic_and_may_stop_the_controller():
    async def reconcile(request):
        raise TypeError("int + str")

    controller = controller_of(reconcile, "a", name="panics", recover=False)
    with pytest.raises(TypeError, match="int"):
        await run_until(controller, lambda: False)
    assert controller.metrics.outcomes["panic"] == 1
    sample = {"controller": "panics"}
    assert REGISTRY.get_sample_value("controller_runtime_reconcile_panics_total", sample) == 1


async def test_cancelled_call_inside_a_reconcile_is_a_failure():
    calls = []

    async def reconcile(request):
        calls.append(request)
        if len(calls) == 1:
            inside = asyncio.create_task(asyncio.sleep(100))
            asyncio.get_running_loop().call_soon(inside.cancel)
            await inside

    controller = controller_of(reconcile, "a", name="cancels")
    await run_until(controller, lambda: len(calls) == 2)
    assert controller.metrics.outcomes["error"] == 1


async def test_only_the_controllers_own_deadline_counts_as_a_timeout():
    calls = []

    async def reconcile(request):
        calls.append(request)
        if len(calls) == 1:
            raise TimeoutError("of some call inside")
        await asyncio.sleep(3600)

    controller = controller_of(reconcile, "a", name="slow", timeout=30)
    await run_until(controller, lambda: controller.metrics.outcomes["timeout"] >= 1)
    assert controller.metrics.outcomes["error"] == 1
    assert controller.metrics.outcomes["timeout"] == 1


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


async def test_wrong_return_type_is_an_error(caplog):
    calls = []

    async def reconcile(request):
        calls.append(request)
        return 30

    await run_until(controller_of(reconcile, "a"), lambda: len(calls) == 2)
    assert "must return a Result or None, not int" in caplog.records[-1].error


async def test_api_errors_reach_the_reconciler(bench, caplog):
    calls = []

    async def reconcile(request):
        calls.append(request)
        await bench.client.uncached.get(ConfigMap, "nowhere", namespace="default")

    await run_until(controller_of(reconcile, "a"), lambda: len(calls) == 2)
    shown = next(record for record in caplog.records if record.exc_info)
    first, *_, last = traceback.extract_tb(shown.exc_info[2])
    assert (first.filename, first.name) == (__file__, "reconcile")
    assert "kubewright" not in Path(last.filename).relative_to(Path(__file__).parents[2]).parts


async def test_conflict_is_logged_as_one_line_without_error(caplog):
    caplog.set_level(logging.INFO)
    calls = []

    async def reconcile(request):
        calls.append(request)
        raise Conflict("the object has been modified")

    await run_until(controller_of(reconcile, "a"), lambda: len(calls) == 3)
    about = [record for record in caplog.records if "has been modified" in getattr(record, "error", "")]
    assert len(about) == len(calls)
    assert {(record.levelname, record.exc_info) for record in about} == {("INFO", None)}


async def test_workers_finish_current_items_on_stop():
    finished, started = [], []

    async def reconcile(request):
        started.append(request)
        await asyncio.sleep(5)
        finished.append(request)

    await run_until(controller_of(reconcile, *"abcdef", workers=2), lambda: len(started) == 2)
    assert finished == started == ["a", "b"]


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
    assert not (await bench.cache.informer(ConfigMap))._handlers


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


async def test_a_reconcile_that_cancels_its_own_task_fails_alone():
    seen = []

    async def reconcile(request):
        seen.append(request)
        if request == "a" and seen.count("a") < 3:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            task.cancel()
            await asyncio.sleep(0)
        if request == "d":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()  # raised by the next await, which is not in the reconciler

    controller = controller_of(reconcile, "a", "d", "b", "c")
    await run_until(controller, lambda: seen.count("a") == 3 and {"b", "c", "d"} <= set(seen))
    assert controller.failing == {}


async def test_an_error_that_cannot_be_formatted_is_retried(caplog):
    class Unprintable(Exception):
        def __str__(self):
            raise ValueError("no text")

    seen = []

    async def reconcile(request):
        seen.append(request)
        if len(seen) < 3:
            raise Unprintable

    controller = controller_of(reconcile, "a")
    await run_until(controller, lambda: len(seen) == 3)
    assert caplog.records[1].error == "Unprintable: <str() raised ValueError>"


async def test_a_temporary_error_that_cannot_be_formatted_is_retried(caplog):
    class Unprintable(TemporaryError):
        def __str__(self):
            raise ValueError("no text")

    seen = []

    async def reconcile(request):
        seen.append(request)
        if len(seen) < 3:
            raise Unprintable(delay=0.001)

    controller = controller_of(reconcile, "a")
    await run_until(controller, lambda: len(seen) == 3)
    assert "<str() raised ValueError>" in [getattr(record, "error", "") for record in caplog.records]


async def test_worker_check_fails_while_other_workers_are_busy():
    """`run` ends only when all workers do; the check fails as soon as one has ended."""
    release = asyncio.Event()
    started = []

    async def reconcile(request):
        started.append(request)
        await release.wait()

    controller = controller_of(reconcile, "a", "b", name="partly", workers=2)
    running = asyncio.create_task(controller.run(asyncio.Event()))
    while len(started) < 2:
        await asyncio.sleep(0.001)
    controller.check_workers()
    (worker,) = [task for task in asyncio.all_tasks() if task.get_name() == "partly-0"]
    controller._stopping = True
    worker.cancel()
    await asyncio.wait([worker])
    with pytest.raises(WorkerStopped, match="worker partly-0 was cancelled"):
        controller.check_workers()
    assert not running.done()
    release.set()
    with pytest.raises(WorkerStopped):
        await running


async def test_a_worker_that_ends_early_is_an_error():
    async def reconcile(request):
        await asyncio.Event().wait()

    controller = controller_of(reconcile, "a", name="supervised")
    running = asyncio.create_task(controller.run(asyncio.Event()))
    await controller.wait_ready()
    (worker,) = [task for task in asyncio.all_tasks() if task.get_name() == "supervised-0"]
    controller._stopping = True
    worker.cancel()
    with pytest.raises(WorkerStopped, match="worker supervised-0 was cancelled"):
        await running
    assert not controller.ready
