"""Timers: functions that are called periodically per object."""

import asyncio

import pytest

from kubewright.controller import Result, add_timer


def now():
    return asyncio.get_running_loop().time()


async def test_each_object_has_its_own_interval(bench):
    calls = []

    async def check(shop):
        calls.append((shop.metadata.name, round(now())))

    await bench.install(bench.Shop)
    await bench.shop("a")
    add_timer(bench, bench.Shop, check, interval=100)
    async with bench.running():
        start = round(now())
        await asyncio.sleep(30)
        await bench.shop("b")
        await asyncio.sleep(250)
    assert [(name, time - start) for name, time in calls if name == "a"] == [("a", 0), ("a", 100), ("a", 200)]
    assert [(name, time - start) for name, time in calls if name == "b"] == [
        ("b", 30),
        ("b", 130),
        ("b", 230),
    ]


async def test_changes_do_not_trigger_timers_and_deletion_stops_them(bench):
    calls = []

    def check(shop):
        calls.append(shop.spec.size)

    await bench.install(bench.Shop)
    shop = await bench.shop("a", size=1)
    add_timer(bench, bench.Shop, check, interval=100, initial_delay=50)
    async with bench.running():
        await asyncio.sleep(40)
        assert calls == []
        await asyncio.sleep(20)
        shop.spec.size = 2
        await bench.client.update(shop)
        await asyncio.sleep(10)
        assert calls == [1]
        await asyncio.sleep(100)
        assert calls == [1, 2]
        await bench.client.delete(shop)
        await asyncio.sleep(1000)
        assert calls == [1, 2]
        await bench.shop("a", size=3)
        await asyncio.sleep(60)
    assert calls == [1, 2, 3]


async def test_idle_delays_until_the_object_is_unchanged(bench):
    calls = []

    async def check(shop):
        calls.append(round(now()))

    await bench.install(bench.Shop)
    shop = await bench.shop("a")
    add_timer(bench, bench.Shop, check, interval=1000, initial_delay=10, idle=60)
    async with bench.running():
        start = round(now())
        for size in (2, 3):
            await asyncio.sleep(30)
            shop.spec.size = size
            await bench.client.update(shop)
        await asyncio.sleep(100)
    assert [time - start for time in calls] == [120]


@pytest.mark.parametrize(("sharp", "times"), [(True, [0, 100, 200]), (False, [0, 130, 260])])
async def test_sharp_times_do_not_drift(bench, sharp, times):
    calls = []

    async def check(shop):
        calls.append(round(now()))
        await asyncio.sleep(30)

    await bench.install(bench.Shop)
    await bench.shop("a")
    add_timer(bench, bench.Shop, check, interval=100, sharp=sharp)
    async with bench.running():
        start = round(now())
        await asyncio.sleep(290)
    assert [time - start for time in calls] == times


async def test_failed_timer_is_retried_with_backoff_or_requeue_after(bench):
    calls = []

    async def check(shop):
        calls.append(round(now(), 3))
        if len(calls) == 1:
            raise OSError("no")
        return Result(requeue_after=7)

    await bench.install(bench.Shop)
    await bench.shop("a")
    add_timer(bench, bench.Shop, check, interval=100)
    async with bench.running():
        await asyncio.sleep(8)
    first, second, third = calls
    assert (round(second - first, 3), round(third - second, 3)) == (0.005, 7)


async def test_only_for_objects_that_pass(bench):
    calls = []

    async def check(shop):
        calls.append(shop.metadata.name)

    await bench.install(bench.Shop)
    small = await bench.shop("small", size=1)
    await bench.shop("big", size=9)
    add_timer(bench, bench.Shop, check, interval=100, when=lambda shop: shop.spec.size > 5)
    async with bench.running():
        await asyncio.sleep(10)
        assert calls == ["big"]
        small.spec.size = 6
        await bench.client.update(small)
        await asyncio.sleep(10)
    assert calls == ["big", "small"]


async def test_interval_is_required(bench):
    with pytest.raises(ValueError, match="greater than 0"):
        add_timer(bench, bench.Shop, print, interval=0)
