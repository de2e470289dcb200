"""Every verb against a server: in process, over TLS, or a real kube-apiserver."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from kubewright.api import (
    AlreadyExists,
    Conflict,
    GroupVersionKind,
    NotFound,
    ObjectMeta,
    PartialObjectMetadata,
    Preconditions,
    Unstructured,
    partial,
)
from kubewright.api.apps.v1 import Deployment, DeploymentSpec
from kubewright.api.authentication.v1 import TokenRequest, TokenRequestSpec
from kubewright.api.core.v1 import ConfigMap, Container, Namespace, PodSpec, PodTemplateSpec, ServiceAccount
from kubewright.api.meta import LabelSelector
from kubewright.cache import Cache, CachedClient
from kubewright.client import (
    ALL_NAMESPACES,
    Client,
    NoKindMatch,
    UnsentChangesError,
    json_patch,
    merge_from,
    merge_patch,
    metadata_of,
    strategic_merge_patch,
)

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


def config_map(name: str, namespace: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace, labels={"app": name}), data=data)


def deployment(name: str, namespace: str, replicas: int = 1) -> Deployment:
    labels = {"app": name}
    return Deployment(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=DeploymentSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(
                metadata=ObjectMeta(labels=labels),
                spec=PodSpec(
                    containers=[Container(name="one", image="one"), Container(name="two", image="two")]
                ),
            ),
        ),
    )


async def test_writes_update_objects_in_place(client: Client, namespace: str) -> None:
    made = config_map("a", namespace, x="1")
    assert await client.create(made) is made
    first = made.metadata.resource_version
    assert first
    assert made.metadata.uid
    made.data = {"x": "2"}
    await client.update(made)
    made.data["y"] = "3"
    await client.update(made)
    assert made.metadata.resource_version != first
    assert (await client.get(ConfigMap, "a", namespace=namespace)).data == {"x": "2", "y": "3"}


async def test_create_existing_object_raises_already_exists(client: Client, namespace: str) -> None:
    await client.create(config_map("a", namespace))
    with pytest.raises(AlreadyExists, match='configmaps "a" already exists'):
        await client.create(config_map("a", namespace))


async def test_update_conflicts_with_concurrent_change(client: Client, namespace: str) -> None:
    ours = await client.create(config_map("a", namespace, x="1"))
    theirs = await client.get(ConfigMap, "a", namespace=namespace)
    theirs.data = {"x": "theirs"}
    await client.update(theirs)
    ours.data = {"x": "ours"}
    with pytest.raises(Conflict, match="the object has been modified"):
        await client.update(ours)


async def test_patch_without_a_patch_sends_only_what_changed(client: Client, namespace: str) -> None:
    ours = await client.create(config_map("a", namespace, x="1"))
    theirs = await client.get(ConfigMap, "a", namespace=namespace)
    theirs.metadata.labels = {"theirs": "yes"}
    await client.update(theirs)
    ours.data = {"x": "ours"}
    await client.patch(ours)
    assert ours.metadata.labels == {"theirs": "yes"}
    assert ours.data == {"x": "ours"}


async def test_update_of_new_object_replaces(client: Client, namespace: str) -> None:
    await client.create(config_map("a", namespace, x="1", y="2"))
    replaced = await client.update(config_map("a", namespace, z="3"))
    assert replaced.data == {"z": "3"}


async def test_dry_run_changes_neither_object_nor_server(client: Client, namespace: str) -> None:
    made = await client.create(config_map("a", namespace, x="1"))
    version = made.metadata.resource_version
    made.data = {"x": "2"}
    dry = await client.with_dry_run().update(made)
    assert dry is not made
    assert dry.data == {"x": "2"}
    assert made.metadata.resource_version == version
    assert (await client.get(ConfigMap, "a", namespace=namespace)).data == {"x": "1"}
    await client.update(made)
    assert (await client.get(ConfigMap, "a", namespace=namespace)).data == {"x": "2"}


async def test_typed_unstructured_and_metadata_objects(client: Client, namespace: str) -> None:
    await client.create(config_map("a", namespace, x="1"))
    plain = await client.get(CONFIG_MAP, "a", namespace=namespace)
    assert isinstance(plain, Unstructured)
    assert plain["data"] == {"x": "1"}
    by_name = await client.get("cm", "a", namespace=namespace)
    assert by_name == plain
    metadata = await client.get(metadata_of(ConfigMap), "a", namespace=namespace)
    assert isinstance(metadata, PartialObjectMetadata)
    assert metadata.metadata.labels == {"app": "a"}
    metadata.metadata.labels = {"app": "b"}
    await client.patch(metadata)
    assert metadata.kind == "ConfigMap"
    assert (await client.get(ConfigMap, "a", namespace=namespace)).data == {"x": "1"}
    with pytest.raises(TypeError, match="PartialObjectMetadata cannot be updated"):
        await client.update(metadata)


async def test_unstructured_objects_are_created_updated_and_deleted(client: Client, namespace: str) -> None:
    made = Unstructured.new(CONFIG_MAP, "u", namespace=namespace)
    await client.create(made)
    made["data"] = {"k": "v"}
    await client.update(made)
    assert (await client.get(ConfigMap, "u", namespace=namespace)).data == {"k": "v"}
    raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d", "namespace": namespace}}
    assert (await client.create(raw))["metadata"]["uid"]
    await client.delete(made)
    await client.delete(raw)
    with pytest.raises(NotFound):
        await client.get("configmaps", "u", namespace=namespace)


async def test_lists_paged_and_complete(client: Client, namespace: str) -> None:
    for number in range(7):
        await client.create(config_map(f"m-{number}", namespace))
    names = [
        each.metadata.name
        async for each in client.list(ConfigMap, namespace=namespace, page_size=3)
        if each.data is None
    ]
    assert {f"m-{number}" for number in range(7)} <= set(names)
    whole = await client.list(ConfigMap, namespace=namespace, page_size=2, labels={"app": "m-3"})
    assert [each.metadata.name for each in whole] == ["m-3"]
    assert whole.resource_version
    assert len(await client.list(ConfigMap, namespace=namespace, limit=4, page_size=3)) == 4
    assert (
        len([each async for each in client.list(metadata_of(ConfigMap), namespace=namespace, limit=2)]) == 2
    )
    everywhere = await client.list("configmaps", labels="app in (m-1,m-2)")
    assert {each.name for each in everywhere if each.namespace == namespace} == {"m-1", "m-2"}
    assert all(each.kind == "ConfigMap" for each in everywhere)


async def test_patch_must_be_a_patch_object(client: Client, namespace: str) -> None:
    with pytest.raises(TypeError, match=r"merge_patch\(\{...\}\), strategic.*, not dict"):
        await client.patch(ConfigMap, "a", {"data": {}}, namespace=namespace)  # type: ignore[call-overload]


async def test_patch_types(client: Client, namespace: str) -> None:
    await client.create(deployment("web", namespace))
    merged = await client.patch(
        Deployment, "web", merge_patch({"spec": {"replicas": 2}}), namespace=namespace
    )
    assert merged.spec is not None
    assert merged.spec.replicas == 2
    await client.patch(merged, json_patch([{"op": "replace", "path": "/spec/replicas", "value": 3}]))
    assert merged.spec.replicas == 3
    change = {"spec": {"template": {"spec": {"containers": [{"name": "two", "image": "new"}]}}}}
    await client.patch(merged, strategic_merge_patch(change))
    assert merged.spec is not None
    assert merged.spec.template.spec is not None
    assert [each.image for each in merged.spec.template.spec.containers] == ["one", "new"]
    before = merged.copy()
    merged.spec.replicas = 4
    patched = await client.patch(merged, merge_from(before, merged, optimistic_lock=True))
    assert patched.spec is not None
    assert patched.spec.replicas == 4
    before.metadata.resource_version = "1"
    with pytest.raises(Conflict):
        await client.patch(merged, merge_from(before, merged, optimistic_lock=True))


async def test_apply_owns_its_fields(client: Client, namespace: str) -> None:
    mine = client.in_namespace(namespace).with_field_manager("mine")
    intent = partial(ConfigMap, metadata={"name": "a"}, data={"x": "1"})
    applied = await mine.apply(intent)
    assert isinstance(applied, ConfigMap)
    assert applied.data == {"x": "1"}
    assert intent["data"] == {"x": "1"}
    assert "uid" not in intent["metadata"]
    other = partial(ConfigMap, metadata={"name": "a"}, data={"x": "2"})
    with pytest.raises(Conflict, match="conflict"):
        await mine.apply(other, field_manager="other")
    forced = await mine.apply(other, field_manager="other", force=True)
    assert forced.data == {"x": "2"}
    typed = await mine.apply(ConfigMap(metadata=ObjectMeta(name="b"), data={"k": "v"}))
    assert [each.manager for each in typed.metadata.managed_fields or ()] == ["mine"]
    with pytest.raises(ValueError, match="requires a field manager"):
        await client.apply(intent)


async def test_update_status_writes_only_status(client: Client, namespace: str) -> None:
    web = await client.create(deployment("web", namespace))
    from kubewright.api.apps.v1 import DeploymentStatus

    web.status = DeploymentStatus(replicas=2, observed_generation=1)
    await client.update_status(web)
    found = await client.get(Deployment, "web", namespace=namespace)
    assert found.status is not None
    assert found.status.replicas == 2
    found.status.replicas = 1
    assert found.spec is not None
    found.spec.replicas = 9
    with pytest.raises(UnsentChangesError, match=r"changes of spec\.replicas would be lost"):
        await client.update_status(found)
    assert (found.spec.replicas, found.status.replicas) == (9, 1)
    await client.update(found)
    found.status.replicas = 1
    await client.update_status(found)
    assert (found.spec.replicas, found.status.replicas) == (9, 1)


async def test_scale_and_other_subresources(client: Client, namespace: str) -> None:
    web = await client.create(deployment("web", namespace))
    assert (await client.scale(web, replicas=5)).spec.replicas == 5
    assert (await client.scale(Deployment, "web", namespace=namespace)).spec.replicas == 5
    await client.create(ServiceAccount(metadata=ObjectMeta(name="robot", namespace=namespace)))
    tokens = client.subresource("token", ServiceAccount, "robot", namespace=namespace)
    request = TokenRequest(spec=TokenRequestSpec(audiences=[], expiration_seconds=3600))
    issued = await tokens.create(request)
    assert issued.status is not None
    assert issued.status.token.count(".") == 2


async def test_deletion_with_preconditions(client: Client, namespace: str) -> None:
    made = await client.create(config_map("a", namespace))
    with pytest.raises(Conflict, match=r"[Pp]recondition"):
        await client.delete(made, preconditions=Preconditions(uid="another"))
    await client.delete(made, preconditions=Preconditions(uid=made.metadata.uid), propagation="Background")
    with pytest.raises(NotFound):
        await client.delete(ConfigMap, "a", namespace=namespace)
    assert await client.delete(ConfigMap, "a", namespace=namespace, missing_ok=True) is None


async def test_object_with_finalizer_stays_in_the_cache(client: Client, namespace: str) -> None:
    made = config_map("a", namespace)
    made.metadata.finalizers = ["example.com/wait"]
    await client.create(made)
    remains = await client.delete(made)
    assert remains is not None
    assert remains.metadata.deletion_timestamp is not None
    remains.metadata.finalizers = None
    await client.update(remains)
    with pytest.raises(NotFound):
        await client.get(ConfigMap, "a", namespace=namespace)


async def test_delete_all_by_labels(client: Client, namespace: str) -> None:
    for name in ("a", "b", "c"):
        await client.create(config_map(name, namespace))
    await client.delete_all(ConfigMap, namespace=namespace, labels="app!=b")
    left = [each.metadata.name for each in await client.list(ConfigMap, namespace=namespace, labels="app")]
    assert left == ["b"]


async def test_in_namespace_rejects_other_namespaces(client: Client, namespace: str) -> None:
    inside = client.in_namespace(namespace)
    await inside.create(ConfigMap(metadata=ObjectMeta(name="a")))
    assert (await inside.get(ConfigMap, "a")).metadata.namespace == namespace
    assert all(each.metadata.namespace == namespace for each in await inside.list(ConfigMap))
    assert await inside.get(Namespace, namespace)
    with pytest.raises(ValueError, match="restricted to namespace"):
        await inside.get(ConfigMap, "a", namespace="default")


async def test_no_namespace_means_that_of_the_client_for_one_object_and_for_lists(
    client: Client, namespace: str
) -> None:
    await client.create(Namespace(metadata=ObjectMeta(name=f"{namespace}-2")))
    await client.create(config_map("where", namespace, x="1"))
    await client.create(config_map("where", f"{namespace}-2", x="2"))
    for mine in (client.with_default_namespace(namespace), client.in_namespace(namespace)):
        found = [await mine.get(ConfigMap, "where"), *await mine.list(ConfigMap, labels="app=where")]
        async with mine.watch(ConfigMap, labels="app=where") as watch:
            found.append((await anext(watch)).object)
        assert [each.namespace for each in found] == [namespace] * 3
    mine = client.with_default_namespace(namespace)
    everywhere = await mine.list(ConfigMap, namespace=ALL_NAMESPACES, labels="app=where")
    assert {each.namespace for each in everywhere} == {namespace, f"{namespace}-2"}
    assert len(everywhere) == len(await client.list(ConfigMap, labels="app=where"))
    async with Cache(mine, allow=(ConfigMap,)) as cache:
        assert [each.namespace for each in await cache.list(ConfigMap, labels="app=where")] == [namespace]
        assert len(await cache.list(ConfigMap, namespace=ALL_NAMESPACES, labels="app=where")) == 2
        cached = CachedClient.from_client(mine, cache)
        assert [each.namespace for each in await cached.list(ConfigMap, labels="app=where")] == [namespace]


async def test_the_former_order_of_patch_is_accepted_with_a_warning(client: Client, namespace: str) -> None:
    await client.create(config_map("a", namespace, x="1"))
    change = merge_patch({"data": {"x": "2"}})
    former: Any = client.patch
    with pytest.warns(DeprecationWarning, match=r"use patch\(kind, name, patch\)") as caught:
        patched = await former(ConfigMap, change, name="a", namespace=namespace)
    assert patched.data == {"x": "2"}
    assert caught[0].filename == __file__
    with warnings.catch_warnings(action="error"):
        await client.patch(ConfigMap, "a", change, namespace=namespace)
        await client.patch(ConfigMap, name="a", patch=change, namespace=namespace)
        await client.patch(patched, change)
        await client.patch(patched, patch=change)


async def test_create_or_update(client: Client, namespace: str) -> None:
    def wanted(found: ConfigMap) -> None:
        found.data = {"wanted": "yes"}

    intent = ConfigMap(metadata=ObjectMeta(name="a", namespace=namespace))
    assert (await client.create_or_update(intent, wanted))[1] == "created"
    assert (await client.create_or_update(intent, wanted))[1] == "unchanged"
    found = await client.get(ConfigMap, "a", namespace=namespace)
    found.data = {"wanted": "no"}
    await client.update(found)
    updated, outcome = await client.create_or_update(intent, wanted)
    assert outcome == "updated"
    assert updated.data == {"wanted": "yes"}

    async def more(found: ConfigMap) -> None:
        found.data = {"wanted": "more"}

    assert (await client.create_or_patch(intent, more))[1] == "updated"


async def test_impersonation_is_checked_by_the_server(client: Client, namespace: str) -> None:
    from kubewright.api import Forbidden

    with pytest.raises(Forbidden, match='User "jane" cannot get resource "configmaps"'):
        await client.with_impersonation("jane", ["team"]).get(ConfigMap, "a", namespace=namespace)


async def test_strict_field_validation_names_the_field(client: Client, namespace: str) -> None:
    from kubewright.api import BadRequest

    made = Unstructured.new(CONFIG_MAP, "u", namespace=namespace)
    made["dta"] = {}
    with pytest.raises(BadRequest, match='unknown field "dta"'):
        await client.with_field_validation("Strict").create(made)


async def test_missing_kind_error_names_the_kind(client: Client) -> None:
    with pytest.raises(NoKindMatch, match="install its CRD"):
        await client.get(GroupVersionKind("example.com", "v1", "Nothing"), "a")


async def test_interceptors_wrap_requests(client: Client, namespace: str) -> None:
    seen: list[str] = []

    async def outer(call: object, proceed: object) -> object:
        seen.append(f"{call.verb} {call.resource}")  # type: ignore[attr-defined]
        return await proceed(call)  # type: ignore[operator]

    async def failing(call: object, proceed: object) -> object:
        raise NotFound("made up")

    watched = client.with_interceptor(outer)  # type: ignore[arg-type]
    await watched.create(config_map("a", namespace))
    assert seen == ["create configmaps"]
    with pytest.raises(NotFound, match="made up"):
        await watched.with_interceptor(failing).get(ConfigMap, "a", namespace=namespace)  # type: ignore[arg-type]
