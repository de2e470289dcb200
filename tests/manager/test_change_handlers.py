"""Handlers for changes, kinds without a class, temporary errors and events about failures."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright import TemporaryError
from kubewright.api import CustomResource, ObjectMeta, Spec, Unstructured, resource
from kubewright.api.core.v1 import ConfigMap, Event, Secret
from kubewright.client import Client
from kubewright.controller import TerminalError
from kubewright.manager import Context, Diff, Operator, SyncContext
from kubewright.testing.operators import run_operator


class LampSpec(Spec):
    size: int = 1
    colour: str = ""


@resource(group="handlers.example.com", version="v1")
class Lamp(CustomResource[LampSpec, None]):
    """A lamp."""


async def create_lamp(client: Client, name: str = "a", **spec: Any) -> Lamp:
    return await client.create(
        Lamp(metadata=ObjectMeta(name=name, namespace="default"), spec=LampSpec(**spec))
    )


async def resize(client: Client, size: int) -> None:
    lamp = await client.get(Lamp, "a", namespace="default")
    lamp.spec.size = size
    await client.update(lamp)


def lamps(calls: list[Any]) -> Operator:
    """Return an operator with a handler of each type."""
    operator = Operator("lamps")

    @operator.on.create(Lamp)
    async def created(lamp: Lamp, ctx: Context[Lamp], old: Any, new: dict[str, Any]) -> None:
        calls.append(("create", old, new["spec"]["size"]))

    @operator.on.update(Lamp)
    def updated(lamp: Lamp, ctx: SyncContext[Lamp], old: dict[str, Any], new: Any, diff: Diff) -> None:
        found = ctx.client.get(Lamp, lamp.name, namespace="default")
        calls.append(("update", old["spec"]["size"], found.spec.size, diff))

    @operator.on.field(Lamp, "spec.size")
    async def sized(old: int | None, new: int) -> None:
        calls.append(("field", old, new))

    @operator.on.resume(Lamp)
    async def resumed(lamp: Lamp) -> None:
        calls.append(("resume", lamp.name))

    @operator.on.delete(Lamp)
    async def deleted(lamp: Lamp) -> None:
        calls.append(("delete", lamp.name))

    return operator


async def test_handlers_receive_the_difference_to_the_last_handled_state(client, eventually) -> None:
    calls: list[Any] = []
    async with run_operator(lamps(calls), client):
        await create_lamp(client, size=1)
        await eventually(lambda: len(calls) == 2)
        assert calls == [("create", None, 1), ("field", None, 1)]
        calls.clear()
        await resize(client, 2)
        await eventually(lambda: len(calls) == 2)
        diff = (("change", ("spec", "size"), 1, 2),)
        assert calls == [("update", 1, 2, diff), ("field", 1, 2)]
    calls.clear()
    await resize(client, 5)
    again: list[Any] = []
    async with run_operator(lamps(again), client):
        await eventually(lambda: len(again) == 3)
        diff = (("change", ("spec", "size"), 2, 5),)
        assert again == [("update", 2, 5, diff), ("field", 2, 5), ("resume", "a")]
        await client.delete(Lamp, "a", namespace="default")
        await eventually(lambda: ("delete", "a") in again)
    states = await client.list(ConfigMap, namespace="default")
    (state,) = [each for each in states if each.name.startswith("last-handled-")]
    assert state.metadata.owner_references[0].kind == "Lamp"


async def test_only_failed_handlers_are_called_again(client, eventually) -> None:
    operator = Operator("lamps")
    calls: list[str] = []

    @operator.on.create(Lamp)
    async def first(lamp: Lamp) -> None:
        calls.append("first")

    @operator.on.create(Lamp)
    async def second(lamp: Lamp) -> None:
        calls.append("second")
        if calls.count("second") < 3:
            raise TemporaryError("not yet", delay=5)

    @operator.on.create(Lamp)
    async def third(lamp: Lamp) -> None:
        calls.append("third")
        raise TerminalError("never")

    async with run_operator(operator, client):
        await create_lamp(client)
        await eventually(lambda: calls.count("second") == 3)
    assert calls.count("first") == calls.count("third") == 1


async def test_failures_are_recorded_as_events_once(client, eventually) -> None:
    operator = Operator("lamps")
    calls: list[int] = []

    @operator.reconcile(Lamp)
    async def reconcile(lamp: Lamp) -> None:
        calls.append(1)
        raise TemporaryError("the bulb is missing", delay=2)

    async def events() -> list[Event]:
        found = await client.list(Event, namespace="default")
        return [each for each in found if each.reason == "ReconcileFailed"]

    async with run_operator(operator, client):
        await create_lamp(client)
        await eventually(lambda: len(calls) >= 5)
        await eventually(events)
    (event,) = await events()
    assert event.type == "Warning"
    assert event.message == "TemporaryError: the bulb is missing"


async def test_a_resource_is_reconciled_by_name(client, eventually) -> None:
    operator = Operator("lamps")
    seen: list[str] = []

    @operator.reconcile("lamps.handlers.example.com")
    async def reconcile(lamp: Unstructured, ctx: Context[Unstructured]) -> None:
        seen.append(f"{ctx.request} {lamp['spec']['size']}")
        lamp.metadata.labels = {"seen": "yes"}
        await ctx.client.update(lamp)

    @operator.reconcile(Lamp, name="typed")
    async def typed(lamp: Lamp) -> None: ...

    async with run_operator(operator, client):
        await create_lamp(client, size=4)
        await eventually(lambda: _is_labelled(client))
    assert seen[0] == "default/a 4"
    rules = {(*each.groups, *each.resources) for each in operator.declarations() if hasattr(each, "verbs")}
    assert ("handlers.example.com", "lamps/status") in rules


async def _is_labelled(client: Client) -> bool:
    return bool((await client.get(Lamp, "a", namespace="default")).metadata.labels)


def test_wrong_declarations_are_errors_at_import() -> None:
    operator = Operator("lamps")
    with pytest.raises(TypeError, match=r"expected its plural and group: deployments.apps"):
        operator.reconcile("Deployment")
    with pytest.raises(TypeError, match="would be stored in a ConfigMap"):
        operator.on.update(Secret)
    with pytest.raises(ValueError, match="outside the status"):
        operator.on.field(Lamp, "status.ready")
