"""Failed reconciles: retries, backoff, timeouts, cancellation and what is logged."""

import asyncio
import logging
import traceback
from itertools import pairwise
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from tests.controller.controller_runs import controller_of, run_until

from kubewright.api.core.v1 import ConfigMap
from kubewright.api.errors import Conflict
from kubewright.controller import Result, TemporaryError, TerminalError
from kubewright.controller.failures import WorkerStopped


def logged_by_controllers(caplog):
    """Return the records of controllers; others may be about tasks of earlier tests."""
    return [record for record in caplog.records if record.name.startswith("kubewright.controller")]


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
    records = [record for record in logged_by_controllers(caplog) if record.levelno == logging.ERROR]
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


async def test_wrong_return_type_is_an_error(caplog):
    calls = []

    async def reconcile(request):
        calls.append(request)
        return 30

    await run_until(controller_of(reconcile, "a"), lambda: len(calls) == 2)
    assert "must return a Result or None, not int" in logged_by_controllers(caplog)[-1].error


async def test_api_errors_reach_the_reconciler(bench, caplog):
    calls = []

    async def reconcile(request):
        calls.append(request)
        await bench.client.uncached.get(ConfigMap, "nowhere", namespace="default")

    await run_until(controller_of(reconcile, "a"), lambda: len(calls) == 2)
    shown = next(record for record in logged_by_controllers(caplog) if record.exc_info)
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


async def run_with_two_failures(error):
    seen = []

    async def reconcile(request):
        seen.append(request)
        if len(seen) < 3:
            raise error

    await run_until(controller_of(reconcile, "a"), lambda: len(seen) == 3)


async def test_an_error_that_cannot_be_formatted_is_retried(caplog):
    class Unprintable(Exception):
        def __str__(self):
            raise ValueError("no text")

    await run_with_two_failures(Unprintable())
    assert logged_by_controllers(caplog)[1].error == "Unprintable: <str() raised ValueError>"


async def test_a_temporary_error_that_cannot_be_formatted_is_retried(caplog):
    class Unprintable(TemporaryError):
        def __str__(self):
            raise ValueError("no text")

    await run_with_two_failures(Unprintable(delay=0.001))
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
