"""Several controllers for the same objects: each deletes only what it has applied."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from kubewright import Client, Context, CustomResource, Operator, Result, Spec, Status, resource
from kubewright.api import ObjectMeta, RawObject, set_controller_reference
from kubewright.api.core.v1 import ConfigMap, Event, Namespace, Secret
from kubewright.client import exists, is_deleted, merge_patch
from kubewright.testing.operators import run_operator


class ThingSpec(Spec):
    wanted: list[str] = []


@resource(group="example.com", version="v1")
class Thing(CustomResource[ThingSpec, None]):
    pass


class PageStatus(Status):
    observed_generation: int | None = None


@resource(group="example.com", version="v1")
class Page(CustomResource[RawObject, PageStatus]):
    pass


def config(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name), data=data or None)


def thing(*wanted: str) -> Thing:
    return Thing(metadata=ObjectMeta(name="main", namespace="default"), spec=ThingSpec(wanted=list(wanted)))


def ensuring(
    operator: Operator, prefix: str, *, name: str = "", calls: list[str] | None = None, **options: Any
) -> Operator:
    """Add a reconciler that applies a ConfigMap for each wanted name that begins with a prefix."""

    @operator.reconcile(Thing, owns=(ConfigMap,), name=name, **options)
    async def reconcile(obj: Thing, ctx: Context[Thing]) -> None:
        await ctx.ensure([config(each) for each in obj.spec.wanted if each.startswith(prefix)])
        if calls is not None:
            calls.append(prefix)

    return operator


async def names(client: Client) -> list[str]:
    found = [each.metadata.name or "" async for each in client.list(ConfigMap, namespace="default")]
    return sorted(each for each in found if each != "kube-root-ca.crt")


async def want(client: Client, *wanted: str) -> None:
    await client.patch(Thing, "main", merge_patch({"spec": {"wanted": list(wanted)}}))


async def wait_until(client: Client, *expected: str) -> None:
    async with asyncio.timeout(60):
        while await names(client) != sorted(expected):
            await asyncio.sleep(0.05)


async def managers(client: Client, name: str) -> set[str]:
    found = await client.get(ConfigMap, name, namespace="default")
    return {each.manager or "" for each in found.metadata.managed_fields or () if each.operation == "Apply"}


async def settled(calls: list[str]) -> None:
    """Wait until no reconciler has been called for a simulated minute."""
    async with asyncio.timeout(3600):
        count = -1
        while count != len(calls):
            count = len(calls)
            await asyncio.sleep(60)


def two_reconcilers(calls: list[str]) -> list[Operator]:
    operator = ensuring(Operator("shop"), "a", name="first", calls=calls)
    return [ensuring(operator, "b", name="second", calls=calls)]


def named_and_unnamed(calls: list[str]) -> list[Operator]:
    return [ensuring(ensuring(Operator("shop"), "a", calls=calls), "b", name="second", calls=calls)]


def two_operators(calls: list[str]) -> list[Operator]:
    return [
        ensuring(Operator("one"), "a", calls=calls),
        ensuring(Operator("two"), "b", calls=calls),
    ]


@pytest.mark.parametrize("make", [two_reconcilers, named_and_unnamed, two_operators])
async def test_controllers_of_one_object_keep_the_objects_of_each_other(
    client: Client, make: Callable[[list[str]], list[Operator]]
) -> None:
    calls: list[str] = []
    async with AsyncExitStack() as stack:
        for operator in make(calls):
            await stack.enter_async_context(run_operator(operator, client))
        await client.create(thing("a1", "a2", "b1"))
        await wait_until(client, "a1", "a2", "b1")
        await settled(calls)
        assert len(calls) < 20
        first = await client.get(ConfigMap, "b1", namespace="default")
        await want(client, "a2", "b1")
        await wait_until(client, "a2", "b1")
        await settled(calls)
        assert await names(client) == ["a2", "b1"]
        assert (await client.get(ConfigMap, "b1", namespace="default")).metadata.uid == first.metadata.uid
        await want(client)
        await wait_until(client)


async def test_a_timer_and_a_reconciler_keep_the_objects_of_each_other(client: Client) -> None:
    calls: list[str] = []
    operator = ensuring(Operator("shop"), "a", calls=calls)

    @operator.timer(Thing, interval=10)
    async def refresh(obj: Thing, ctx: Context[Thing]) -> None:
        await ctx.ensure([config("report")])
        await ctx.apply(config("applied"))
        calls.append("timer")

    async with run_operator(operator, client):
        await client.create(thing("a1"))
        await wait_until(client, "a1", "applied", "report")
        uid = (await client.get(ConfigMap, "report", namespace="default")).metadata.uid
        while calls.count("timer") < 5:
            await asyncio.sleep(1)
        await want(client)
        await wait_until(client, "report", "applied")
        assert (await client.get(ConfigMap, "report", namespace="default")).metadata.uid == uid
        assert await managers(client, "report") == {"shop/refresh-timer"}


async def test_objects_that_were_created_stay(client: Client) -> None:
    operator = Operator("shop")
    calls: list[str] = []

    @operator.reconcile(Thing, owns=(ConfigMap, Secret))
    async def reconcile(obj: Thing, ctx: Context[Thing]) -> None:
        if await ctx.client.get_or_none(Secret, "password", namespace="default") is None:
            await ctx.client.create(ctx.own(Secret(metadata=ObjectMeta(name="password"))))
        await ctx.ensure([config("one")])
        calls.append("")

    async with run_operator(operator, client):
        await client.create(thing())
        await wait_until(client, "one")
        uid = (await client.get(Secret, "password", namespace="default")).metadata.uid
        await settled(calls)
        assert (await client.get(Secret, "password", namespace="default")).metadata.uid == uid


async def test_an_object_of_two_controllers_is_deleted_by_the_last_one(client: Client) -> None:
    operator = Operator("shop")
    for name in ("first", "second"):

        @operator.reconcile(Thing, owns=(ConfigMap,), name=name)
        async def reconcile(obj: Thing, ctx: Context[Thing], name: str = name) -> None:
            await ctx.ensure([config("shared", **{name: "1"})] if name in obj.spec.wanted else [])

    async with run_operator(operator, client):
        await client.create(thing("first", "second"))
        shared = await client.wait(ConfigMap, "shared", until=exists, timeout=60)
        async with asyncio.timeout(60):
            while shared.data != {"first": "1", "second": "1"}:
                await asyncio.sleep(0.05)
                shared = await client.get(ConfigMap, "shared", namespace="default")
        await want(client, "second")
        async with asyncio.timeout(60):
            while await managers(client, "shared") != {"shop/second"}:
                await asyncio.sleep(0.05)
        found = await client.get(ConfigMap, "shared", namespace="default")
        assert (found.data, found.metadata.uid) == ({"second": "1"}, shared.metadata.uid)
        await want(client)
        await client.wait(ConfigMap, "shared", until=is_deleted, timeout=60)


async def test_a_finalizer_deletes_the_objects_of_its_reconciler(client: Client) -> None:
    operator = ensuring(ensuring(Operator("shop"), "a", name="first"), "b", name="second")
    left: list[list[str]] = []

    @operator.finalize(Thing)
    async def clean_up(obj: Thing, ctx: Context[Thing]) -> Result | None:
        await ctx.ensure([])
        left.append(await names(client))
        return None

    async with run_operator(operator, client):
        await client.create(thing("a1", "b1"))
        await wait_until(client, "a1", "b1")
        await client.delete(Thing, "main", namespace="default")
        await client.wait(Thing, "main", until=is_deleted, timeout=60)
    assert left == [["b1"]]


# Names


async def test_objects_of_an_earlier_version_are_taken_over(client: Client) -> None:
    """An earlier version applied the objects of all reconcilers as the operator."""
    async with run_operator(ensuring(Operator("shop"), "a"), client):
        await client.create(thing("a1", "a2"))
        await wait_until(client, "a1", "a2")
    old = await client.get(ConfigMap, "a2", namespace="default")
    await want(client, "a2")
    async with run_operator(ensuring(Operator("shop"), "a", name="first"), client):
        await wait_until(client, "a2")
        async with asyncio.timeout(60):
            while await managers(client, "a2") != {"shop/first"}:
                await asyncio.sleep(0.05)
        assert (await client.get(ConfigMap, "a2", namespace="default")).metadata.uid == old.metadata.uid


async def test_what_several_controllers_can_have_applied_is_not_deleted(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    async with run_operator(ensuring(Operator("shop"), "a"), client):
        await client.create(thing("a1", "a2"))
        await wait_until(client, "a1", "a2")
    await want(client, "a2", "b1")
    calls: list[str] = []
    operator = ensuring(Operator("shop"), "a", name="first", calls=calls)
    async with run_operator(ensuring(operator, "b", name="second", calls=calls), client):
        await settled(calls)
        assert await names(client) == ["a1", "a2", "b1"]
        assert await managers(client, "a2") == {"shop/first"}
    assert "several controllers of this operator had its field manager" in caplog.text


@pytest.mark.parametrize("declared", [True, False])
async def test_a_renamed_operator(client: Client, declared: bool) -> None:
    async with run_operator(ensuring(Operator("old"), "a"), client):
        await client.create(thing("a1", "a2"))
        await wait_until(client, "a1", "a2")
    await want(client, "a2")
    calls: list[str] = []
    renamed = Operator("new", former_field_managers=["old"] if declared else [])
    async with run_operator(ensuring(renamed, "a", calls=calls), client):
        while await managers(client, "a2") != ({"new"} if declared else {"new", "old"}):
            await asyncio.sleep(0.05)
        await settled(calls)
        # Without the declaration, another operator could run under the old name.
        assert await names(client) == (["a2"] if declared else ["a1", "a2"])


async def test_operators_with_one_name_in_two_namespaces(client: Client) -> None:
    places = {"default": "one", "other": "two"}
    await client.create(Namespace(metadata=ObjectMeta(name="other")))
    async with AsyncExitStack() as stack:
        for namespace, name in places.items():
            operator = Operator("shop", namespaces=[namespace])

            @operator.reconcile(Thing, owns=(ConfigMap,))
            async def reconcile(obj: Thing, ctx: Context[Thing], name: str = name) -> None:
                await ctx.ensure([config(name)])

            await stack.enter_async_context(run_operator(operator, client))
        for namespace in places:
            made = Thing(metadata=ObjectMeta(name="main", namespace=namespace), spec=ThingSpec())
            await client.create(made)
        for namespace, name in places.items():
            found = await client.wait(ConfigMap, name, namespace=namespace, until=exists, timeout=60)
            await asyncio.sleep(60)
            assert await client.get(ConfigMap, name, namespace=namespace) == found


async def test_an_adopted_object(client: Client) -> None:
    operator = Operator("shop")

    @operator.reconcile(Thing, owns=(ConfigMap,))
    async def reconcile(obj: Thing, ctx: Context[Thing]) -> None:
        await ctx.ensure([config(each, of="shop") for each in obj.spec.wanted], adopt=True)

    for name in ("adopted", "other"):
        made = ConfigMap(
            metadata=ObjectMeta(name=name, namespace="default"), data={"of": "user", "mine": "1"}
        )
        await client.create(made)
    async with run_operator(operator, client):
        await client.create(thing("adopted"))
        async with asyncio.timeout(60):
            while await managers(client, "adopted") != {"shop"}:
                await asyncio.sleep(0.05)
        found = await client.get(ConfigMap, "adopted", namespace="default")
        assert found.data == {"of": "shop", "mine": "1"}
        await want(client)
        await wait_until(client, "other")


# Object sets of two operators


def rendering(name: str, folder: Path, **files: str) -> Operator:
    (folder / name).mkdir()
    for file, text in files.items():
        (folder / name / f"{file}.yaml.j2").write_text(text)
    operator = Operator(name)
    operator.render(Page, folder / name)
    return operator


TEMPLATE = (
    "{%% if spec.%s | default(true) %%}\napiVersion: v1\nkind: %s\nmetadata: {name: %s}\n{%% endif %%}\n"
)


async def test_object_sets_of_two_operators(client: Client, tmp_path: Path) -> None:
    one = rendering("one", tmp_path, first=TEMPLATE % ("first", "ConfigMap", "first"))
    two = rendering(
        "two",
        tmp_path,
        second=TEMPLATE % ("second", "ConfigMap", "second"),
        third=TEMPLATE % ("third", "Secret", "third"),
    )
    async with run_operator(one, client), run_operator(two, client):
        await client.create(Page(metadata=ObjectMeta(name="main", namespace="default"), spec={}))
        await wait_until(client, "first", "second")
        await client.wait(Secret, "third", until=exists, timeout=60)
        await asyncio.sleep(60)
        version = (await client.get(Page, "main", namespace="default")).metadata.resource_version
        await asyncio.sleep(600)
        assert (await client.get(Page, "main", namespace="default")).metadata.resource_version == version
        await client.patch(Page, "main", merge_patch({"spec": {"first": False}}))
        await wait_until(client, "second")
        await client.patch(Page, "main", merge_patch({"spec": {"first": False, "third": False}}))
        await client.wait(Secret, "third", until=is_deleted, timeout=60)
        assert await names(client) == ["second"]
        await client.delete(Page, "main", namespace="default")
        await client.wait(Page, "main", until=is_deleted, timeout=60)
        assert await names(client) == []


async def test_a_copy_of_a_member_is_not_deleted(client: Client, tmp_path: Path) -> None:
    operator = rendering("one", tmp_path, first=TEMPLATE % ("first", "ConfigMap", "first"))
    async with run_operator(operator, client):
        await client.create(Page(metadata=ObjectMeta(name="main", namespace="default"), spec={}))
        made = await client.wait(ConfigMap, "first", until=exists, timeout=60)
        copy = ConfigMap(metadata=ObjectMeta(name="copy", namespace="default", labels=made.metadata.labels))
        await client.create(copy)
        await client.patch(Page, "main", merge_patch({"spec": {"first": False}}))
        await wait_until(client, "copy")
        await asyncio.sleep(60)
        assert await names(client) == ["copy"]


# Conflicts


async def events(client: Client) -> list[str]:
    return [each.message or "" async for each in client.list(Event) if each.reason == "ControllerConflict"]


async def test_a_controller_that_deletes_what_another_applies_is_reported(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """As a controller does that deletes all objects of its owner except its own."""
    owner: list[Thing] = []

    async def delete_others() -> None:
        mine = config("theirs")
        mine.metadata.namespace = "default"
        set_controller_reference(owner[0], mine)
        await client.apply(mine, field_manager="rival")
        while not await events(client):
            await client.delete(ConfigMap, "a1", namespace="default", missing_ok=True)
            await asyncio.sleep(1)

    async with run_operator(ensuring(Operator("shop"), "a"), client):
        owner.append(await client.create(thing("a1")))
        async with asyncio.timeout(60):
            await delete_others()
        (message,) = await events(client)
        assert message == (
            "ConfigMap default/a1 is applied by shop and deleted by rival again and again; "
            "only one of them may manage it"
        )
    (line,) = [each for each in caplog.records if each.getMessage().startswith("controllers in conflict")]
    assert (line.levelno, line.field_manager, line.other_field_managers) == (logging.WARNING, "shop", "rival")  # type: ignore[attr-defined]


async def test_controllers_that_apply_different_values_are_reported(client: Client) -> None:
    operator = Operator("shop")
    for name in ("first", "second"):

        @operator.reconcile(Thing, owns=(ConfigMap,), name=name)
        async def reconcile(obj: Thing, ctx: Context[Thing], name: str = name) -> None:
            await ctx.ensure([config("shared", value=name)] if obj.spec.wanted else [])

    async with run_operator(operator, client):
        await client.create(thing("shared"))
        while not await events(client):
            await asyncio.sleep(0)  # simulated time stands still while the controllers are busy
        await want(client)
        message = (await events(client))[0]
        assert "ConfigMap default/shared is applied by shop/" in message
        assert "changed by shop/" in message


async def test_operators_with_one_name_for_the_same_objects_are_reported(client: Client) -> None:
    """They have one field manager, so each deletes what the other has applied."""
    operators = [ensuring(Operator("shop"), "a"), ensuring(Operator("shop"), "b")]
    async with run_operator(operators[0], client), run_operator(operators[1], client):
        await client.create(thing("a1", "b1"))
        while not await events(client):
            await asyncio.sleep(0)  # simulated time stands still while the controllers are busy
        await want(client)
        message = (await events(client))[0]
        assert "1 is applied by shop and deleted by another client or operator of this name" in message


async def test_a_few_changes_by_a_user_are_no_conflict(client: Client) -> None:
    calls: list[str] = []
    async with run_operator(ensuring(Operator("shop"), "a", calls=calls), client):
        await client.create(thing("a1"))
        for _ in range(2):
            await client.wait(ConfigMap, "a1", until=exists, timeout=60)
            await client.delete(ConfigMap, "a1", namespace="default")
        for number in range(10):
            await client.wait(ConfigMap, "a1", until=exists, timeout=60)
            note = merge_patch({"metadata": {"annotations": {"note": str(number)}}})
            await client.patch(ConfigMap, "a1", note, namespace="default")
            await asyncio.sleep(1)
        await settled(calls)
        assert await events(client) == []
