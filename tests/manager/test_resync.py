"""Operators reconcile every object again in each resync period, changed or not; in simulated time."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from kubewright.api import CustomResource, ObjectMeta, Spec, Status, resource
from kubewright.api.core.v1 import ConfigMap, ServiceAccount
from kubewright.api.encoding import codec
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.owners import owner_reference
from kubewright.cache import Informer, ObjectChange, ObjectKey
from kubewright.client import Client, RawEvent
from kubewright.controller import (
    Cause,
    ControllerBuilder,
    KindSource,
    Request,
    WorkQueue,
    enqueue_object,
    generation_changed,
    has_labels,
    resource_version_changed,
)
from kubewright.manager import Cluster, ClusterMap, Context, Manager, Operator, Settings, SettingsError
from kubewright.manifests import crd
from kubewright.testing.operators import run_operator
from kubewright.testing.server import TestServer

HOUR = 3600.0
PERIOD = 300.0


class CrateSpec(Spec):
    size: int = 1


@resource(group="resync.example.com", version="v1")
class Crate(CustomResource[CrateSpec, Status]):
    """A crate."""


def crate(name: str, **labels: str) -> Crate:
    return Crate(metadata=ObjectMeta(name=name, namespace="default", labels=labels), spec=CrateSpec())


class Log:
    """The causes of the calls of a reconciler, with their times."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, str, str]] = []

    def add(self, name: str, causes: Iterable[Cause]) -> None:
        now = asyncio.get_running_loop().time()
        self.calls += [(now, name, str(cause)) for cause in causes]

    def resyncs(self, name: str = "") -> list[str]:
        return [cause for _, each, cause in self.calls if each.startswith(name) and "(resync)" in cause]


def operator_of(log: Log, given: dict[str, float] | None = None, **options: Any) -> Operator:
    operator = Operator("crates", **(given or {}))

    @operator.reconcile(Crate, **options)
    async def reconcile(crate: Crate, ctx: Context[Crate]) -> None:
        log.add(crate.name, ctx.causes)

    return operator


async def run_for(client: Client, operator: Operator, seconds: float, **settings: Any) -> None:
    async with run_operator(operator, client, **settings):
        await client.create(crate("a"))
        await asyncio.sleep(seconds)
    await client.delete(Crate, "a", namespace="default")


async def test_the_default_is_ten_hours(client: Client) -> None:
    log = Log()
    await run_for(client, operator_of(log), 21 * HOUR)
    times = [time for time, _, _ in log.calls]
    assert log.calls[0][2] in ("Crate default/a (list)", "Crate default/a created")
    assert {cause for _, _, cause in log.calls[1:]} == {"Crate default/a (resync)"}
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert len(gaps) == 2
    assert all(8 * HOUR <= gap <= 10 * HOUR for gap in gaps[1:])


@pytest.mark.parametrize(
    ("given", "options", "settings", "counts"),
    [
        ({"resync": PERIOD}, {}, {}, range(10, 14)),
        ({"resync": PERIOD}, {"resync": 2 * PERIOD}, {}, range(5, 8)),
        ({}, {"resync": PERIOD}, {}, range(10, 14)),
        ({}, {}, {"resync": PERIOD}, range(10, 14)),
        ({"resync": PERIOD}, {"resync": 0}, {}, range(1)),
        ({"resync": 0}, {}, {}, range(1)),
        ({"resync": 0}, {"resync": PERIOD}, {}, range(10, 14)),
    ],
    ids=["operator", "longer", "reconciler", "setting", "reconciler-off", "off", "only-one-reconciler"],
)
async def test_the_period_of_a_reconciler_overrides_that_of_the_operator(
    client: Client, given: Any, options: Any, settings: Any, counts: range
) -> None:
    log = Log()
    await run_for(client, operator_of(log, given, **options), 10.5 * PERIOD, **settings)
    assert len(log.resyncs()) in counts


@pytest.mark.parametrize(
    ("given", "options"),
    [({"resync": PERIOD}, {}), ({"resync": 0}, {}), ({"resync": PERIOD}, {"resync": 0})],
    ids=["on", "off", "reconciler-off"],
)
async def test_own_owned_and_watched_kinds_are_resynced(client: Client, given: Any, options: Any) -> None:
    log = Log()
    operator = operator_of(log, given, owns=(ConfigMap,), **options)

    @operator.watches(ServiceAccount)
    def crates_of(account: ServiceAccount) -> list[Request]:
        return [Request("default", "a")] if account.name == "robot" else []

    await client.create(ServiceAccount(metadata=ObjectMeta(name="robot", namespace="default")))
    async with run_operator(operator, client):
        owner = await client.create(crate("a"))
        owned = ConfigMap(metadata=ObjectMeta(name="owned", namespace="default"))
        owned.metadata.owner_references = [owner_reference(owner, controller=True)]
        await client.create(owned)
        await asyncio.sleep(10.5 * PERIOD)
    found = Counter(log.resyncs())
    if not options.get("resync", given["resync"]):
        assert not found
        return
    assert set(found) == {
        "Crate default/a (resync)",
        "ConfigMap default/owned (resync)",
        "ServiceAccount default/robot (resync)",
    }
    assert all(10 <= count <= 14 for count in found.values())


