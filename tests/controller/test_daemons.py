"""Daemons: a background task per object."""

import asyncio

import pytest

from kubewright.api.errors import NotFound
from kubewright.controller import BuildError, Request, add_daemon


class Life:
    """A daemon that records its start and stop."""

    def __init__(self):
        self.log = []

    async def live(self, shop):
        self.log.append(f"+{shop.metadata.name}{shop.spec.size}")
        try:
            await asyncio.Event().wait()
        finally:
            self.log.append(f"-{shop.metadata.name}{shop.spec.size}")


async def test_daemon_runs_while_its_object_exists(bench):
    life = Life()
    await bench.install(bench.Shop)
    await bench.shop("a")
    daemons = add_daemon(bench, bench.Shop, life.live)
    async with bench.running():
        await bench.settled()
        assert daemons.running == [Request("default", "a")]
        await bench.shop("b")
        await bench.settled()
        await bench.client.delete(bench.Shop, "a", namespace="default")
        await bench.settled()
        assert life.log == ["+a1", "+b1", "-a1"]
    assert life.log == ["+a1", "+b1", "-a1", "-b1"]
    assert daemons.running == []


async def test_recreated_object_gets_a_new_daemon(bench):
    life = Life()
    await bench.install(bench.Shop)
    shop = await bench.shop("a", size=1)
    add_daemon(bench, bench.Shop, life.live)
    async with bench.running():
        await bench.settled()
        shop.spec.size = 5
        await bench.client.update(shop)
        await bench.settled()
        assert life.log == ["+a1"]
        await bench.client.delete(shop)
        await bench.shop("a", size=2)
        await bench.settled()
        assert life.log == ["+a1", "-a1", "+a2"]


async def test_changed_identity_restarts_the_daemon(bench):
    life = Life()
    await bench.install(bench.Shop)
    shop = await bench.shop("a", size=1)
    add_daemon(bench, bench.Shop, life.live, identity=lambda shop: shop.spec.size)
    async with bench.running():
        await bench.settled()
        shop.metadata.labels = {"x": "y"}
        await bench.client.update(shop)
        await bench.settled()
        assert life.log == ["+a1"]
        shop.spec.size = 2
        await bench.client.update(shop)
        await bench.settled()
        assert life.log == ["+a1", "-a1", "+a2"]


async def test_failed_daemon_restarts_with_backoff_and_current_object(bench, caplog):
    starts = []

    async def fragile(shop):
        starts.append((round(asyncio.get_running_loop().time()), shop.spec.size))
        if len(starts) < 4:
            raise OSError("connection lost")

    await bench.install(bench.Shop)
    shop = await bench.shop("a")
    daemons = add_daemon(bench, bench.Shop, fragile)
    async with bench.running():
        await bench.settled()
        shop.spec.size = 7
        await bench.client.update(shop)
        await asyncio.sleep(100)
        # It has returned: its work is done, and a change does not start it again.
        shop.spec.size = 8
        await bench.client.update(shop)
        await bench.settled()
        assert daemons.running == []
    first = starts[0][0]
    assert [(time - first, size) for time, size in starts] == [(0, 1), (1, 7), (3, 7), (7, 7)]
    errors = [record for record in caplog.records if record.getMessage() == "daemon failed, restarting"]
    assert [record.exc_info is not None for record in errors] == [True, False, False]


async def test_finalizer_delays_deletion_until_the_daemon_has_stopped(bench):
    log = []

    async def slow_to_stop(shop, stopped):
        await stopped.wait()
        log.append(stopped.reason)
        await asyncio.sleep(5)
        log.append(
            (await bench.client.uncached.get(bench.Shop, "a", namespace="default")).metadata.finalizers
        )

    await bench.install(bench.Shop)
    await bench.shop("a")
    add_daemon(bench, bench.Shop, slow_to_stop, finalizer="example.com/stream")
    async with bench.running():
        await bench.settled()
        await bench.client.delete(bench.Shop, "a", namespace="default")
        await bench.client.wait(bench.Shop, "a", namespace="default", until=lambda shop: shop is None)
    assert log == ["the object is being deleted", ["example.com/stream"]]
    with pytest.raises(NotFound):
        await bench.client.uncached.get(bench.Shop, "a", namespace="default")


async def test_daemon_that_ignores_stop_is_cancelled(bench):
    log = []

    async def deaf(shop, stopped):
        try:
            await asyncio.sleep(10**6)
        finally:
            log.append(asyncio.get_running_loop().time())

    await bench.install(bench.Shop)
    await bench.shop("a")
    add_daemon(bench, bench.Shop, deaf, stop_timeout=20)
    async with bench.running():
        await bench.settled()
        deleted_at = asyncio.get_running_loop().time()
        await bench.client.delete(bench.Shop, "a", namespace="default")
        await asyncio.sleep(30)
    assert round(log[0] - deleted_at) == 20


async def test_one_daemon_per_object_even_if_it_ignores_cancellation(bench, caplog):
    running, most = [0], [0]

    async def stubborn(shop):
        running[0] += 1
        most[0] = max(most[0], running[0])
        ends = asyncio.get_running_loop().time() + 100
        while asyncio.get_running_loop().time() < ends:
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                pass
        running[0] -= 1

    await bench.install(bench.Shop)
    shop = await bench.shop("a", size=1)
    add_daemon(bench, bench.Shop, stubborn, identity=lambda shop: shop.spec.size, stop_timeout=3)
    async with bench.running():
        await bench.settled()
        shop.spec.size = 2
        await bench.client.update(shop)
        await asyncio.sleep(250)
    assert most[0] == 1
    assert any("still running 3 s after" in getattr(record, "error", "") for record in caplog.records)


def test_sync_daemons_have_a_thread_each(bench_with_real_time):
    async def scenario(bench):
        ticks = []

        def tick(shop, stopped):
            while not stopped.wait_in_thread(0.001):
                ticks.append(shop.metadata.name)

        await bench.install(bench.Shop)
        for number in range(12):
            await bench.shop(f"s{number}")
        daemons = add_daemon(bench, bench.Shop, tick)
        async with bench.running():
            while len(set(ticks)) < 12:
                await asyncio.sleep(0.001)
        assert daemons.running == []

    bench_with_real_time(scenario)


async def test_daemon_without_stop_parameter_is_rejected(bench):
    with pytest.raises(ValueError, match="stop: StopEvent"):
        add_daemon(bench, bench.Shop, lambda shop: None)


async def test_names_are_unique(bench):
    life = Life()
    add_daemon(bench, bench.Shop, life.live)
    with pytest.raises(BuildError, match="live-daemon"):
        add_daemon(bench, bench.Shop, life.live)
