"""`ControllerBuilder`: for, owns, watches, sources, options, and errors."""

import asyncio
from typing import NamedTuple

import pytest

from kubewright.api import ObjectMeta, Unstructured, set_controller_reference, set_owner_reference
from kubewright.api.core.v1 import ConfigMap, Namespace, Secret
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import PartialObjectMetadata
from kubewright.controller import BuildError, ControllerBuilder, Request, Result, generation_changed, where


def child(owner, name, kind=ConfigMap, controller=True):
    made = kind(metadata=ObjectMeta(name=name, namespace="default"))
    (set_controller_reference if controller else set_owner_reference)(owner, made)
    return made


class Log(list):
    """A reconciler that records its requests."""

    async def reconcile(self, request: Request) -> None:
        self.append(request.name)


async def test_change_of_an_owned_object_enqueues_the_owner(bench):
    log = Log()
    await bench.install(bench.Shop)
    shop = await bench.shop("a")
    ControllerBuilder(bench).for_(bench.Shop).owns(ConfigMap).complete(log)
    async with bench.running():
        await bench.settled()
        log.clear()
        await bench.client.create(child(shop, "owned"))
        await bench.client.create(child(shop, "not-controlled", controller=False))
        await bench.settled()
        assert log == ["a"]
        await bench.client.delete(ConfigMap, "owned", namespace="default")
        await bench.settled()
        assert log == ["a", "a"]


async def test_any_owner_is_enqueued_on_request(bench):
    log = Log()
    await bench.install(bench.Shop)
    first, second = await bench.shop("a"), await bench.shop("b")
    ControllerBuilder(bench).for_(bench.Shop).owns(ConfigMap, any_owner=True).complete(log)
    async with bench.running():
        await bench.settled()
        log.clear()
        shared = child(first, "shared")
        set_owner_reference(second, shared)
        await bench.client.create(shared)
        await bench.settled()
    assert sorted(log) == ["a", "b"]


async def test_old_and_new_owner_are_enqueued(bench):
    log = Log()
    await bench.install(bench.Shop)
    first, second = await bench.shop("a"), await bench.shop("b")
    moving = await bench.client.create(child(first, "moving"))
    ControllerBuilder(bench).for_(bench.Shop).owns(ConfigMap).complete(log)
    async with bench.running():
        await bench.settled()
        log.clear()
        moving.metadata.owner_references = None
        set_controller_reference(second, moving)
        await bench.client.update(moving)
        await bench.settled()
    assert sorted(log) == ["a", "b"]


async def test_secrets_are_cached_as_metadata(bench):
    log = Log()
    await bench.install(bench.Shop)
    shop = await bench.shop("a")
    ControllerBuilder(bench).for_(bench.Shop).owns(Secret).complete(log)
    async with bench.running():
        assert bench.cache.existing_informer(Secret).metadata_only
        await bench.settled()
        log.clear()
        await bench.client.create(child(shop, "token", Secret))
        await bench.settled()
    assert log == ["a"]


async def test_a_cluster_wide_owner_has_no_namespace(bench):
    asked = []

    async def reconcile(request: Request) -> None:
        asked.append(request)

    namespace = await bench.client.create(Namespace(metadata=ObjectMeta(name="team")))
    by_name = GroupVersionKind("", "v1", "Namespace")
    ControllerBuilder(bench).for_(by_name).owns(ConfigMap).complete(reconcile)
    async with bench.running():
        await bench.settled()
        asked.clear()
        await bench.client.create(child(namespace, "settings"))
        await bench.settled()
    assert asked == [Request("", "team")]


async def test_mapping_is_called_with_old_and_new_object(bench):
    log = Log()

    def users(config: ConfigMap) -> list[Request]:
        return [Request("default", (config.data or {}).get("used-by", "none"))]

    await bench.install(bench.Shop)
    config = await bench.client.create(
        ConfigMap(metadata=ObjectMeta(name="c", namespace="default"), data={"used-by": "x"})
    )
    builder = ControllerBuilder(bench).for_(bench.Shop)
    is_ours = where(ConfigMap, lambda config: config.metadata.name == "c")
    builder.watches(ConfigMap, users, predicates=[is_ours]).complete(log)
    async with bench.running():
        await bench.settled()
        assert log == ["x"]
        config.data = {"used-by": "y"}
        await bench.client.update(config)
        await bench.settled()
    assert sorted(log) == ["x", "x", "y"]


async def test_mapping_may_read_the_cache_and_fail(bench, caplog):
    log = Log()

    async def all_shops(config: ConfigMap) -> list[Request]:
        if config.metadata.name == "bad":
            raise KeyError("bad")
        return [Request("default", shop.metadata.name) async for shop in bench.client.list(bench.Shop)]

    await bench.install(bench.Shop)
    for name in "ab":
        await bench.shop(name)
    ControllerBuilder(bench).for_(bench.Shop).watches(ConfigMap, all_shops).complete(log)
    async with bench.running():
        await bench.settled()
        log.clear()
        await bench.client.create(ConfigMap(metadata=ObjectMeta(name="bad", namespace="default")))
        await bench.client.create(ConfigMap(metadata=ObjectMeta(name="good", namespace="default")))
        await bench.settled()
    assert sorted(log) == ["a", "b"]
    assert "event handler failed" in caplog.text


class Team(NamedTuple):
    """A custom request type."""

    label: str