async def test_an_object_that_only_a_resync_can_repair_is_repaired_within_the_period(client: Client) -> None:
    """The reconciler reads an external system, whose changes cause no event."""
    external = {"a": 0}
    operator = Operator("crates", resync=PERIOD)

    @operator.reconcile(Crate, predicates=[generation_changed])
    async def reconcile(crate: Crate) -> None:
        external[crate.name] = crate.spec.size

    async with run_operator(operator, client):
        await client.create(crate("a"))
        await asyncio.sleep(1)
        for _ in range(3):
            assert external == {"a": 1}
            external["a"] = 7
            await asyncio.sleep(PERIOD)
    assert external == {"a": 1}


async def test_predicates_of_changes_accept_resyncs_and_those_of_objects_select(client: Client) -> None:
    for predicate in (generation_changed, resource_version_changed, generation_changed & has_labels("on=1")):
        log = Log()
        operator = operator_of(log, {"resync": PERIOD}, predicates=[predicate])
        async with run_operator(operator, client):
            await client.create(crate("a", on="1"))
            await client.create(crate("b"))
            await asyncio.sleep(1.5 * PERIOD)
        assert log.resyncs("a")
        assert bool(log.resyncs("b")) == ("has_labels" not in predicate.name)
        await client.delete_all(Crate, namespace="default")


async def test_a_predicate_sees_a_resync_as_it_sees_the_initial_list(client: Client) -> None:
    seen: list[tuple[bool, bool]] = []

    def record(change: ObjectChange) -> bool:
        seen.append((change.old is None, change.initial))
        return True

    async with run_operator(operator_of(Log(), {"resync": 0}), client):
        await client.create(crate("a"))
    async with run_operator(operator_of(Log(), {"resync": PERIOD}, predicates=[record]), client):
        await asyncio.sleep(PERIOD)
    assert len(seen) == 2
    assert set(seen) == {(True, True)}


async def test_changes_of_versions_that_are_not_numbers_are_not_resyncs() -> None:
    """Extension API servers may have opaque resource versions, which have no revision."""
    calls: list[tuple[str, ...]] = []
    informer = Informer(GroupVersionKind("", "v1", "ConfigMap"), {})

    class Informers:
        async def informer(self, kind: Any) -> Informer:
            return informer

    queue: WorkQueue[Request] = WorkQueue()
    source: KindSource[Request] = KindSource(Informers(), ConfigMap, enqueue_object, [generation_changed])
    await source.start(queue)
    for generation in (1, 2):
        raw = b'{"metadata":{"name":"a","uid":"u","resourceVersion":"x%d","generation":%d}}'
        raw %= (generation, generation)
        informer.receive_version(
            ObjectKey("", "a"), RawEvent("MODIFIED", raw, codec.decoder(codec.ObjectHeader).decode(raw))
        )
        item = await queue.get()
        calls.append(tuple(cause.trigger for cause in item.causes))
        queue.done(item.key)
    assert calls == [("watch",), ("watch",)]


async def test_controllers_of_a_manager_have_periods_too(client: Client, running: Any) -> None:
    await client.create(crd(Crate))
    await client.create(crate("a"))
    counts: Counter[str] = Counter()

    def controller(manager: Manager, name: str, resync: float | None) -> None:
        async def reconcile(_: Request) -> None:
            counts[name] += 1

        ControllerBuilder(manager, name).for_(Crate).with_options(resync=resync).complete(reconcile)

    manager = Manager(Cluster(client, resync=PERIOD), handle_signals=False)
    controller(manager, "default", None)
    controller(manager, "often", PERIOD / 10)
    controller(manager, "never", 0)
    async with running(manager):
        await asyncio.sleep(10 * PERIOD)
    assert counts["never"] == 1
    assert 10 <= counts["default"] <= 14
    assert 100 <= counts["often"] <= 128


async def test_fleets_have_the_period_of_the_operator(client: Client, server: TestServer) -> None:
    log = Log()
    await client.create(crd(Crate))
    operator = Operator("crates", resync=PERIOD)
    fleet = operator.fleet(ClusterMap({"member": server.client()}))

    @fleet.reconcile(Crate)
    async def reconcile(crate: Crate, ctx: Context[Crate]) -> None:
        log.add(crate.name, ctx.causes)

    await run_for(client, operator, 1.5 * PERIOD)
    assert log.resyncs()


def test_the_period_is_a_setting_and_an_environment_variable() -> None:
    assert Settings().resync == Operator("crates").settings.resync == 10 * HOUR
    assert Settings.from_environment({"KUBEWRIGHT_RESYNC": "600"}).resync == 600
    assert Settings.from_environment({"KUBEWRIGHT_RESYNC": "0"}).resync == 0
    for text in ("-1", "nan", "ten"):
        with pytest.raises(SettingsError, match=r"KUBEWRIGHT_RESYNC.*expected a number of seconds"):
            Settings.from_environment({"KUBEWRIGHT_RESYNC": text})
    with pytest.raises(ValueError, match="resync=-1: expected a number of seconds, or 0"):
        Operator("crates", resync=-1)
    with pytest.raises(ValueError, match="resync=-1"):
        Operator("crates").reconcile(Crate, resync=-1)
