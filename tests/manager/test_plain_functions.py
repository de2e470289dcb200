"""Synchronous functions use a blocking context and client; async functions must await their calls."""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated, Any

import pytest

from kubewright.api import Condition, CustomResource, ListMap, ObjectMeta, Spec, Status, resource
from kubewright.api.core.v1 import ConfigMap, Event
from kubewright.client import Client
from kubewright.client.sync.sync_client import SyncClient
from kubewright.controller import Result, StopEvent
from kubewright.manager import Context, InjectionError, Operator, SyncContext
from kubewright.testing.operators import run_operator


class JarSpec(Spec):
    size: int = 1


class JarStatus(Status):
    seen: int = 0
    conditions: Annotated[list[Condition], ListMap("type")] | None = None


@resource(group="plain.example.com", version="v1")
class Jar(CustomResource[JarSpec, JarStatus]):
    """A jar."""


def settings_of(jar: Jar) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=jar.name), data={"size": str(jar.spec.size)})


async def create_jar(client: Client, name: str = "a") -> Jar:
    return await client.create(Jar(metadata=ObjectMeta(name=name, namespace="default"), spec=JarSpec(size=3)))


@pytest.fixture
def operator() -> Operator:
    return Operator("jars")


@pytest.mark.parametrize("annotation", [SyncContext, Context])
async def test_the_context_of_a_plain_function_blocks(operator, client, eventually, annotation) -> None:
    results: list[Any] = []

    def reconcile(jar: Jar, ctx: Any, reader: SyncClient) -> Result | None:
        results.append(ctx.ensure([settings_of(jar)]))
        results.append(ctx.client.get(ConfigMap, jar.name, namespace=jar.namespace).data)
        results.append(ctx.client.uncached.get(ConfigMap, jar.name, namespace=jar.namespace).data)
        results.append(len(reader.list(Jar, namespace=jar.namespace)))
        jar.status.seen = jar.spec.size
        ctx.update_status()
        return None

    reconcile.__annotations__["ctx"] = annotation
    operator.reconcile(Jar, owns=(ConfigMap,))(reconcile)
    async with run_operator(operator, client):
        jar = await create_jar(client)
        await client.wait(jar, until=lambda jar: jar.status.seen == 3, timeout=30)
    assert results[0].applied == ["ConfigMap default/a"]
    assert results[1:4] == [{"size": "3"}, {"size": "3"}, 1]


async def test_startup_functions_finalizers_timers_and_daemons_block_as_well(
    operator, client, eventually
) -> None:
    calls: list[str] = []

    @operator.on_startup
    def count(reader: SyncClient) -> None:
        calls.append(f"startup {len(reader.list(ConfigMap, namespace='default'))}")

    @operator.finalize(Jar)
    def clean_up(jar: Jar, ctx: SyncContext[Jar]) -> None:
        calls.append(f"finalize {ctx.client.uncached.get(Jar, jar.name, namespace='default').name}")

    @operator.timer(Jar, interval=60)
    def tick(jar: Jar, ctx: SyncContext[Jar]) -> None:
        calls.append(f"timer {ctx.client.get(Jar, jar.name, namespace='default').name}")

    @operator.daemon(Jar)
    def watch(jar: Jar, ctx: SyncContext[Jar], stop: StopEvent) -> None:
        calls.append(f"daemon {ctx.client.get(Jar, jar.name, namespace='default').name}")

    async with run_operator(operator, client):
        await create_jar(client)
        await eventually(lambda: {"timer a", "daemon a"} <= set(calls))
        await eventually(lambda: _has_finalizer(client))
        await client.delete(Jar, "a", namespace="default")
        await eventually(lambda: "finalize a" in calls)
    assert calls[0] == "startup 0"


async def _has_finalizer(client: Client) -> bool:
    return bool((await client.get(Jar, "a", namespace="default")).metadata.finalizers)


def _errors_by_controller(caplog: pytest.LogCaptureFixture) -> dict[str, str]:
    """Return the last error of each controller; other libraries may log errors, too."""
    return {
        each.__dict__["controller"]: each.__dict__["error"]
        for each in caplog.records
        if each.levelno >= logging.ERROR and hasattr(each, "controller")
    }


