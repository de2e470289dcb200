"""Desired state: apply and delete the objects of an owner."""

import contextlib

import pytest

from kubewright.api import ObjectMeta, OwnerError, controller_of, partial, set_controller_reference
from kubewright.api.apps.v1 import Deployment
from kubewright.api.core.v1 import ConfigMap, Secret
from kubewright.api.errors import Invalid
from kubewright.client import merge_patch
from kubewright.client.membership import FieldManager
from kubewright.controller import AdoptionError, ControllerBuilder, DesiredState, ObjectSets


def config(name, **data):
    return ConfigMap(metadata=ObjectMeta(name=name), data=data)


def deployment(name, image="nginx", **labels):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "containers": [{"name": "web", "image": image, "resources": {"limits": {"cpu": "1000m"}}}]
                },
            },
        },
    }


@pytest.fixture
async def shop(bench):
    await bench.install(bench.Shop)
    made = await bench.shop("a")
    bench.writes.clear()
    return made


def desired_state(bench, *kinds, **options):
    chosen = kinds or (ConfigMap, Deployment)
    return DesiredState(bench.client, bench.cache, kinds=chosen, field_manager="shops", **options)


async def names(bench, kind):
    return sorted(
        [
            obj.metadata.name
            async for obj in bench.client.uncached.list(kind, namespace="default")
            if obj.metadata.owner_references
        ]
    )


async def test_objects_are_created_with_owner_and_not_rewritten(bench, shop):
    state = desired_state(bench)
    wanted = [config("one", a="1"), deployment("web")]
    changes = await state.ensure(shop, wanted)
    assert changes.applied == ["ConfigMap default/one", "Deployment default/web"]
    made = await bench.client.uncached.get(ConfigMap, "one", namespace="default")
    assert made.data == {"a": "1"}
    assert controller_of(made).uid == shop.metadata.uid
    writes = len(bench.writes)
    for _ in range(5):
        changes = await state.ensure(shop, wanted)
        assert not changes
        assert len(changes.unchanged) == 2
    assert len(bench.writes) == writes == 2


async def test_drift_from_a_value_that_equals_the_default_is_reverted(bench, shop):
    state = desired_state(bench, bench.Shop)
    wanted = [bench.Shop(metadata=ObjectMeta(name="branch"), spec=bench.ShopSpec(size=1))]
    await state.ensure(shop, wanted)
    drift = merge_patch({"spec": {"size": 7, "address": "elsewhere"}})
    await bench.client.patch(bench.Shop, "branch", drift, namespace="default")
    changes = await state.ensure(shop, wanted)
    assert changes.applied == ["Shop default/branch"]
    branch = await bench.client.uncached.get(bench.Shop, "branch", namespace="default")
    assert (branch.spec.size, branch.spec.address) == (1, "elsewhere")


async def test_only_undesired_objects_are_deleted(bench, shop):
    other = await bench.shop("other")
    state = desired_state(bench)
    await state.ensure(shop, [config("one"), config("two"), deployment("web")])
    await state.ensure(other, [config("theirs")])
    loose = ConfigMap(metadata=ObjectMeta(name="loose", namespace="default"))
    await bench.client.create(loose)
    secret = Secret(metadata=ObjectMeta(name="undeclared", namespace="default"))
    set_controller_reference(shop, secret)
    await bench.client.create(secret)
    changes = await state.ensure(shop, [config("two")])
    assert sorted(changes.deleted) == ["ConfigMap default/one", "Deployment default/web"]
    assert await names(bench, ConfigMap) == ["theirs", "two"]
    assert await names(bench, Secret) == ["undeclared"]
    assert await bench.client.uncached.get(ConfigMap, "loose", namespace="default")


