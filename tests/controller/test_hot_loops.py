"""Reconciles that trigger themselves are reported, and slowed down in development."""

import logging

from tests.controller.controller_runs import controller_of, run_until

from kubewright.cache.stores.store import MemoryEntry, ObjectChange, ObjectKey
from kubewright.controller import Result
from kubewright.controller.causes import REQUEUE, SOURCE, Cause
from kubewright.controller.hot_loops import LIMIT, SLOW_SECONDS, WINDOW_SECONDS, HotLoops


async def test_short_requeues_are_reported_once(caplog):
    reconciles = 0

    async def reconcile(request):
        nonlocal reconciles
        reconciles += 1
        return Result(requeue_after=0.001)

    with caplog.at_level(logging.WARNING):
        controller = controller_of(reconcile, "a")
        await run_until(controller, lambda: reconciles >= 10 * LIMIT)

    (record,) = [each for each in caplog.records if each.message == "reconcile triggers itself"]
    assert record.reconciles == LIMIT
    assert record.causes == "requeue"
    assert "requeue_after" in record.hint
    assert controller.metrics.hot_loops == 1


async def test_reported_requests_are_slowed_down_in_development(caplog):
    reconciles = 0

    async def reconcile(request):
        nonlocal reconciles
        reconciles += 1
        return Result(requeue_after=0.001)

    controller = controller_of(reconcile, "a")
    controller.slows_hot_loops = True
    await run_until(controller, lambda: reconciles >= LIMIT + 5, step=0.01)

    assert controller.queue.metrics.waited.count >= LIMIT + 5
    assert reconciles < LIMIT + 5 + 2


def test_a_slowed_request_is_free_again_after_another_cause_or_a_pause():
    time = 0.0
    loops = HotLoops(lambda: time, "test", slows_down=True)
    for _ in range(LIMIT):
        loops.count("a", REQUEUE)
    assert loops.delay("a", REQUEUE) == SLOW_SECONDS
    assert loops.delay("b", REQUEUE) == 0

    time += SLOW_SECONDS
    assert loops.delay("a", REQUEUE) == 0
    assert loops.delay("a", REQUEUE) == SLOW_SECONDS
    time += SLOW_SECONDS + WINDOW_SECONDS
    assert loops.delay("a", REQUEUE) == 0
    assert loops.delay("a", REQUEUE) == 0

    for _ in range(LIMIT):
        loops.count("a", REQUEUE)
    assert loops.delay("a", SOURCE) == 0


def test_changes_of_others_are_not_reported():
    loops = HotLoops(lambda: 0.0, "test")
    assert not any(loops.count("a", SOURCE) for _ in range(10 * LIMIT))


def test_windows_are_counted_separately():
    time = 0.0
    loops = HotLoops(lambda: time, "test")
    for _ in range(10 * LIMIT):
        time += WINDOW_SECONDS / (LIMIT - 2)
        assert loops.count("a", REQUEUE) is None


def written_by(writer):
    entry = MemoryEntry(b"{}", 7, "uid")
    change = ObjectChange(ObjectKey("default", "a"), entry, entry)
    return (Cause("watch", "Job", change, {7: writer}),)


def test_only_writes_of_the_same_controller_and_request_are_own():
    for writer in (None, ("test", "b"), ("other", "a")):
        loops = HotLoops(lambda: 0.0, "test")
        assert not any(loops.count("a", written_by(writer)) for _ in range(10 * LIMIT))
    assert any(loops.count("a", written_by(("test", "a"))) for _ in range(LIMIT))


def test_reconciles_that_follow_changes_of_others_are_progress():
    """A pod changes, the reconcile writes a status, and the event of the write has no effect."""
    loops = HotLoops(lambda: 0.0, "test")
    for _ in range(10 * LIMIT):
        for causes in (SOURCE, written_by(("test", "a"))):
            assert loops.count("a", causes) is None
    assert loops.count("a", REQUEUE) is None, "the first requeue after many changes"


def test_a_loop_is_reported_among_changes_of_others():
    loops = HotLoops(lambda: 0.0, "test")
    own = written_by(("test", "a"))
    assert any(loops.count("a", SOURCE if turn % 5 == 0 else own) for turn in range(2 * LIMIT))