async def test_an_unawaited_call_fails_the_reconcile_and_names_the_line(
    operator, client, eventually, caplog
) -> None:
    @operator.reconcile(Jar)
    async def forgetful(jar: Jar, ctx: Context[Jar]) -> None:
        jar.status.seen = 1
        ctx.update_status()  # type: ignore[unused-coroutine]

    @operator.reconcile(Jar, name="second")
    async def reading(jar: Jar, reader: Client) -> None:
        found = reader.get(Jar, jar.name, namespace=jar.namespace)  # noqa: F841

    line = forgetful.__code__.co_firstlineno + 3
    with caplog.at_level(logging.ERROR):
        async with run_operator(operator, client):
            await create_jar(client)
            await eventually(lambda: len(_errors_by_controller(caplog)) == 2)
    errors = _errors_by_controller(caplog)
    assert f"test_plain_functions.py:{line}: " in errors["jar"]
    assert "forgetful: Context.update_status() was not awaited and did nothing" in errors["jar"]
    assert "reading: Client.get() was not awaited" in errors["second"]


async def test_tasks_and_gathered_calls_count_as_awaited(operator, client, eventually, caplog) -> None:
    tasks: list[Any] = []

    @operator.reconcile(Jar)
    async def reconcile(jar: Jar, ctx: Context[Jar]) -> None:
        await asyncio.gather(*(ctx.client.get(Jar, jar.name, namespace="default") for _ in range(3)))
        tasks.append(asyncio.create_task(ctx.client.get(Jar, jar.name, namespace="default")))

    async with run_operator(operator, client):
        await create_jar(client)
        await eventually(lambda: tasks and tasks[0].done())
    assert not _errors_by_controller(caplog)


def test_annotations_that_cannot_work_are_errors_at_registration(operator) -> None:
    with pytest.raises(InjectionError, match="would block the event loop; annotate it with Context"):

        @operator.reconcile(Jar)
        async def reconcile(jar: Jar, ctx: SyncContext[Jar]) -> None: ...

    with pytest.raises(InjectionError, match="runs on the event loop here and cannot use 'reader'"):

        @operator.watches(ConfigMap)
        def requests(config: Any, reader: Client) -> list[Any]:
            return []


async def test_update_status_sends_nothing_if_nothing_changed(operator, client, eventually) -> None:
    patches: list[str] = []
    calls: list[int] = []

    async def record(call: Any, proceed: Any) -> Any:
        if call.method == "PATCH" and "/jars/" in call.path:
            patches.append(call.path)
        return await proceed(call)

    @operator.reconcile(Jar)
    async def reconcile(jar: Jar, ctx: Context[Jar]) -> Result:
        jar.status.seen = jar.spec.size
        await ctx.update_status()
        calls.append(1)
        return Result(requeue_after=10)

    async with run_operator(operator, client.with_interceptor(record)):
        await create_jar(client)
        await eventually(lambda: len(calls) >= 4)
    assert len(patches) == 1


async def test_ensure_does_not_adopt_objects_without_an_owner(operator, client, eventually) -> None:
    adopt: list[bool] = []

    @operator.reconcile(Jar, owns=(ConfigMap,))
    async def reconcile(jar: Jar, ctx: Context[Jar]) -> None:
        await ctx.ensure([settings_of(jar)], adopt=bool(adopt))

    mine = ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data={"mine": "yes"})
    await client.create(mine)
    async with run_operator(operator, client):
        jar = await create_jar(client)
        rejected = await client.wait(jar, until=lambda jar: bool(jar.status.conditions), timeout=60)
        condition = rejected.status.conditions[0]
        assert (condition.type, condition.status, condition.reason) == (
            "OwnershipConflict",
            "True",
            "AdoptionError",
        )
        assert "ConfigMap default/a exists already and has no controlling owner" in condition.message
        unchanged = await client.get(ConfigMap, "a", namespace="default")
        assert unchanged.data == {"mine": "yes"}
        assert not unchanged.metadata.owner_references
        await eventually(lambda: _events(client))
        adopt.append(True)
        await client.wait(jar, until=lambda jar: jar.status.conditions[0].status == "False", timeout=2000)
    adopted = await client.get(ConfigMap, "a", namespace="default")
    assert adopted.data == {"mine": "yes", "size": "3"}
    assert adopted.metadata.owner_references[0].name == "a"


async def _events(client: Client) -> list[Any]:
    events = await client.list(Event, namespace="default")
    return [each for each in events if each.reason == "OwnershipConflict"]
