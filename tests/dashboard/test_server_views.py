"""Overview, owner tree, search and history, from a control plane in the same process."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

from kubewright.api.unstructured import Unstructured
from kubewright.client import Client, patches
from kubewright.dashboard.objects.object_index import ObjectIndex

from .conftest import Browser

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "shops.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "shops", "singular": "shop", "kind": "Shop", "listKind": "ShopList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


async def create(
    client: Client, api_version: str, kind: str, name: str, owner: Unstructured | None = None, **rest: Any
) -> Unstructured:
    metadata: dict[str, Any] = {"name": name, "namespace": "default"}
    if owner is not None:
        reference = {"apiVersion": owner.raw["apiVersion"], "kind": owner.raw["kind"], "name": owner.name}
        metadata["ownerReferences"] = [{**reference, "uid": owner.uid, "controller": True}]
    return await client.create(
        Unstructured({"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest})
    )


async def make_workload(client: Client) -> tuple[Unstructured, Unstructured, Unstructured]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    deployment = await create(client, "apps/v1", "Deployment", "web", spec=spec)
    replica_set = await create(client, "apps/v1", "ReplicaSet", "web-1", deployment, spec=spec)
    pod = await create(client, "v1", "Pod", "web-1-a", replica_set, spec=template["spec"])
    return deployment, replica_set, pod


TREE = "/api/tree?group=apps&version=v1&kind=ReplicaSet&namespace=default&name=web-1"


async def test_a_tree_has_owners_and_owned_objects(client: Client, browser: Browser) -> None:
    deployment, replica_set, pod = await make_workload(client)
    await create(client, "v1", "ConfigMap", "other")
    tree = await browser.get(TREE)
    assert tree["root"] == replica_set.uid
    nodes = {node["name"]: node for node in tree["nodes"]}
    assert set(nodes) == {"web", "web-1", "web-1-a"}
    assert nodes["web-1-a"]["owners"] == [{"id": replica_set.uid, "controller": True}]
    assert nodes["web"]["health"] == "InProgress"
    assert nodes["web"]["message"] == "the Deployment has not been observed yet"
    assert nodes["web-1-a"]["resource"] == "pods"
    assert (await browser.get(TREE.replace("web-1", "missing")))["root"] is None
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await client.subresource("status", "pods", pod.name, namespace="default").patch(
        patches.merge_patch({"status": status})
    )
    assert deployment.uid in {node["id"] for node in tree["nodes"]}


async def test_the_whole_tree_has_siblings(client: Client, browser: Browser) -> None:
    deployment, *_ = await make_workload(client)
    await create(client, "v1", "ConfigMap", "beside", deployment)
    names = {node["name"] for node in (await browser.get(f"{TREE}&whole=1"))["nodes"]}
    assert names == {"web", "web-1", "web-1-a", "beside"}


async def test_a_missing_owner_is_a_node(client: Client, browser: Browser) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "gone", "uid": "1-2-3"}
    metadata = {"name": "orphan", "namespace": "default", "ownerReferences": [reference]}
    await client.create(Unstructured({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
    tree = await browser.get("/api/tree?version=v1&kind=ConfigMap&namespace=default&name=orphan")
    missing = next(node for node in tree["nodes"] if node["state"] == "missing")
    assert (missing["name"], missing["health"]) == ("gone", "Unknown")
    assert missing["message"] == "the owner does not exist"


async def test_the_overview_counts_kinds_health_and_warnings(
    client: Client, browser: Browser, eventually: Callable[..., Any]
) -> None:
    _, _, pod = await make_workload(client)
    event = {
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": pod.name},
        "type": "Warning",
        "reason": "BackOff",
        "message": "<script>alert(1)</script>",
        "count": 3,
        "lastTimestamp": "2026-01-02T03:04:05Z",
        "source": {"component": "kubelet"},
    }
    await create(client, "v1", "Event", "first", **event)
    await create(client, "v1", "Event", "normal", **{**event, "type": "Normal"})

    async def with_warnings() -> Any:
        found = await browser.get("/api/overview")
        return found["warnings"] and found

    overview = await eventually(with_warnings)  # events are watched beside the objects
    assert overview["synced"]
    kinds = {(kind["group"], kind["kind"]): kind for kind in overview["kinds"]}
    assert kinds["", "Pod"]["count"] == 1
    assert kinds["", "Pod"]["health"]["InProgress"] == 1
    assert ("", "Event") not in kinds
    pods = await browser.get("/api/objects?health=InProgress&namespace=default")
    assert [each["kind"] for each in pods["objects"]].count("Pod") == 1
    elsewhere = await browser.get("/api/overview?namespace=kube-system")
    assert all(kind["count"] == 0 for kind in elsewhere["kinds"] if kind["kind"] == "Pod")
    assert elsewhere["warnings"] == []
    assert [each["reason"] for each in overview["warnings"]] == ["BackOff"]
    assert overview["warnings"][0]["object"]["resource"] == "pods"
    assert overview["warnings"][0]["lastSeen"] == 1767323045000


async def test_kinds_are_added_and_removed_with_their_crd(
    client: Client, browser: Browser, eventually: Callable[..., Any]
) -> None:
    await browser.get("/api/overview")
    await client.create(Unstructured(DEFINITION))

    async def served(expected: bool) -> bool:
        kinds = (await browser.get("/api/overview"))["kinds"]
        return any(kind["kind"] == "Shop" and kind["custom"] for kind in kinds) is expected

    await eventually(lambda: served(True))
    await create(client, "example.com/v1", "Shop", "one", status={})
    conditions = [{"type": "Stalled", "status": "True", "message": "no money"}]
    await client.subresource("status", "shops", "one", namespace="default").patch(
        patches.merge_patch({"status": {"conditions": conditions}})
    )

    async def failed() -> bool:
        findings = (await browser.get("/api/overview"))["findings"]
        return [each["message"] for each in findings if each["type"] == "failed"] == ["no money"]

    await eventually(failed)
    await client.delete("customresourcedefinitions", "shops.example.com")
    await eventually(lambda: served(False))


async def test_search_matches_all_words(client: Client, browser: Browser) -> None:
    await make_workload(client)
    found = await browser.get("/api/search?q=WEB")
    assert found["results"][0]["name"] == "web"
    assert found["total"] == 3
    found = await browser.get("/api/search?q=pod+web")
    assert [each["name"] for each in found["results"]] == ["web-1-a"]
    found = await browser.get("/api/search?q=deploy+web&limit=1")
    assert found["results"][0]["kind"] == "Deployment"
    kinds = (await browser.get("/api/search?q=deploy"))["kinds"]
    assert "Deployment" in [kind["kind"] for kind in kinds]
    assert (await browser.get("/api/search?q="))["results"] == []
    status, body = await browser.status("/api/search?q=a&limit=many")
    assert (status, body["error"]["message"]) == (400, "limit=many: expected a number from 1 to 5000")


async def test_history_has_versions_managers_and_no_secret_values(
    client: Client, browser: Browser, eventually: Callable[..., Any]
) -> None:
    value = base64.b64encode(b"hunter2").decode()
    applied = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"data": {"password": value}})}
    secret = Unstructured(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "a", "namespace": "default", "annotations": applied},
            "data": {"password": value},
        }
    )
    await client.create(secret)
    path = "/api/history?version=v1&kind=Secret&namespace=default&name=a"
    assert [each["type"] for each in (await browser.get(path))["versions"]] == ["ADDED"]
    change = patches.merge_patch({"metadata": {"labels": {"a": "b"}}})
    await client.with_field_manager("tester").patch("secrets", "a", change, namespace="default")
    await client.delete("secrets", "a", namespace="default")

    async def versions() -> Any:
        found = (await browser.get(path))["versions"]
        return found if len(found) == 3 else None

    found = await eventually(versions)
    assert [each["type"] for each in found] == ["ADDED", "MODIFIED", "DELETED"]
    assert found[1]["managers"] == ["tester"]
    assert found[1]["object"]["data"] == {"password": "redacted (7 bytes)"}
    assert value not in json.dumps(found)
    assert "managedFields" not in json.dumps(found)


async def test_history_of_an_unknown_kind_is_an_error(browser: Browser) -> None:
    status, body = await browser.status("/api/history?group=x.y&version=v1&kind=Nothing&name=a")
    assert status == 404
    assert "does not serve" in body["error"]["message"]


async def test_the_stream_sends_the_overview_and_the_tree(client: Client, browser: Browser) -> None:
    _, replica_set, _ = await make_workload(client)
    async with browser.events("/api/stream?overview=1&tree=apps,v1,ReplicaSet,default,web-1") as events:
        seen: set[str] = set()
        async for name, data in events:
            seen.add(name)
            if name == "tree" and data["root"] == replica_set.uid:
                break
        assert "ready" in seen
        await create(client, "v1", "ConfigMap", "added", replica_set)
        async for name, data in events:
            if name == "tree" and "added" in {node["name"] for node in data["nodes"]}:
                break
        await client.delete("configmaps", "added", namespace="default")
        async for name, data in events:
            if name == "tree" and "added" not in {node["name"] for node in data["nodes"]}:
                break
    status, body = await browser.status("/api/stream?tree=Pod")
    assert status == 400
    assert "expected group,version,kind,namespace,name" in body["error"]["message"]


async def test_the_index_is_bounded_and_stops_when_it_is_idle(
    client: Client, eventually: Callable[..., Any]
) -> None:
    for number in range(5):
        await create(client, "v1", "ConfigMap", f"m{number}")
    now = [0.0]
    index = ObjectIndex(client, max_objects=10, idle_seconds=0.05, clock=lambda: now[0])
    with index.hold():
        await index.use()
        assert len(index.by_uid) == 10
        assert index.truncated > 0
    assert index.is_running
    now[0] = 1.0
    await eventually(lambda: not index.is_running)
    assert not index.by_uid


async def test_an_index_that_is_used_while_it_stops_starts_again(client: Client) -> None:
    await create(client, "v1", "ConfigMap", "kept")
    index = ObjectIndex(client)
    await index.use()
    stopping = asyncio.create_task(index.stop())
    while index.is_running:
        await asyncio.sleep(0)
    await index.use()
    await stopping
    assert index.find("", "ConfigMap", "default", "kept") is not None
    await index.stop()
