"""Operators that run for the duration of a test, as docs/testing.md shows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from typing import Annotated

import pytest

from kubewright import (
    Client,
    Condition,
    Context,
    CustomResource,
    FieldError,
    ObjectMeta,
    Operator,
    Result,
    Spec,
    Status,
    resource,
    set_condition,
)
from kubewright.api import ListMap
from kubewright.api.coordination.v1 import Lease
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.errors import Invalid
from kubewright.client import condition
from kubewright.client.rest.request import APIRequest, CallNext
from kubewright.client.transport.interface import APIResponse, ResponseStream
from kubewright.manager import LeaderElector
from kubewright.testing import FakeTimeLoop, fake_time, run_operator, start_test_server
from kubewright.testing.server import ServerKind


class ShopSpec(Spec):
    size: int = 1
    opens_in: int = 0


class ShopStatus(Status):
    conditions: Annotated[list[Condition], ListMap("type")] | None = None


@resource(group="testing.example.com", version="v1")
class Shop(CustomResource[ShopSpec, ShopStatus]):
    """A shop."""


def shop(name: str, **spec: int) -> Shop:
    return Shop(metadata=ObjectMeta(name=name, namespace="default"), spec=ShopSpec(**spec))


def make_operator(calls: list[str]) -> Operator:
    operator = Operator("shops")

    @operator.reconcile(Shop, owns=(ConfigMap,))
    async def reconcile(shop: Shop, ctx: Context[Shop]) -> Result | None:
        if shop.spec.opens_in and not ctx.memory.get("waited"):
            ctx.memory["waited"] = True
            return Result(requeue_after=shop.spec.opens_in)
        await ctx.ensure([ConfigMap(metadata=ObjectMeta(name=shop.name), data={"size": str(shop.spec.size)})])
        shop.status = shop.status or ShopStatus()
        set_condition(shop.status, Condition(type="Ready", status="True", reason="Open"))
        await ctx.update_status()
        return None

    @operator.on_startup
    def begin() -> None:
        calls.append("begun")

    @operator.on_cleanup
    def end() -> None:
        calls.append("ended")

    return operator


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with start_test_server("in-process") as server:
        yield server.client()


async def test_operator_runs_until_the_end_of_the_block(client: Client) -> None:
    calls: list[str] = []
    operator = make_operator(calls)

    @operator.validate(Shop)
    def check(new: Shop, old: Shop | None) -> Iterable[FieldError]:
        if new.spec.size > 10:
            yield FieldError.invalid("spec.size", new.spec.size, "at most 10")

    async with run_operator(operator, client) as manager:
        assert calls == ["begun"]
        assert manager.ready
        made = await client.create(shop("a", size=3))
        await client.wait(made, until=condition("Ready"), timeout=60)
        assert (await client.get(ConfigMap, "a", namespace="default")).data == {"size": "3"}
        with pytest.raises(Invalid, match="at most 10"):
            await client.create(shop("b", size=11))
    assert calls == ["begun", "ended"]
    assert not operator.settings.development
    await client.create(shop("c", size=11))  # the webhook is not registered any more
    async with run_operator(operator, client):
        assert calls == ["begun", "ended", "begun"]


async def test_early_failure_is_raised(client: Client) -> None:
    operator = make_operator([])
    with pytest.raises(OSError, match="probes server cannot listen"):
        async with (
            start_test_server("tls") as other,
            run_operator(operator, client, probe_port=other.plane.port),
        ):
            raise AssertionError("it cannot have started")
    failing = Operator("failing")

    @failing.on_startup
    def fail() -> None:
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there"):
        async with run_operator(failing, client):
            raise AssertionError("it cannot have started")
    assert not failing.settings.development


async def test_error_in_the_block_is_raised(client: Client) -> None:
    with pytest.raises(ZeroDivisionError):
        async with run_operator(make_operator([]), client):
            raise ZeroDivisionError


def test_hour_of_fake_time() -> None:
    async def scenario() -> float:
        async with (
            start_test_server("in-process") as server,
            run_operator(make_operator([]), server.client()),
        ):
            client = server.client()
            made = await client.create(shop("a", opens_in=3600))
            began = asyncio.get_running_loop().time()
            await client.wait(made, until=condition("Ready"), timeout=7200)
            return asyncio.get_running_loop().time() - began

    assert fake_time(scenario()) >= 3600


@pytest.mark.parametrize("kind", ["in-process", "tls"])
def test_an_hour_with_webhooks_and_leader_election_needs_few_jumps(
    kind: ServerKind, caplog: pytest.LogCaptureFixture
) -> None:
    operator = make_operator([])
    validated: list[str] = []

    @operator.validate(Shop)
    def check(new: Shop, old: Shop | None) -> Iterable[FieldError]:
        validated.append(new.name)
        return ()

    async def scenario() -> tuple[float, int]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, FakeTimeLoop)
        async with start_test_server(kind) as server:
            client = server.client()
            async with run_operator(
                operator, client, leader_election=True, leader_election_namespace="default"
            ):
                created = await client.create(shop("a", opens_in=3600))
                started, jumps = loop.time(), loop.jumps
                await client.wait(created, until=condition("Ready"), timeout=7200)
                await client.create(shop("b"))
                return loop.time() - started, loop.jumps - jumps

    seconds, jumps = fake_time(scenario())
    assert seconds >= 3600
    # 1,800 renewals of the lease, 720 checks of the storage, 3 bookmarks a minute.
    assert jumps < 4000
    assert "b" in validated
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [each.getMessage() for each in warnings if each.name.startswith("kubewright.")] == []


async def test_a_renewal_of_the_lease_is_one_request(client: Client) -> None:
    requests: list[str] = []

    async def record(call: APIRequest, proceed: CallNext) -> APIResponse | ResponseStream:
        requests.append(call.verb)
        return await proceed(call)

    now = [0.0]
    elector = LeaderElector(
        client.with_interceptor(record), "lock", namespace="default", identity="one", clock=lambda: now[0]
    )
    await elector.acquire()
    assert requests == ["get", "create"]
    requests.clear()
    assert await elector._try()
    assert requests == ["patch"]
    lease = await client.get(Lease, "lock", namespace="default")
    assert lease.spec is not None
    lease.spec.holder_identity = "two"
    await client.update(lease)
    requests.clear()
    assert not await elector._try()
    assert requests == ["patch", "get"]
