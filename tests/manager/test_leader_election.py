"""Leader election, also with different clocks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY

from kubewright.api.coordination.v1 import Lease
from kubewright.client import Client
from kubewright.client.errors import ConnectionFailed
from kubewright.client.rest.request import APIRequest, CallNext
from kubewright.manager import LeaderElector, LeadershipLost


def elector(client: Client, identity: str, clock: Callable[[], float] | None = None, **options: Any) -> Any:
    clock = clock or asyncio.get_running_loop().time
    return LeaderElector(client, "lock", namespace="default", identity=identity, clock=clock, **options)


async def lease(client: Client) -> Lease:
    return await client.get(Lease, "lock", namespace="default")


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_first_candidate_acquires_the_lease(client: Client) -> None:
    mine = elector(client, "one")
    await mine.acquire()
    assert mine.is_leader()
    spec = (await lease(client)).spec
    assert spec is not None
    assert (spec.holder_identity, spec.lease_duration_seconds, spec.lease_transitions) == ("one", 15, 0)
    assert mine.leader == "one"


async def test_a_silent_leader_is_replaced_after_the_lease_duration_and_not_before(client: Client) -> None:
    first, second = elector(client, "one"), elector(client, "two")
    await first.acquire()
    began = now()
    await second.acquire()
    assert 15 <= now() - began <= 15 + 2.4
    assert not first.is_leader()
    spec = (await lease(client)).spec
    assert spec is not None
    assert (spec.holder_identity, spec.lease_transitions) == ("two", 1)
    with pytest.raises(LeadershipLost, match="no longer holds"):
        await first.renew()


async def test_renewing_leader_keeps_the_lease(client: Client) -> None:
    first, second = elector(client, "one"), elector(client, "two")
    await first.acquire()
    keeping = asyncio.create_task(first.renew())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(second.acquire(), 300)
    assert first.is_leader()
    assert second.leader == "one"
    keeping.cancel()


async def test_released_lease_is_acquired_immediately(client: Client) -> None:
    first, second = elector(client, "one"), elector(client, "two")
    await first.acquire()
    await first.release()
    assert not first.is_leader()
    assert (await lease(client)).spec.holder_identity in ("", None)
    began = now()
    await second.acquire()
    assert now() - began < 1


async def test_release_does_not_change_the_lease_of_another_holder(client: Client) -> None:
    first, second = elector(client, "one"), elector(client, "two")
    await first.acquire()
    await second.acquire()
    await first.release()
    assert (await lease(client)).spec.holder_identity == "two"


async def test_without_release_on_stop_the_lease_expires(client: Client) -> None:
    first = elector(client, "one", release_on_stop=False)
    await first.acquire()
    await first.release()
    assert (await lease(client)).spec.holder_identity == "one"


@pytest.mark.parametrize("skew", [-3600.0, 3600.0])
async def test_different_clocks_do_not_cause_two_leaders(client: Client, skew: float) -> None:
    """Candidates ignore the times in the Lease and observe only its changes."""
    first, second = elector(client, "one"), elector(client, "two")
    await first.acquire()
    found = await lease(client)
    assert found.spec is not None
    assert found.spec.renew_time is not None
    found.spec.renew_time = found.spec.renew_time + timedelta(seconds=skew)
    await client.update(found)
    began = now()
    await second.acquire()
    assert now() - began >= 15


async def test_fast_clock_takes_over_in_proportion_to_its_rate(client: Client) -> None:
    """With the default durations, clock rates may differ by up to half without two leaders."""
    loop = asyncio.get_running_loop()
    first = elector(client, "one")
    second = elector(client, "two", clock=lambda: loop.time() * 1.4)
    await first.acquire()
    await second.acquire()
    assert not first.is_leader()


async def test_never_two_leaders_under_network_faults(client: Client) -> None:
    """Requests of the replicas fail or hang at random; the leaders are compared at every step."""
    import random

    rng = random.Random(7)

    async def weather(call: APIRequest, proceed: CallNext) -> Any:
        if rng.random() < 0.4:
            await asyncio.sleep(rng.uniform(0, 20))
        if rng.random() < 0.3:
            raise ConnectionFailed("lost on the way", sent=False)
        response = await proceed(call)
        if rng.random() < 0.2:
            raise ConnectionFailed("the response was lost", sent=True)
        return response

    replicas = [elector(client.with_interceptor(weather), f"r{n}") for n in range(3)]
    terms: list[str] = []

    async def live(replica: Any) -> None:
        while True:
            await replica.acquire()
            terms.append(replica.identity)
            with pytest.raises(LeadershipLost):
                await replica.renew()

    tasks = [asyncio.create_task(live(replica)) for replica in replicas]
    for _ in range(20_000):
        await asyncio.sleep(0.1)
        assert sum(replica.is_leader() for replica in replicas) <= 1
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(set(terms)) == 3


async def test_leader_without_server_stops_before_the_lease_expires(client: Client) -> None:
    away = False

    async def network(call: APIRequest, proceed: CallNext) -> Any:
        if away:
            await asyncio.Event().wait()
        return await proceed(call)

    first = elector(client.with_interceptor(network), "one")
    await first.acquire()
    away, began = True, now()
    with pytest.raises(LeadershipLost):
        await first.renew()
    assert now() - began <= 10
    await first.release()


async def test_lease_acquired_by_a_cancelled_candidate_is_released(client: Client) -> None:
    """The response to the acquiring request is lost, and the process stops."""

    async def network(call: APIRequest, proceed: CallNext) -> Any:
        response = await proceed(call)
        if call.method != "GET" and not released:
            await asyncio.Event().wait()
        return response

    released = False
    mine = elector(client.with_interceptor(network), "one")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(mine.acquire(), 5)
    assert (await lease(client)).spec.holder_identity == "one"
    assert not mine.is_leader()
    released = True
    await mine.release()
    assert (await lease(client)).spec.holder_identity in ("", None)


async def test_invalid_durations_are_rejected(client: Client) -> None:
    with pytest.raises(ValueError, match=r"retry_period x 1.2 < renew_deadline < lease_duration"):
        elector(client, "one", lease_duration=10, renew_deadline=10)
    with pytest.raises(ValueError, match="not 9 < 10 < 15"):
        elector(client, "one", retry_period=9)


async def test_namespace_is_required_outside_of_a_cluster(client, monkeypatch) -> None:
    monkeypatch.delenv("POD_NAMESPACE", raising=False)
    with pytest.raises(ValueError, match=r"set it with --leader-election-namespace .* POD_NAMESPACE"):
        LeaderElector(client, "lock")
    monkeypatch.setenv("POD_NAMESPACE", "ops")
    assert LeaderElector(client, "lock").namespace == "ops"


async def test_leader_metric_and_health_check(client: Client) -> None:
    def status() -> float | None:
        return REGISTRY.get_sample_value("leader_election_master_status", {"name": "lock"})

    mine = elector(client, "one")
    assert status() == 0
    await mine.acquire()
    keeping = asyncio.create_task(mine.renew())
    await asyncio.sleep(1)
    assert status() == 1
    mine.check_health()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert status() == 0
    await asyncio.sleep(16)
    with pytest.raises(LeadershipLost, match="has expired and the process is still running"):
        mine.check_health()
