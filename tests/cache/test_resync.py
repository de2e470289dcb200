"""Handlers are called again for every object at least once per resync period, a few objects at a time."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.gvk import GroupVersionKind
from kubewright.cache import Cache, Informer, KindOptions, MemoryEntry, ObjectChange, ObjectKey, Store
from kubewright.cache.informers.resync import BATCH, Resync
from kubewright.client.kind_types import metadata_of
from kubewright.testing import fake_time
from kubewright.testing.server import start_test_server

GVK = GroupVersionKind("", "v1", "ConfigMap")


def entry(revision: int = 1) -> MemoryEntry:
    return MemoryEntry(b'{"metadata":{"name":"a"}}', revision, "u")


class Calls:
    """An event handler that records the times of its calls, and how many there were in a loop turn."""

    def __init__(self) -> None:
        self.times: dict[ObjectKey, list[float]] = defaultdict(list)
        self.turns: Counter[int] = Counter()
        self.turn = 0

    def __call__(self, change: ObjectChange) -> None:
        assert change.old is change.new
        self.times[change.key].append(asyncio.get_running_loop().time())
        self.turns[self.turn] += 1

    def count_turns(self) -> None:
        """Count the turns of the loop in which calls are made."""
        loop = asyncio.get_running_loop()
        run_once: Callable[[], None] = loop._run_once  # type: ignore[attr-defined]

        def counted() -> None:
            self.turn += 1
            run_once()

        loop._run_once = counted  # type: ignore[attr-defined]


edits = st.lists(
    st.tuples(st.floats(0, 5), st.sampled_from(["add", "remove"]), st.integers(0, 3), st.integers(0, 300)),
    max_size=30,
)


@given(
    period=st.sampled_from([0.5, 60.0, 36000.0]),
    size=st.sampled_from([0, 1, BATCH - 1, BATCH, BATCH + 1, 5 * BATCH + 3]),
    edits=edits,
    seed=st.integers(0, 1000),
)
def test_the_time_between_two_calls_for_an_object_is_at_most_the_period(
    period: float, size: int, edits: list[tuple[float, str, int, int]], seed: int
) -> None:
    """Edits are at times in periods; whatever order they leave, no object waits longer than a period."""

    async def scenario() -> None:
        store, calls = Store(), Calls()
        born: dict[ObjectKey, float] = {}
        for number in range(size):
            key = ObjectKey(f"n-{number % 4}", f"o-{number}")
            store.put(key, entry())
            born[key] = 0.0
        loop = asyncio.get_running_loop()
        calls.count_turns()
        resync = Resync(store, calls, period, random.Random(seed))
        resync.start()
        for when, action, namespace, number in sorted(edits):
            await asyncio.sleep(max(0.0, when * period - loop.time()))
            key = ObjectKey(f"n-{namespace}", f"o-{number}")
            if action == "add" and store.get(key) is None:
                store.put(key, entry())
                born[key] = loop.time()
                calls.times.pop(key, None)
            elif action == "remove" and store.pop(key) is not None:
                del born[key]
                calls.times.pop(key, None)
        await asyncio.sleep(6 * period - loop.time())
        resync.stop()
        end = loop.time()
        for key, since in born.items():
            times = [since, *calls.times[key], end]
            gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
            assert max(gaps) <= period * 1.000001, (key, times)
            # Not more often than necessary either.
            assert len(calls.times[key]) <= (end - since) / period / 0.7 + 2
        assert max(calls.turns.values(), default=0) <= BATCH
        before = sum(map(len, calls.times.values()))
        await asyncio.sleep(2 * period)
        assert sum(map(len, calls.times.values())) == before

    fake_time(scenario())


def test_a_hundred_thousand_objects_are_spread_over_a_tenth_of_the_period() -> None:
    async def scenario() -> None:
        store, calls = Store(), Calls()
        for number in range(100_000):
            store.put(ObjectKey("default", f"o-{number}"), entry())
        calls.count_turns()
        resync = Resync(store, calls, 36000.0)
        resync.start()
        await asyncio.sleep(36000.0)
        resync.stop()
        times = sorted(time for each in calls.times.values() for time in each)
        assert len(calls.times) == len(times) == 100_000
        assert 3500 < times[-1] - times[0] < 3600
        assert set(calls.turns.values()) == {BATCH}

    fake_time(scenario())


def test_each_handler_has_its_own_period() -> None:
    async def scenario() -> None:
        informer = Informer(GVK, {}, resync=100.0)
        informer.store.put(ObjectKey("default", "a"), entry())
        heard: dict[str, list[ObjectChange]] = {"default": [], "often": [], "never": []}
        informer.add_handler(heard["default"].append)
        informer.add_handler(heard["often"].append, resync=10)
        informer.add_handler(heard["never"].append, resync=0)
        for each in heard.values():
            each.clear()
        informer.start()
        await asyncio.sleep(100)
        assert (len(heard["default"]), len(heard["never"])) == (1, 0)
        assert 10 <= len(heard["often"]) <= 13
        informer.remove_handler(heard["often"].append)
        heard["often"].clear()
        await asyncio.sleep(100)
        assert (len(heard["default"]), len(heard["often"])) == (2, 0)
        await informer.stop()
        await asyncio.sleep(1000)
        assert len(heard["default"]) == 2

    fake_time(scenario())


def test_caches_resync_by_kind_and_an_upgrade_does_not_delay_it() -> None:
    async def scenario() -> None:
        async with start_test_server("in-process", controllers=False) as server:
            client = server.client()
            await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
            kinds: dict[Any, KindOptions] = {ConfigMap: KindOptions(namespaces=("default",), resync=600)}
            async with Cache(client, kinds=kinds, resync=0) as cache:
                informer = await cache.informer(metadata_of(ConfigMap))
                await informer.wait_for_sync()
                heard: list[float] = []
                start = asyncio.get_running_loop().time()
                informer.add_handler(lambda _: heard.append(asyncio.get_running_loop().time() - start))
                await asyncio.sleep(400)
                assert await cache.informer(ConfigMap) is informer
                await asyncio.sleep(200)
                assert len(heard) == 2
                assert 480 <= heard[1] <= 600

    fake_time(scenario())


@pytest.mark.parametrize("period", [-1, float("inf"), float("nan")])
def test_a_period_that_is_not_a_number_of_seconds_is_an_error(period: float) -> None:
    with pytest.raises(ValueError, match=r"resync=.*: expected a number of seconds, or 0"):
        Informer(GVK, {}, resync=period)
    with pytest.raises(ValueError, match="resync"):
        KindOptions(resync=period)