async def test_requests_may_be_keys_of_any_kind(bench):
    teams = []

    async def reconcile(team: Team) -> None:
        teams.append(team)

    def team_of(metadata: PartialObjectMetadata) -> list[Team]:
        return [Team(metadata.metadata.labels["team"])] if metadata.metadata.labels else []

    builder = ControllerBuilder(bench, "teams").watches(ConfigMap, team_of, metadata_only=True)
    builder.complete(reconcile)
    async with bench.running():
        for name in "abc":
            metadata = ObjectMeta(name=name, namespace="default", labels={"team": "blue"})
            await bench.client.create(ConfigMap(metadata=metadata))
        await bench.settled()
    assert set(teams) == {Team("blue")}


async def test_requests_from_an_async_iterator(bench):
    log = Log()

    async def messages():
        for number in range(3):
            await asyncio.sleep(60)
            yield {"shop": f"s{number}"}

    builder = ControllerBuilder(bench, "messages")
    builder.source(messages(), lambda message: [Request("default", message["shop"])]).complete(log)
    async with bench.running():
        await asyncio.sleep(200)
    assert log == ["s0", "s1", "s2"]


async def test_object_reconciler_receives_the_object(bench):
    seen = []

    async def reconcile(obj: Unstructured) -> Result | None:
        seen.append((obj.metadata.name, obj["spec"]["size"]))
        return None

    await bench.install(bench.Shop)
    await bench.shop("a", size=3)
    ControllerBuilder(bench).for_(GroupVersionKind("example.com", "v1", "Shop")).complete(reconcile)
    async with bench.running():
        await bench.settled()
        await bench.client.delete(bench.Shop, "a", namespace="default")
        await bench.settled()
    assert seen == [("a", 3)]


async def test_sync_reconcilers_run_in_threads(bench):
    seen = []
    Shop = bench.Shop

    def reconcile(shop):
        seen.append(shop.spec.size)

    reconcile.__annotations__["shop"] = Shop
    await bench.install(Shop)
    await bench.shop("a", size=4)
    ControllerBuilder(bench).for_(Shop).complete(reconcile)
    async with bench.running():
        await bench.settled()
    assert seen == [4]


async def test_generation_changed_ignores_status_updates(bench):
    log = Log()
    await bench.install(bench.Shop)
    shop = await bench.shop("a")
    ControllerBuilder(bench).for_(bench.Shop, predicates=[generation_changed]).complete(log)
    async with bench.running():
        await bench.settled()
        shop.status = bench.ShopStatus(ready=1)
        await bench.client.update_status(shop)
        await bench.settled()
        assert log == ["a"]
        shop.spec.size = 2
        await bench.client.update(shop)
        await bench.settled()
    assert log == ["a", "a"]


async def test_a_kind_that_is_installed_later(bench):
    log = Log()
    builder = ControllerBuilder(bench).for_(bench.Shop, optional=True)
    builder.watches(ConfigMap, lambda config: [Request("", config.metadata.name)]).complete(log)
    async with bench.running():
        await bench.client.create(ConfigMap(metadata=ObjectMeta(name="works", namespace="default")))
        await bench.settled()
        assert "works" in log
        await asyncio.sleep(60)
        await bench.install(bench.Shop)
        await bench.shop("late")
        await asyncio.sleep(60)
        await bench.settled()
    assert "late" in log


async def test_start_waits_for_a_required_kind(bench):
    log = Log()
    ControllerBuilder(bench).for_(bench.Shop).complete(log)

    async def install():
        await asyncio.sleep(50)
        await bench.install(bench.Shop)
        await bench.shop("a")

    installing = asyncio.create_task(install())
    async with bench.running():
        await installing
        await asyncio.sleep(30)
        await bench.settled()
    assert log == ["a"]


async def test_objects_of_later_namespaces_are_reconciled(bench):
    log = Log()
    ControllerBuilder(bench).for_(ConfigMap).complete(log)
    async with bench.running():
        await bench.client.create(Namespace(metadata=ObjectMeta(name="new")))
        await bench.client.create(ConfigMap(metadata=ObjectMeta(name="inside", namespace="new")))
        await bench.settled()
    assert "inside" in log


async def test_names_are_unique(bench):
    ControllerBuilder(bench).for_(ConfigMap).complete(Log())
    with pytest.raises(BuildError, match="'configmap' is already in use"):
        ControllerBuilder(bench).for_(ConfigMap).complete(Log())
    assert ControllerBuilder(bench, "other").for_(ConfigMap).complete(Log()).name == "other"


async def test_usage_errors(bench):
    def builder():
        return ControllerBuilder(bench)

    class NotAKind:
        pass

    invalid = [
        (lambda: builder().complete(Log()), "nothing to reconcile"),
        (lambda: builder().for_(ConfigMap).for_(Secret), "already reconciles ConfigMap; use watches"),
        (lambda: builder().owns(ConfigMap).complete(Log()), "owns.* requires for_"),
        (lambda: builder().for_(NotAKind), "decorate it with @resource"),
        (lambda: builder().for_(42), "expected a class"),
        (lambda: builder().watches(ConfigMap), "either a map function or handler"),
        (lambda: builder().watches(ConfigMap, lambda obj: []).complete(Log()), "requires a name"),
        (lambda: builder().for_(ConfigMap, predicates=generation_changed), r"predicates=\[\.\.\.\]"),
        (lambda: builder().for_(ConfigMap, predicates=["x"]), "is not a predicate"),
        (lambda: builder().for_(ConfigMap).complete(42), "expected a function"),
        (lambda: builder().for_(ConfigMap).complete(lambda: None), "takes one argument"),
        (lambda: builder().source(42), "async iterator"),
        (lambda: builder().for_(ConfigMap).with_options(workers=0).complete(Log()), "at least 1"),
    ]
    for make, message in invalid:
        with pytest.raises(ValueError, match=message):
            make()
    assert bench.runnables == []
