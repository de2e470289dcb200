"""Why a function of an operator was called."""

from __future__ import annotations

import logging

from kubewright.api import CustomResource, ObjectMeta, Spec, Status, resource
from kubewright.api.core.v1 import ConfigMap
from kubewright.controller import Controller, Request, Result
from kubewright.controller.hot_loops import LIMIT
from kubewright.manager import Context, Manager, Operator
from kubewright.testing.operators import run_operator


class CrateSpec(Spec):
    size: int = 1


class CrateStatus(Status):
    seen: int = 0


@resource(group="causes.example.com", version="v1")
class Crate(CustomResource[CrateSpec, CrateStatus]):
    """A crate."""


def same_name(crate: Crate) -> list[Request]:
    return [Request.of(crate)]


def is_ready(manager: Manager) -> bool:
    return all(each.ready for each in manager.runnables if isinstance(each, Controller))


async def test_the_context_has_the_causes_of_the_call(client, eventually) -> None:
    operator = Operator("crates")
    seen: list[list[str]] = []

    @operator.reconcile(Crate, owns=(ConfigMap,))
    async def reconcile(crate: Crate, ctx: Context[Crate]) -> Result | None:
        seen.append([str(each) for each in ctx.causes])
        await ctx.ensure([ConfigMap(metadata=ObjectMeta(name=crate.name))])
        crate.status.seen = crate.spec.size
        await ctx.update_status()
        return Result(requeue_after=5) if crate.spec.size == 2 else None

    async with run_operator(operator, client) as manager:
        await eventually(lambda: is_ready(manager))
        crate = await client.create(
            Crate(metadata=ObjectMeta(name="a", namespace="default"), spec=CrateSpec())
        )
        await eventually(lambda: len(seen) >= 2)
        crate = await client.get(Crate, "a", namespace="default")
        crate.spec.size = 2
        await client.update(crate)
        await eventually(lambda: ["requeue"] in seen)
    causes = [cause for call in seen for cause in call]
    assert causes[0] == "Crate default/a created"
    assert "ConfigMap default/a created (own write)" in causes
    assert "Crate default/a updated (own write): status.seen" in causes or (
        "Crate default/a updated (own write): status" in causes
    )
    assert "Crate default/a updated: spec.size" in causes


async def test_a_reconcile_that_writes_its_object_each_time_is_reported(client, eventually, caplog) -> None:
    """One controller counts, the other one only sees the writes of the first one."""
    operator = Operator("crates")
    operator.settings.allow = (ConfigMap,)
    observed = 0

    @operator.reconcile(Crate)
    async def count(crate: Crate, ctx: Context[Crate]) -> None:
        crate.status.seen += 1
        await ctx.update_status()

    @operator.reconcile(ConfigMap, watches=[(Crate, same_name)])
    async def observe(found: ConfigMap) -> None:
        nonlocal observed
        observed += 1

    with caplog.at_level(logging.WARNING):
        async with run_operator(operator, client) as manager:
            await eventually(lambda: is_ready(manager))
            await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
            await client.create(Crate(metadata=ObjectMeta(name="a", namespace="default"), spec=CrateSpec()))
            await eventually(lambda: observed > 3 * LIMIT)
    (record,) = [each for each in caplog.records if each.message == "reconcile triggers itself"]
    assert record.causes == "Crate default/a updated (own write): status.seen"


async def test_a_failed_reconcile_logs_its_causes_and_keeps_them_for_the_retry(
    client, eventually, caplog
) -> None:
    operator = Operator("crates")
    seen: list[tuple[str, ...]] = []

    @operator.reconcile(Crate)
    async def reconcile(crate: Crate, ctx: Context[Crate]) -> None:
        seen.append(tuple(map(str, ctx.causes)))
        if len(seen) < 3:
            raise ConnectionError("unreachable")

    with caplog.at_level(logging.ERROR):
        async with run_operator(operator, client) as manager:
            await eventually(lambda: is_ready(manager))
            await client.create(Crate(metadata=ObjectMeta(name="a", namespace="default"), spec=CrateSpec()))
            await eventually(lambda: len(seen) >= 3)
    assert seen == [
        ("Crate default/a created",),
        ("Crate default/a created", "retry"),
        ("Crate default/a created", "retry"),
    ]
    causes = [each.__dict__["causes"] for each in caplog.records if hasattr(each, "causes")]
    assert causes[0] == "Crate default/a created"