async def test_a_part_of_the_objects_is_applied_without_pruning(bench, shop):
    state = desired_state(bench)
    await state.ensure(shop, [config("one"), config("two")])
    loose = ConfigMap(metadata=ObjectMeta(name="loose", namespace="default"))
    await bench.client.create(loose)
    changes = await state.ensure(shop, [config("two", a="1")], prune=False)
    assert (changes.applied, changes.deleted) == (["ConfigMap default/two"], [])
    assert await names(bench, ConfigMap) == ["one", "two"]
    assert not await state.ensure(shop, [config("two", a="1")], prune=False)
    with pytest.raises(AdoptionError, match="ConfigMap default/loose exists already"):
        await state.ensure(shop, [config("loose")], prune=False)
    with pytest.warns(DeprecationWarning, match=r"use ensure\(\.\.\., prune=False\)"):
        desired_state(bench, prune=False)


async def test_changes_of_other_clients_are_reverted(bench, shop):
    state = desired_state(bench)
    wanted = [config("one", a="1"), deployment("web")]
    await state.ensure(shop, wanted)
    edited = await bench.client.get(Deployment, "web", namespace="default")
    edited.spec.template.spec.containers[0].image = "other"
    await bench.client.update(edited)
    one = await bench.client.get(ConfigMap, "one", namespace="default")
    one.data = {"a": "2"}
    await bench.client.update(one)
    changes = await state.ensure(shop, wanted)
    assert len(changes.applied) == 2
    healed = await bench.client.uncached.get(Deployment, "web", namespace="default")
    assert healed.spec.template.spec.containers[0].image == "nginx"
    await bench.client.delete(ConfigMap, "one", namespace="default")
    assert (await state.ensure(shop, wanted)).applied == ["ConfigMap default/one"]


async def test_status_and_foreign_fields_cause_no_write(bench, shop):
    state = desired_state(bench)
    wanted = [deployment("web")]
    await state.ensure(shop, wanted)
    current = await bench.client.get(Deployment, "web", namespace="default")
    current.status.observed_generation = 1
    await bench.client.update_status(current)
    current = await bench.client.get(Deployment, "web", namespace="default")
    current.spec.replicas = 4
    current.metadata.annotations = {"note": "scaled by hand"}
    await bench.client.update(current)
    bench.writes.clear()
    assert not await state.ensure(shop, wanted)
    assert bench.writes == []
    assert (await bench.client.uncached.get(Deployment, "web", namespace="default")).spec.replicas == 4


async def test_field_that_is_no_longer_applied_is_removed(bench, shop):
    state = desired_state(bench)
    await state.ensure(shop, [config("one", a="1", b="2")])
    await state.ensure(shop, [config("one", a="1")])
    assert (await bench.client.uncached.get(ConfigMap, "one", namespace="default")).data == {"a": "1"}


async def test_a_restart_writes_once_and_changes_nothing(bench, shop):
    wanted = [config("one", a="1"), deployment("web")]
    await desired_state(bench).ensure(shop, wanted)
    before = (
        await bench.client.uncached.get(ConfigMap, "one", namespace="default")
    ).metadata.resource_version
    again = desired_state(bench)
    await again.ensure(shop, wanted)
    await again.ensure(shop, wanted)
    assert (
        await bench.client.uncached.get(ConfigMap, "one", namespace="default")
    ).metadata.resource_version == before
    assert len(bench.writes) == 4


