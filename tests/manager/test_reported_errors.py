"""Errors in operators without a visible effect are reported in one line: what, where, what next."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from kubewright.api import CustomResource, ObjectMeta, Spec, Status, resource
from kubewright.api.core.v1 import ConfigMap, Event
from kubewright.api.rbac.v1 import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from kubewright.cache.stores.store import ObjectChange
from kubewright.client import Client
from kubewright.controller import Request, where
from kubewright.manager import Context, Manager, Operator
from kubewright.manager.operators.installation import install_definitions
from kubewright.testing.operators import run_operator

RBAC = "rbac.authorization.k8s.io"


class KiteSpec(Spec):
    size: int = 1


class KiteStatus(Status):
    size: int = 0


@resource(group="reported.example.com", version="v1")
class Kite(CustomResource[KiteSpec, KiteStatus]):
    """A kite."""


async def create_kite(client: Client) -> Kite:
    return await client.create(Kite(metadata=ObjectMeta(name="a", namespace="default"), spec=KiteSpec()))


async def test_a_spec_changed_before_update_status_is_an_error_and_an_event(
    client, eventually, caplog: pytest.LogCaptureFixture
) -> None:
    operator = Operator("kites")

    @operator.reconcile(Kite)
    async def reconcile(kite: Kite, ctx: Context[Kite]) -> None:
        kite.spec.size = 5
        kite.status = KiteStatus(size=5)
        await ctx.update_status()

    async def events() -> list[str]:
        found = await client.list(Event, namespace="default")
        return [each.message for each in found if each.reason == "ReconcileFailed"]

    text = (
        "UnsentChangesError: Kite default/a: only status would be sent, and the changes of spec.size would "
        "be lost; send them first with update(obj), or do not change them"
    )
    async with run_operator(operator, client):
        await create_kite(client)
        await eventually(events)
    assert await events() == [text]
    lines = [each for each in caplog.records if each.getMessage() == "reconcile failed, retrying"]
    assert {each.error for each in lines} == {text}
    stored = await client.get(Kite, "a", namespace="default")
    assert (stored.spec.size, stored.status.size) == (1, 0)


def fails(config: ConfigMap) -> list[Request]:
    raise KeyError(config.metadata.name)


async def fails_later(config: ConfigMap) -> list[Request]:
    raise KeyError(config.metadata.name)


def rejects(kite: Kite) -> bool:
    raise KeyError(kite.metadata.name)


@pytest.mark.parametrize(
    ("options", "kind", "function"),
    [
        ({"watches": [(ConfigMap, fails)]}, "ConfigMap", "fails"),
        ({"watches": [(ConfigMap, fails_later)]}, "ConfigMap", "fails_later"),
        ({"predicates": [where(Kite, rejects)]}, "Kite", "rejects"),
    ],
    ids=["map function", "async map function", "predicate"],
)
async def test_a_failed_map_function_or_predicate_is_named(
    options: dict[str, Any],
    kind: str,
    function: str,
    client,
    eventually,
    caplog: pytest.LogCaptureFixture,
) -> None:
    operator = Operator("kites")

    @operator.reconcile(Kite, **options)
    async def reconcile(kite: Kite) -> None: ...

    def failures() -> list[logging.LogRecord]:
        message = "predicate or event handler failed, the change is not reconciled"
        found = [each for each in caplog.records if each.getMessage() == message]
        return [each for each in found if each.request == "default/a"]

    async with run_operator(operator, client):
        await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
        await create_kite(client)
        await eventually(failures)
    record = failures()[0]
    assert (record.kind, record.function, record.error) == (kind, function, "KeyError: 'a'")
    assert record.line.startswith("test_reported_errors.py:")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise KeyError("no text")


@pytest.mark.parametrize("error", [ValueError("bad"), Unprintable()], ids=["error", "error without text"])
async def test_a_failed_handler_of_an_informer_is_named(
    error: Exception, client, eventually, caplog: pytest.LogCaptureFixture
) -> None:
    operator = Operator("kites")
    operator.settings.allow = (ConfigMap,)

    @operator.on_startup
    async def add(manager: Manager) -> None:
        informer = await manager.cache.informer(ConfigMap)
        informer.add_handler(count)
        informer.add_handler(lambda change: seen.append(change.key.name))

    seen: list[str] = []

    def count(change: ObjectChange) -> None:
        raise error

    def failures() -> list[logging.LogRecord]:
        return [
            each
            for each in caplog.records
            if each.getMessage() == "event handler failed" and each.object == "bad"
        ]

    async with run_operator(operator, client):
        await client.create(ConfigMap(metadata=ObjectMeta(name="bad", namespace="default")))
        await eventually(failures)
    record = failures()[0]
    assert record.function == "count"
    assert type(error).__name__ in record.error
    assert "bad" in seen, "the next handler is called"
    assert record.exc_info is not None
    assert record.exc_info[2].tb_frame.f_code.co_name == "count"


async def test_a_kind_without_permission_is_named_with_the_rule(
    client, eventually, caplog: pytest.LogCaptureFixture
) -> None:
    operator = Operator("kites")

    @operator.reconcile(Kite)
    async def reconcile(kite: Kite) -> None: ...

    await install_definitions(client, operator.kinds)
    stop = asyncio.Event()
    run = asyncio.create_task(operator.run(client.with_impersonation("weak"), stop=stop))

    def denied() -> list[logging.LogRecord]:
        return [each for each in caplog.records if each.getMessage() == "cannot list and watch, retrying"]

    async def ready() -> bool:
        return (await operator.probes.handle("/readyz"))[0] == 200

    try:
        await eventually(denied)
        (record,) = denied()
        assert record.kind == "Kite"
        assert 'User "weak" cannot' in record.error
        assert record.hint == (
            "add the rule {apiGroups: ['reported.example.com'], resources: [kites], verbs: [list, watch]} "
            "to a ClusterRole of this user"
        )
        assert not await ready()
        reasons = [each.error for each in caplog.records if each.getMessage() == "health check failed"]
        assert "controller 'kite' cannot start: Kite: kites.reported.example.com is forbidden" in reasons[-1]

        # The rule of the hint is sufficient.
        rule = PolicyRule(api_groups=["reported.example.com"], resources=["kites"], verbs=["list", "watch"])
        await client.create(ClusterRole(metadata=ObjectMeta(name="weak"), rules=[rule]))
        await client.create(
            ClusterRoleBinding(
                metadata=ObjectMeta(name="weak"),
                role_ref=RoleRef(api_group=RBAC, kind="ClusterRole", name="weak"),
                subjects=[Subject(kind="User", name="weak", api_group=RBAC)],
            )
        )
        await eventually(ready)
    finally:
        stop.set()
        await run
