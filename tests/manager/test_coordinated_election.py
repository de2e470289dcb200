"""Coordinated leader election, with a fake coordinator in place of that of kube-apiserver."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from kubewright.api import ObjectMeta
from kubewright.api.builtin.resources import BuiltinResource
from kubewright.api.builtin.types import BuiltinTypes
from kubewright.api.coordination.v1 import Lease, LeaseSpec
from kubewright.api.coordination.v1beta1 import LeaseCandidate
from kubewright.api.errors import from_response
from kubewright.api.values.times import now_micro
from kubewright.cli.operators.run import _configure, run_command
from kubewright.client import Client
from kubewright.client.rest.request import APIRequest, CallNext
from kubewright.manager import CoordinatedLeaderElector, LeadershipLost, Operator
from kubewright.testing.server import start_test_server


def elector(client: Client, identity: str, **options: Any) -> CoordinatedLeaderElector:
    clock = asyncio.get_running_loop().time
    return CoordinatedLeaderElector(
        client, "lock", namespace="default", identity=identity, clock=clock, **options
    )


async def candidate(client: Client, name: str) -> LeaseCandidate:
    return await client.get(LeaseCandidate, name, namespace="default")


@pytest.fixture
async def coordinated(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """A server with the API version v1beta1 of LeaseCandidate and the fields of coordinated Leases."""
    served = BuiltinResource.served_by_default.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(
        BuiltinResource,
        "served_by_default",
        property(lambda row: served(row) or (row.plural, row.gvk.version) == ("leasecandidates", "v1beta1")),
    )
    monkeypatch.setattr(BuiltinTypes, "enabled_definitions", property(lambda types: types.definitions))
    async with start_test_server("in-process", None, controllers=False) as server:
        yield server.client()


async def elect(client: Client, name: str) -> None:
    """Write the Lease as the coordinator does after an election."""
    now = now_micro()
    spec = LeaseSpec(
        holder_identity=name,
        lease_duration_seconds=5,
        acquire_time=now,
        renew_time=now,
        strategy="OldestEmulationVersion",
    )
    await client.create(Lease(metadata=ObjectMeta(name="lock", namespace="default"), spec=spec))


async def prefer(client: Client, name: str) -> None:
    """Write the preferred holder as the coordinator does when a better candidate exists."""
    lease = await client.get(Lease, "lock", namespace="default")
    assert lease.spec is not None
    lease.spec.preferred_holder = name
    await client.update(lease)


async def test_the_coordinator_chooses_the_leader(coordinated: Client, eventually: Any) -> None:
    first, second = elector(coordinated, "one", version="1.5.0"), elector(coordinated, "two")
    waiting = [asyncio.create_task(each.acquire()) for each in (first, second)]
    await eventually(lambda: first._candidate_task and second._candidate_task)
    spec = (await candidate(coordinated, "one")).spec
    assert spec is not None
    assert (spec.lease_name, spec.binary_version, spec.emulation_version, spec.strategy) == (
        "lock",
        "1.5.0",
        "1.5.0",
        "OldestEmulationVersion",
    )
    await asyncio.sleep(60)
    assert not first.is_leader()
    assert not second.is_leader()
    await elect(coordinated, "two")
    await waiting[1]
    assert second.is_leader()
    assert not first.is_leader()
    renewing = asyncio.create_task(second.renew())
    await asyncio.sleep(60)
    assert second.is_leader()
    assert not renewing.done()
    lease = await coordinated.get(Lease, "lock", namespace="default")
    assert lease.spec is not None
    assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == ("two", 15)
    await prefer(coordinated, "one")
    with pytest.raises(
        LeadershipLost, match="the server prefers one as the holder of the lease default/lock"
    ):
        await renewing
    await asyncio.sleep(60)
    assert not waiting[0].done()  # an expired Lease is left to the coordinator
    waiting[0].cancel()
    await first.release()
    await second.release()
    lease = await coordinated.get(Lease, "lock", namespace="default")
    assert lease.spec is not None
    assert not lease.spec.holder_identity


async def test_candidates_are_renewed_when_pinged_and_created_again(
    coordinated: Client, eventually: Any
) -> None:
    mine = elector(coordinated, "one")
    waiting = asyncio.create_task(mine.acquire())
    await eventually(lambda: mine._candidate_task)
    pinged = await candidate(coordinated, "one")
    assert pinged.spec is not None
    assert pinged.spec.renew_time is not None
    before = pinged.spec.renew_time
    pinged.spec.renew_time = before - timedelta(seconds=60)
    pinged.spec.ping_time = before - timedelta(seconds=30)
    await coordinated.update(pinged)

    async def is_renewed() -> bool:
        spec = (await candidate(coordinated, "one")).spec
        return bool(spec and spec.renew_time and spec.renew_time >= before)

    await eventually(is_renewed, timeout=4)
    await coordinated.delete(LeaseCandidate, "one", namespace="default")
    await eventually(lambda: coordinated.get_or_none(LeaseCandidate, "one", namespace="default"), timeout=4)
    version = (await candidate(coordinated, "one")).metadata.resource_version
    await asyncio.sleep(400)
    assert (await candidate(coordinated, "one")).metadata.resource_version != version
    waiting.cancel()
    await mine.release()


async def test_servers_without_candidates_use_ordinary_leader_election(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    mine = elector(client, "one")
    with caplog.at_level(logging.WARNING, "kubewright"):
        await mine.acquire()
    assert mine.is_leader()
    assert not mine.coordinated
    assert [each.getMessage() for each in caplog.records if each.name.startswith("kubewright.")] == [
        "server does not serve LeaseCandidates, using leader election without coordination"
    ]
    await mine.release()


async def test_a_404_without_a_status_means_not_served(coordinated: Client) -> None:
    async def respond(request: APIRequest, call_next: CallNext) -> Any:
        if "leasecandidates" not in request.path:
            return await call_next(request)
        raise from_response(
            404, "404 page not found", verb="get", resource=request.resource, name=request.name
        )

    mine = elector(coordinated.with_interceptor(respond), "one")
    await mine.acquire()
    assert not mine.coordinated
    await mine.release()


def test_permissions_for_lease_candidates() -> None:
    operator = Operator("crates")
    operator.settings.leader_election = operator.settings.leader_election_coordinated = True
    granted = {
        each.resources: each.verbs for each in operator.declarations() if getattr(each, "resources", None)
    }
    assert granted[("leasecandidates",)] == ("create", "get", "list", "update", "watch")


def test_the_flag_enables_leader_election() -> None:
    operator = Operator("crates")
    options: dict[str, Any] = {parameter.name or "": None for parameter in run_command.params}
    _configure(operator, {**options, "leader_elect_coordinated": True})
    assert operator.settings.leader_election
    assert operator.settings.leader_election_coordinated