async def test_failed_apply_prevents_deletions(bench, shop):
    state = desired_state(bench)
    await state.ensure(shop, [config("one"), config("two")])
    broken = deployment("web")
    broken["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    with pytest.raises(Invalid):
        await state.ensure(shop, [config("two"), broken])
    assert await names(bench, ConfigMap) == ["one", "two"]
    changes = await state.ensure(shop, [config("two"), deployment("web")])
    assert changes.deleted == ["ConfigMap default/one"]


async def test_objects_of_another_controller_are_not_adopted(bench, shop):
    other = await bench.shop("other")
    state = desired_state(bench)
    await state.ensure(other, [config("shared", a="1")])
    with pytest.raises(OwnerError, match="controlled by Shop other"):
        await state.ensure(shop, [config("shared", a="2")])
    assert (await bench.client.uncached.get(ConfigMap, "shared", namespace="default")).data == {"a": "1"}


async def test_desired_state_of_kinds_cached_as_metadata(bench, shop):
    state = desired_state(bench, Secret)
    wanted = [Secret(metadata=ObjectMeta(name="token"), string_data={"a": "1"})]
    await state.ensure(shop, wanted)
    assert bench.cache.existing_informer(Secret).metadata_only
    assert not await state.ensure(shop, wanted)
    edited = await bench.client.uncached.get(Secret, "token", namespace="default")
    edited.data = {"a": b"2"}
    await bench.client.uncached.update(edited)
    assert (await state.ensure(shop, wanted)).applied == ["Secret default/token"]
    assert (await state.ensure(shop, [])).deleted == ["Secret default/token"]


async def test_errors_have_a_note_with_the_object_and_the_progress(bench, shop):
    state = desired_state(bench)
    with pytest.raises(Invalid) as caught:
        await state.ensure(shop, [config("first"), deployment("Not_A_Name"), config("third")])
    assert caught.value.__notes__ == ["while applying Deployment Not_A_Name; 1 of 3 objects were applied"]
    assert await names(bench, ConfigMap) == ["first"]


async def test_usage_errors(bench, shop):
    state = desired_state(bench)
    with pytest.raises(ValueError, match=r"not a declared kind.*kinds=\[...\]"):
        await state.ensure(shop, [Secret(metadata=ObjectMeta(name="x"))])
    for single in (ConfigMap(metadata=ObjectMeta(name="x")), {"kind": "ConfigMap"}):
        with pytest.raises(TypeError, match=r"a list of all desired objects: ensure\(\["):
            await state.ensure(shop, single)
    with pytest.raises(ValueError, match="twice"):
        await state.ensure(shop, [config("x"), config("x")])
    with pytest.raises(ValueError, match="has no name"):
        await state.ensure(shop, [ConfigMap()])
    with pytest.raises(OwnerError, match="same namespace"):
        await state.ensure(shop, [ConfigMap(metadata=ObjectMeta(name="x", namespace="kube-system"))])
    with pytest.raises(ValueError, match="field_manager"):
        DesiredState(bench.client, bench.cache, kinds=[], field_manager="")


async def test_two_writes_per_object(bench):
    state = desired_state(bench, ConfigMap)
    Shop, ShopStatus = bench.Shop, bench.ShopStatus

    async def reconcile(shop):
        await state.ensure(shop, [config(f"{shop.metadata.name}-config", size=str(shop.spec.size))])
        shop.status = ShopStatus(ready=shop.spec.size)
        if shop.status != before(shop):
            await bench.client.update_status(shop)

    seen = {}

    def before(shop):
        previous, seen[shop.metadata.name] = seen.get(shop.metadata.name), shop.status
        return previous

    reconcile.__annotations__["shop"] = Shop
    await bench.install(Shop)
    for number in range(20):
        await bench.shop(f"s{number}", size=number)
    bench.writes.clear()
    ControllerBuilder(bench).for_(Shop).owns(ConfigMap).with_options(workers=10).complete(reconcile)
    async with bench.running():
        await bench.settled()
    assert sorted(bench.writes) == ["patch configmaps"] * 20 + ["patch shops.example.com/status"] * 20


async def test_partial_objects_are_applied(bench, shop):
    state = desired_state(bench)
    intent = partial(ConfigMap, metadata=partial(ObjectMeta, name="one"), data={"a": "1"})
    await state.ensure(shop, [intent])
    assert (await bench.client.uncached.get(ConfigMap, "one", namespace="default")).data == {"a": "1"}


class Crash(BaseException):
    """The end of a process."""


def crashing(client, number, *, after):
    """Return a client whose process ends before or after the write with this number, from 1."""
    writes = 0

    async def crash(call, proceed):
        nonlocal writes
        if call.method == "GET":
            return await proceed(call)
        writes += 1
        if writes == number and not after:
            raise Crash
        response = await proceed(call)
        if writes == number:
            raise Crash
        return response

    return client.with_interceptor(crash)


def applying(bench, make, client=None, **options):
    kinds = {"kinds": [ConfigMap]} if make is DesiredState else {}
    return make(client or bench.client, bench.cache, field_manager="shops", **kinds, **options)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("make", [DesiredState, ObjectSets])
async def test_a_crash_at_any_write_loses_no_object(bench, shop, make, after):
    """An object that was applied is deleted after a restart, and one of another controller is not."""
    others = DesiredState(bench.client, bench.cache, kinds=[ConfigMap], field_manager="others")
    await others.ensure(shop, [config("theirs")])
    number, crashed = 0, True
    while crashed:
        number += 1
        for wanted in (["one", "two"], ["two", "three"]):
            client = crashing(bench.client, number, after=after)
            owner = await bench.client.uncached.get(bench.Shop, "a", namespace="default")
            try:
                await applying(bench, make, client).ensure(owner, [config(each) for each in wanted])
                crashed = False
            except Crash:
                crashed = True
        owner = await bench.client.uncached.get(bench.Shop, "a", namespace="default")
        await applying(bench, make).ensure(owner, [])
        assert await names(bench, ConfigMap) == ["theirs"]
    assert number > 3


async def test_a_crash_during_a_takeover_loses_no_object(bench, shop):
    manager = FieldManager("shops", former=frozenset(("old",)))
    for number in (1, 2, 3):
        old = DesiredState(bench.client, bench.cache, kinds=[ConfigMap], field_manager="old")
        await old.ensure(shop, [config("one", a="1", b="1")])
        client = crashing(bench.client, number, after=True)
        state = DesiredState(client, bench.cache, kinds=[ConfigMap], field_manager=manager)
        with contextlib.suppress(Crash):
            await state.ensure(shop, [config("one", a="2")])
        state = DesiredState(bench.client, bench.cache, kinds=[ConfigMap], field_manager=manager)
        await state.ensure(shop, [config("one", a="2")])
        found = await bench.client.uncached.get(ConfigMap, "one", namespace="default")
        assert found.data == {"a": "2"}
        assert {each.manager for each in found.metadata.managed_fields} == {"shops"}
        await state.ensure(shop, [])
        assert await names(bench, ConfigMap) == []


async def test_an_object_that_another_controller_applies_meanwhile_is_not_deleted(bench, shop):
    """The other controller applies it after this one has decided to delete it."""
    await desired_state(bench).ensure(shop, [config("one", a="1")])
    others = DesiredState(bench.client, bench.cache, kinds=[ConfigMap], field_manager="others")

    async def apply_first(call, proceed):
        if call.verb == "delete":
            await others.ensure(shop, [config("one", b="2")])
        return await proceed(call)

    client = bench.client.with_interceptor(apply_first)
    state = DesiredState(client, bench.cache, kinds=[ConfigMap], field_manager="shops")
    assert not (await state.ensure(shop, [])).deleted
    found = await bench.client.uncached.get(ConfigMap, "one", namespace="default")
    assert found.data == {"b": "2"}
    assert (await others.ensure(shop, [])).deleted == ["ConfigMap default/one"]


async def test_fields_of_others_do_not_keep_an_object(bench, shop):
    """A manager that has applied some field, but not the owner reference, does not want the object."""
    state = desired_state(bench)
    await state.ensure(shop, [config("one")])
    note = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "annotations": {"a": "b"}}}
    await bench.client.apply(note, field_manager="user", namespace="default")
    assert (await state.ensure(shop, [])).deleted == ["ConfigMap default/one"]
