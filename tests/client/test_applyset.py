"""ApplySets: order, inventory, pruning, protection of custom objects, dry runs, and waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubewright.api import GroupKind, ObjectMeta, Unstructured
from kubewright.api.apps.v1 import Deployment
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.errors import Conflict
from kubewright.client import Client, is_deleted, merge_patch
from kubewright.client.applyset import ApplySet
from kubewright.client.applyset_inventory import CRD, ApplySetError, apply_set_id
from kubewright.client.membership import PART_OF_LABEL
from kubewright.client.readiness import Readiness

NAMESPACE = "set-system"
LAMPS = "lamps.set.example.com"
Manifest = dict[str, Any]


def config_map(name: str, **data: str) -> Manifest:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def namespace() -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def definition() -> Manifest:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": LAMPS},
        "spec": {
            "group": "set.example.com",
            "scope": "Namespaced",
            "names": {"kind": "Lamp", "plural": "lamps", "singular": "lamp"},
            "versions": [version],
        },
    }


def lamp(name: str = "desk") -> Manifest:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "set.example.com/v1", "kind": "Lamp", "metadata": metadata, "spec": {"on": True}}


@pytest.fixture
async def lamps(client: Client) -> AsyncIterator[ApplySet]:
    yield ApplySet(client, "lamps", namespace=NAMESPACE)
    await client.delete("customresourcedefinitions", LAMPS, missing_ok=True)
    await client.wait("customresourcedefinitions", LAMPS, until=is_deleted)
    for each in ("lamps", "one", "two"):
        await client.delete(ConfigMap, each, namespace=NAMESPACE, missing_ok=True)


async def apply(apply_set: ApplySet, *objects: Manifest, **options: Any) -> list[str]:
    return [str(change) async for change in apply_set.apply(objects, **options)]


def test_identifier_is_that_of_the_specification() -> None:
    # the parent of kubectl's own tests
    secret = GroupKind("", "Secret")
    assert apply_set_id("my-set", namespace="test", kind=secret) == (
        "applyset-0eFHV8ySqp7XoShsGvyWFQD3s96yqwHmzc4e0HR1dsY-v1"
    )


async def test_objects_are_applied_in_order_and_pruned(client: Client, lamps: ApplySet) -> None:
    first = await apply(lamps, lamp(), config_map("one"), config_map("two"), definition(), namespace())
    assert first == [
        "namespace/set-system created",
        f"customresourcedefinition.apiextensions.k8s.io/{LAMPS} created",
        "configmap/one created",
        "configmap/two created",
        "lamp.set.example.com/desk created",
    ]
    parent = await client.get(ConfigMap, "lamps", namespace=NAMESPACE)
    assert parent.metadata.labels == {"applyset.kubernetes.io/id": lamps.id}
    assert parent.metadata.annotations == {
        "applyset.kubernetes.io/tooling": "kubewright/v1",
        "applyset.kubernetes.io/contains-group-kinds": (
            "ConfigMap,CustomResourceDefinition.apiextensions.k8s.io,Lamp.set.example.com,Namespace"
        ),
        "applyset.kubernetes.io/additional-namespaces": "",
    }
    assert len(await lamps.members()) == 5
    again = await apply(lamps, namespace(), definition(), config_map("one", size="1"))
    assert again == [
        "namespace/set-system unchanged",
        f"customresourcedefinition.apiextensions.k8s.io/{LAMPS} unchanged",
        "configmap/one configured",
        "lamp.set.example.com/desk deleted",
        "configmap/two deleted",
    ]
    parent = await client.get(ConfigMap, "lamps", namespace=NAMESPACE)
    assert "Lamp" not in (parent.metadata.annotations or {})["applyset.kubernetes.io/contains-group-kinds"]


@pytest.mark.parametrize("exists", [False, True])
async def test_processes_that_extend_the_inventory_at_the_same_time_lose_nothing(
    client: Client, lamps: ApplySet, exists: bool
) -> None:
    await apply(lamps, namespace(), *([config_map("one")] if exists else []))
    if not exists:
        await client.delete(ConfigMap, "lamps", namespace=NAMESPACE)
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "a", "namespace": NAMESPACE},
    }
    other = ApplySet(client, "lamps", namespace=NAMESPACE)
    before = [other]

    async def interrupt(call: Any, proceed: Any) -> Any:
        if call.name == "lamps" and call.method != "GET" and before:
            await apply(before.pop(), account, prune=False)
        return await proceed(call)

    late = ApplySet(client.with_interceptor(interrupt), "lamps", namespace=NAMESPACE)
    await apply(late, {**config_map("two"), "kind": "Secret"} | {"data": {}}, prune=False)
    assert not before
    kinds = {each.gvk.kind for each in await ApplySet(client, "lamps", namespace=NAMESPACE).members()}
    assert kinds >= {"ServiceAccount", "Secret"}


async def test_a_definition_with_objects_is_not_pruned(client: Client, lamps: ApplySet) -> None:
    await apply(lamps, namespace(), definition())
    await client.create(Unstructured(lamp("of-a-user")))
    (*_, kept) = await apply(lamps, namespace())
    assert kept.endswith(f"{LAMPS} kept (1 object of this kind exist)")
    # It is still a member, so a later call can prune it.
    (*_, deleted) = await apply(lamps, namespace(), delete_custom_objects=True)
    assert deleted.endswith(f"{LAMPS} deleted")


async def test_a_part_of_the_set_is_applied_without_pruning_others(client: Client, lamps: ApplySet) -> None:
    await apply(lamps, namespace(), definition(), config_map("one"))
    partial = await apply(lamps, namespace(), definition(), kinds=(CRD,))
    assert [each.rpartition(" ")[2] for each in partial] == ["unchanged", "unchanged"]
    assert await client.get(ConfigMap, "one", namespace=NAMESPACE)


async def test_dry_run_stores_nothing(client: Client, lamps: ApplySet) -> None:
    shown = await apply(lamps, namespace(), definition(), config_map("one"), lamp(), dry_run=True)
    assert {each.rpartition(" ")[2] for each in shown} <= {"created", "unchanged"}
    assert await client.get_or_none("customresourcedefinitions", LAMPS) is None
    await apply(lamps, namespace(), config_map("one"))
    changes = [each async for each in lamps.apply([namespace(), config_map("two", a="b")], dry_run=True)]
    assert [each.action for each in changes] == ["unchanged", "created", "deleted"]
    assert changes[1].after is not None
    assert changes[1].after["metadata"]["labels"] == {PART_OF_LABEL: lamps.id}
    assert await client.get(ConfigMap, "one", namespace=NAMESPACE)


async def test_objects_of_other_sets_and_tools_are_not_changed(client: Client, lamps: ApplySet) -> None:
    await apply(lamps, namespace(), config_map("one"))
    other = ApplySet(client, "other", namespace=NAMESPACE)
    with pytest.raises(ApplySetError, match="ConfigMap set-system/one is part of another ApplySet"):
        await apply(other, config_map("one"))
    foreign = ApplySet(client, "lamps", namespace=NAMESPACE, tooling="kubectl/v1.36")
    with pytest.raises(ApplySetError, match=r"not an ApplySet of this tool \(tooling: kubewright\)"):
        await apply(foreign, config_map("one"))
    await client.delete(ConfigMap, "other", namespace=NAMESPACE, missing_ok=True)


async def test_a_copy_of_a_member_is_not_deleted(client: Client, lamps: ApplySet) -> None:
    await apply(lamps, namespace(), config_map("one"))
    one = await client.get(ConfigMap, "one", namespace=NAMESPACE)
    copied = ObjectMeta(name="copy", namespace=NAMESPACE, labels=one.metadata.labels)
    await client.create(ConfigMap(metadata=copied))
    assert await apply(lamps, namespace()) == ["namespace/set-system unchanged", "configmap/one deleted"]
    assert await client.get(ConfigMap, "copy", namespace=NAMESPACE)
    await client.delete(ConfigMap, "copy", namespace=NAMESPACE)


async def test_fields_of_replaced_owners_are_taken_over(client: Client, lamps: ApplySet) -> None:
    await apply(lamps, namespace())
    await client.apply(Unstructured(config_map("one", size="1")), field_manager="run")
    with pytest.raises(Conflict):
        await apply(lamps, config_map("one", size="2"), prune=False)
    taking = ApplySet(client, "lamps", namespace=NAMESPACE, replaced_owners=("run",))
    assert await apply(taking, config_map("one", size="2"), prune=False) == ["configmap/one configured"]


async def test_an_object_that_is_being_deleted_is_created_again(client: Client, lamps: ApplySet) -> None:
    await apply(lamps, namespace(), config_map("one"))
    held = merge_patch({"metadata": {"finalizers": ["example.com/hold"]}})
    one = await client.patch(ConfigMap, "one", held, namespace=NAMESPACE)
    await client.delete(one)
    applying = asyncio.create_task(apply(lamps, namespace(), config_map("one", size="1")))
    await asyncio.sleep(0.05)
    assert not applying.done()
    released = merge_patch({"metadata": {"finalizers": None}})
    await client.patch(ConfigMap, "one", released, namespace=NAMESPACE)
    assert await applying == ["namespace/set-system unchanged", "configmap/one created"]
    assert (await client.get(ConfigMap, "one", namespace=NAMESPACE)).metadata.uid != one.metadata.uid


async def test_delete_keeps_definitions_with_objects(client: Client, lamps: ApplySet) -> None:
    await apply(lamps, namespace(), definition(), config_map("one"))
    await client.create(Unstructured(lamp("of-a-user")))
    keep_namespace = lambda member: "in use" if member.gvk.kind == "Namespace" else ""  # noqa: E731
    deleted = [str(each) async for each in lamps.delete(keep=keep_namespace)]
    assert deleted == [
        "configmap/one deleted",
        f"customresourcedefinition.apiextensions.k8s.io/{LAMPS} kept (1 object of this kind exist)",
        "namespace/set-system kept (in use)",
    ]
    # Without the inventory, definitions of the set are still found by label.
    await client.delete(ConfigMap, "lamps", namespace=NAMESPACE)
    deleted = [str(each) async for each in lamps.delete(kinds=(CRD,), delete_custom_objects=True)]
    assert deleted == [f"customresourcedefinition.apiextensions.k8s.io/{LAMPS} deleted"]


async def test_waiting_reports_progress_and_failures(client: Client, lamps: ApplySet) -> None:
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pod},
    }
    await apply(lamps, namespace(), deployment)
    states: list[str] = []

    def progress(change: Any, state: Readiness) -> None:
        states.append(f"{change.reference}: {state}")

    with pytest.raises(ApplySetError, match=r"not ready after 0\.2 s: deployment.apps/web: InProgress"):
        await lamps.wait_until_ready(timeout=0.2, progress=progress)
    assert states == ["deployment.apps/web: InProgress: the Deployment has not been observed yet"]
    done = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1}
    done |= {"availableReplicas": 1, "readyReplicas": 1}
    waiting = asyncio.create_task(lamps.wait_until_ready(timeout=60, progress=progress))
    while len(states) < 2:
        await asyncio.sleep(0)
    await client.patch(
        Deployment, "web", merge_patch({"status": done}), namespace=NAMESPACE, subresource="status"
    )
    await waiting
    assert states[-1] == "deployment.apps/web: Current"
    await client.delete(Deployment, "web", namespace=NAMESPACE)
