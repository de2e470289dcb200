"""`Cache`: shared bytes, filters, indexes, kinds that are installed and removed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from kubewright import CustomResource, Spec, Status, resource
from kubewright.api import GroupVersionKind, NotFound, ObjectMeta, OwnerReference
from kubewright.api.core.v1 import ConfigMap, Namespace, Secret, ServiceAccount
from kubewright.cache import (
    Cache,
    CacheCollector,
    CacheError,
    CachingNotAllowed,
    KindOptions,
    NoInformer,
    NotCached,
    NotSynced,
    ObjectChange,
    by_field,
    by_function,
    by_label,
    by_owner,
)
from kubewright.cache.stores.store import ObjectKey
from kubewright.client import Client, NoKindMatch, metadata_of
from kubewright.manifests.crds import crd

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
APP = GroupVersionKind("cache.example.com", "v1", "App")


def config_map(name: str, namespace: str, owner: str = "", **labels: str) -> ConfigMap:
    owners = [OwnerReference(api_version="v1", kind="ConfigMap", name="owner", uid=owner)] if owner else None
    metadata = ObjectMeta(name=name, namespace=namespace, labels=labels or None, owner_references=owners)
    return ConfigMap(metadata=metadata, data={"name": name})


def in_namespace(*namespaces: str, **options: Any) -> dict[Any, KindOptions]:
    return {ConfigMap: KindOptions(namespaces=namespaces, **options)}


async def until(condition: Any) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.005)


async def test_typed_unstructured_and_metadata_share_bytes(client: Client, namespace: str) -> None:
    await client.create(config_map("a", namespace, app="web"))
    async with Cache(client, kinds=in_namespace(namespace)) as cache:
        typed = await cache.get(ConfigMap, "a", namespace=namespace)
        unstructured = await cache.get(CONFIG_MAP, "a", namespace=namespace)
        metadata = await cache.get(metadata_of(ConfigMap), "a", namespace=namespace)
        by_name = await cache.get("cm", "a", namespace=namespace)
        assert typed.data == {"name": "a"} == unstructured["data"] == by_name["data"]
        assert (unstructured.api_version, unstructured.kind) == ("v1", "ConfigMap")
        assert (metadata.kind, metadata.metadata.labels) == ("ConfigMap", {"app": "web"})
        assert len(cache.usage()) == 1
        typed.data["name"] = "changed"
        assert (await cache.get(ConfigMap, "a", namespace=namespace)).data == {"name": "a"}
        assert typed.metadata.managed_fields is None


async def test_handlers_receive_changes_in_order(client: Client, namespace: str) -> None:
    heard: list[tuple[str, bool, bool]] = []

    def handler(change: ObjectChange) -> None:
        heard.append((change.key.name, change.old is not None, change.new is not None))

    await client.create(config_map("before", namespace))
    async with Cache(client, kinds=in_namespace(namespace)) as cache:
        informer = await cache.informer(ConfigMap)
        informer.add_handler(handler)
        await cache.wait_for_sync()
        made = await client.create(config_map("a", namespace))
        made.data = {"x": "y"}
        await client.update(made)
        await client.delete(made)
        ours = [("a", False, True), ("a", True, True), ("a", True, False)]
        await until(lambda: [each for each in heard if each[0] == "a"] == ours)
        assert ("before", False, True) in heard
        late: list[ObjectChange] = []
        informer.add_handler(late.append)
        assert [change.key.name for change in late if change.initial] == [
            key.name for key, _ in informer.store.entries()
        ]
        late.clear()
        informer.resync()
        assert len(late) == len(informer.store)
        assert all(change.old is change.new for change in late)
        informer.remove_handler(late.append)
        informer.remove_handler(handler)


async def test_lists_by_namespace_labels_fields_and_owner(client: Client, namespace: str) -> None:
    owner = await client.create(config_map("owner", namespace))
    uid = owner.metadata.uid or ""
    for index in range(6):
        tier = "front" if index % 2 else "back"
        await client.create(
            config_map(f"m-{index}", namespace, owner=uid if index < 2 else "", tier=tier, app="web")
        )
    async with Cache(client, kinds=in_namespace(namespace)) as cache:
        cache.add_index(
            ConfigMap,
            by_label("tier"),
            by_owner(),
            by_field("data.name"),
            by_function("initial", ConfigMap, lambda each: (each.metadata.name or "?")[0]),
        )

        async def names(**options: Any) -> list[str]:
            listed = await cache.list(ConfigMap, namespace=namespace, **options)
            assert listed.resource_version.isdecimal()
            return sorted(
                each.metadata.name or "" for each in listed if each.metadata.name != "kube-root-ca.crt"
            )

        assert len(await names()) == 7
        assert await names(labels="tier=front") == ["m-1", "m-3", "m-5"]
        assert await names(labels={"tier": "front", "app": "none"}) == []
        assert await names(labels="tier in (front, back),app") == [f"m-{index}" for index in range(6)]
        assert await names(fields={"data.name": "m-4"}) == ["m-4"]
        assert await names(fields={"initial": "m", "data.name": "m-4"}, labels="tier=back") == ["m-4"]
        assert await names(fields="metadata.name=m-2") == ["m-2"]
        assert await names(owner=uid) == ["m-0", "m-1"]
        assert len(await cache.list(ConfigMap, namespace=namespace, limit=3)) == 3
        one_by_one = [
            each.metadata.name async for each in cache.list(metadata_of(ConfigMap), namespace=namespace)
        ]
        assert "m-0" in one_by_one
        with pytest.raises(NotCached, match=r'add_index\(ConfigMap, by_field\("data.other"\)\)'):
            await names(fields={"data.other": "x"})
        with pytest.raises(NotCached, match=r"cannot select data.name!=x"):
            await names(fields="data.name!=x")
        moved = await client.get(ConfigMap, "m-4", namespace=namespace)
        moved.metadata.labels = {"tier": "front"}
        await client.update(moved)
        await client.delete(ConfigMap, "m-1", namespace=namespace)
        informer = await cache.informer(ConfigMap)
        await until(lambda: informer.store.get(ObjectKey(namespace, "m-1")) is None)
        assert await names(labels="tier=front") == ["m-3", "m-4", "m-5"]
        assert await names(owner=uid) == ["m-0"]


async def test_objects_outside_the_scope_raise_not_cached(client: Client, namespace: str) -> None:
    await client.create(config_map("inside", namespace, app="web"))
    await client.create(config_map("outside", namespace))
    async with Cache(client, kinds=in_namespace(namespace, labels="app=web")) as cache:
        assert (await cache.get(ConfigMap, "inside", namespace=namespace)).data
        assert [each.metadata.name for each in await cache.list(ConfigMap)] == ["inside"]
        with pytest.raises(NotCached, match=f"limited to namespaces {namespace} and labels app=web"):
            await cache.get(ConfigMap, "outside", namespace=namespace)
        with pytest.raises(NotCached, match="outside the scope of this cache"):
            await cache.get(ConfigMap, "inside", namespace="default")
        with pytest.raises(NotCached, match="'default' is not cached"):
            await cache.list(ConfigMap, namespace="default")
    async with Cache(client, namespaces=[namespace]) as cache:
        with pytest.raises(NotFound, match='configmaps "missing" not found'):
            await cache.get(ConfigMap, "missing", namespace=namespace)


async def test_several_namespaces_in_one_informer(client: Client, namespace: str) -> None:
    other = f"{namespace}-other"
    await client.create(Namespace(metadata=ObjectMeta(name=other)))
    await client.create(config_map("a", namespace))
    await client.create(config_map("b", other))
    async with Cache(client, namespaces=(namespace, other)) as cache:
        names = {each.metadata.name for each in await cache.list(ConfigMap)} - {"kube-root-ca.crt"}
        assert names == {"a", "b"}
        assert (await cache.get(ConfigMap, "b", namespace=other)).data == {"name": "b"}
        assert {each.metadata.name for each in await cache.list(Namespace)} >= {namespace, other, "default"}
        assert (await cache.get(Namespace, other, namespace="ignored")).metadata.name == other


async def test_cluster_wide_secrets_are_not_cached_by_default(client: Client) -> None:
    async with Cache(client) as cache:
        with pytest.raises(CachingNotAllowed, match=r"allow=\(Secret,\)"):
            await cache.get(Secret, "any", namespace="default")
        with pytest.raises(CachingNotAllowed, match=r"KindOptions\(labels=...\)"):
            await cache.informer(ConfigMap)
        await cache.informer(metadata_of(Secret))
        with pytest.raises(CachingNotAllowed):
            await cache.informer(Secret)
    async with Cache(client, allow=(Secret, ConfigMap), kinds={Secret: KindOptions()}) as cache:
        await cache.list(Secret)
        await cache.list(ConfigMap)


async def test_metadata_informer_upgrade_calls_no_handlers(client: Client, namespace: str) -> None:
    await client.create(config_map("a", namespace, app="web"))
    heard: list[ObjectChange] = []
    async with Cache(client, namespaces=(namespace,)) as cache:
        informer = await cache.informer(metadata_of(ConfigMap))
        await cache.wait_for_sync()
        assert informer.metadata_only
        assert (await cache.get(metadata_of(ConfigMap), "a", namespace=namespace)).metadata.labels == {
            "app": "web"
        }
        informer.add_handler(heard.append)
        heard.clear()
        assert (await cache.get(ConfigMap, "a", namespace=namespace)).data == {"name": "a"}
        assert await cache.informer(metadata_of(ConfigMap)) is informer
        assert informer.metadata_only is bool(heard)
        assert all(b'"data"' in entry.raw for _, entry in informer.store.entries())
        assert heard == []
        await client.create(config_map("b", namespace))
        await until(lambda: [change.key.name for change in heard] == ["b"])


async def test_kind_installed_later_is_cached(client: Client) -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "apps.cache.example.com"},
        "spec": {
            "group": "cache.example.com",
            "scope": "Namespaced",
            "names": {"plural": "apps", "kind": "App", "singular": "app", "listKind": "AppList"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                    },
                }
            ],
        },
    }
    async with Cache(client) as cache:
        informer = await cache.informer(APP)
        with pytest.raises(NoKindMatch, match="install its CRD"):
            await cache.get(APP, "a", namespace="default")
        with pytest.raises(NotSynced, match=r"cache.example.com/v1, Kind=App: .*"):
            await cache.wait_for_sync(timeout=0.01)
        await client.create(definition)
        try:
            async with asyncio.timeout(120):
                while not informer.has_synced:
                    cache.retry_now()
                    await asyncio.sleep(0.05)
            await client.create(
                {"apiVersion": "cache.example.com/v1", "kind": "App", "metadata": {"name": "a"}}
            )
            await until(lambda: len(informer.store) == 1)
            assert (await cache.get(APP, "a", namespace="default")).name == "a"
        finally:
            await client.delete(
                GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
                "apps.cache.example.com",
            )


@resource(group="optional.example.com", version="v1")
class Extra(CustomResource[Spec, Status]):
    """A kind that not every server has."""


async def test_optional_kind_is_empty_until_it_is_served(client: Client) -> None:
    async with Cache(client, kinds={Extra: KindOptions(optional=True)}) as cache:
        informer = await cache.informer(Extra)
        await cache.wait_for_sync()
        assert await cache.list(Extra, namespace="default") == []
        assert not informer.is_current
        with pytest.raises(NotFound):
            await cache.get(Extra, "a", namespace="default")
        await client.create(crd(Extra))
        try:
            async with asyncio.timeout(120):
                while not informer.is_current:
                    cache.retry_now()
                    await asyncio.sleep(0.05)
            await client.create(Extra(metadata=ObjectMeta(name="a", namespace="default"), spec=Spec()))
            await until(lambda: len(informer.store) == 1)
            assert (await cache.get(Extra, "a", namespace="default")).metadata.name == "a"
        finally:
            await client.delete("customresourcedefinitions", "extras.optional.example.com")


async def test_informers_are_created_and_removed(client: Client, namespace: str) -> None:
    cache = Cache(client)
    with pytest.raises(CacheError, match="not started"):
        await cache.get(ServiceAccount, "default", namespace=namespace)
    informer = await cache.informer(ServiceAccount)
    assert not informer.is_running
    await cache.start()
    await cache.wait_for_sync()
    assert informer.has_synced
    await client.create(ServiceAccount(metadata=ObjectMeta(name="a", namespace=namespace)))
    await until(lambda: len(informer.store) >= 1)
    (usage,) = cache.usage()
    assert (usage.gvk.kind, usage.has_synced, usage.objects > 0, usage.bytes > 100) == (
        "ServiceAccount",
        True,
        True,
        True,
    )
    registry = CollectorRegistry()
    registry.register(CacheCollector(cache))
    labels = {"group": "", "version": "v1", "kind": "ServiceAccount"}
    assert registry.get_sample_value("kubewright_cache_objects", labels) == len(informer.store)
    assert registry.get_sample_value("kubewright_cache_bytes", labels) == informer.store.bytes
    await cache.remove_informer(ServiceAccount)
    assert not informer.is_running
    assert cache.existing_informer(ServiceAccount) is None
    assert (await cache.get(ServiceAccount, "a", namespace=namespace)).metadata.name == "a"
    assert await cache.informer(ServiceAccount) is not informer
    await cache.stop()


async def test_fail_on_missing_informer(client: Client) -> None:
    async with Cache(client, fail_on_missing_informer=True) as cache:
        with pytest.raises(NoInformer, match="ServiceAccount has no informer"):
            await cache.list(ServiceAccount)
        await cache.informer(ServiceAccount)
        await cache.list(ServiceAccount)


async def test_transform_changes_stored_bytes(client: Client, namespace: str) -> None:
    await client.create(config_map("a", namespace))
    options = in_namespace(
        namespace, transform=lambda raw, header: raw.replace(b'"name":"a"', b'"name":"A"', 1)
    )
    async with Cache(client, kinds=options) as cache:
        kept = (await cache.list(ConfigMap)).copy()
        assert "A" in {each.metadata.name for each in kept} | {(each.data or {}).get("name") for each in kept}
