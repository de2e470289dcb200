"""Garbage collection of dependents."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.api.errors import NotFound
from kubewright.testing.time import fake_time

GONE = {"apiVersion": "v1", "kind": "Thing", "name": "gone", "uid": "11111111-2222-3333-4444-555555555555"}


async def test_dependents_are_deleted_transitively(world: Any, refer: Any) -> None:
    parent = await world.make("Thing", "parent")
    child = await world.make("Secret", "child", owners=[refer(parent)])
    await world.make("Thing", "grandchild", owners=[refer(child)])
    await world.make("Thing", "unrelated")
    await world.client.delete("/api/v1/namespaces/ns/things/parent")
    await world.wait_until_idle()
    assert await world.names("Thing") == ["unrelated"]
    assert await world.names("Secret") == []
    assert {node.name for node in world.collector.graph.nodes.values()} == {"unrelated", "ns", "other"}


async def test_dependents_of_an_absent_owner_are_deleted(world: Any, refer: Any) -> None:
    alive = await world.make("Thing", "alive")
    await world.make("Thing", "lost", owners=[GONE])
    await world.make("Thing", "mixed", owners=[GONE, refer(alive)])
    await world.make("Thing", "mistaken", owners=[refer(alive, uid=GONE["uid"])])
    await world.wait_until_idle()
    assert await world.names("Thing") == ["alive", "mixed"]
    mixed = await world.client.get("/api/v1/namespaces/ns/things/mixed")
    assert mixed["metadata"]["ownerReferences"] == [refer(alive)]


async def test_foreground_waits_for_blocking_dependents(world: Any, refer: Any) -> None:
    parent = await world.make("Thing", "parent")
    await world.make("Thing", "blocks", owners=[refer(parent, block=True)], finalizers=["example.com/hold"])
    await world.make("Thing", "free", owners=[refer(parent)], finalizers=["example.com/hold"])
    await world.client.delete("/api/v1/namespaces/ns/things/parent", propagation="Foreground")
    await world.wait_until_idle()
    for name in ("blocks", "free"):
        found = await world.client.get(f"/api/v1/namespaces/ns/things/{name}")
        assert found["metadata"]["deletionTimestamp"], name
    assert "parent" in await world.names("Thing")
    await world.client.merge("/api/v1/namespaces/ns/things/blocks", {"metadata": {"finalizers": None}})
    await world.wait_until_idle()
    assert await world.names("Thing") == ["free"]


async def test_foreground_deletion_is_transitive(world: Any, refer: Any) -> None:
    top = await world.make("Thing", "top")
    middle = await world.make("Thing", "middle", owners=[refer(top, block=True)])
    await world.make("Thing", "bottom", owners=[refer(middle, block=True)], finalizers=["example.com/hold"])
    await world.client.delete("/api/v1/namespaces/ns/things/top", propagation="Foreground")
    await world.wait_until_idle()
    found = await world.client.get("/api/v1/namespaces/ns/things/middle")
    assert found["metadata"]["finalizers"] == ["foregroundDeletion"]
    await world.client.merge("/api/v1/namespaces/ns/things/bottom", {"metadata": {"finalizers": None}})
    await world.wait_until_idle()
    assert await world.names("Thing") == []


async def test_dependent_that_stops_blocking(world: Any, refer: Any) -> None:
    parent = await world.make("Thing", "parent")
    await world.make("Thing", "child", owners=[refer(parent, block=True)], finalizers=["example.com/hold"])
    await world.client.delete("/api/v1/namespaces/ns/things/parent", propagation="Foreground")
    await world.wait_until_idle()
    path = "/api/v1/namespaces/ns/things/child"
    await world.client.merge(path, {"metadata": {"ownerReferences": [refer(parent, block=False)]}})
    await world.wait_until_idle()
    assert await world.names("Thing") == ["child"]


async def test_foreground_deletion_of_a_cycle(world: Any, refer: Any) -> None:
    first = await world.make("Thing", "first")
    second = await world.make("Thing", "second", owners=[refer(first, block=True)])
    path = "/api/v1/namespaces/ns/things/first"
    await world.client.merge(path, {"metadata": {"ownerReferences": [refer(second, block=True)]}})
    await world.client.delete(path, propagation="Foreground")
    await world.wait_until_idle()
    assert await world.names("Thing") == []


async def test_orphaning_removes_owner_references(world: Any, refer: Any) -> None:
    parent, other = await world.make("Thing", "parent"), await world.make("Thing", "other")
    await world.make("Thing", "child", owners=[refer(parent), refer(other)])
    await world.make("Thing", "single", owners=[refer(parent)])
    await world.client.delete("/api/v1/namespaces/ns/things/parent", propagation="Orphan")
    await world.wait_until_idle()
    assert await world.names("Thing") == ["child", "other", "single"]
    child = await world.client.get("/api/v1/namespaces/ns/things/child")
    assert child["metadata"]["ownerReferences"] == [refer(other)]
    single = await world.client.get("/api/v1/namespaces/ns/things/single")
    assert "ownerReferences" not in single["metadata"]


async def test_an_owner_in_another_namespace_does_not_count(world: Any, refer: Any) -> None:
    elsewhere = await world.make("Thing", "elsewhere", namespace="other")
    await world.make("Thing", "child", owners=[refer(elsewhere)])
    await world.wait_until_idle()
    assert await world.names("Thing") == []
    events = await world.client.get("/api/v1/namespaces/ns/events")
    assert [event["reason"] for event in events["items"]] == ["OwnerRefInvalidNamespace"]


async def test_a_namespaced_owner_of_a_cluster_scoped_object_is_reported_and_left(
    world: Any, refer: Any
) -> None:
    await world.make("Namespace", "default")
    thing = await world.make("Thing", "thing")
    await world.make("Zone", "zone", owners=[refer(thing)])
    await world.wait_until_idle()
    assert await world.names("Zone") == ["zone"]
    events = await world.client.get("/api/v1/namespaces/default/events")
    (event,) = events["items"]
    assert event["involvedObject"]["name"] == "zone"
    assert 'does not exist in namespace ""' in event["message"]


async def test_owners_of_unknown_kinds_are_waited_for(world: Any, declare: Any) -> None:
    reference = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": GONE["uid"]}
    await world.make("Thing", "child", owners=[reference])
    await world.wait_until_idle()
    assert await world.names("Thing") == ["child"]
    world.server.add(declare("Widget", group="example.com"))
    await world.wait_until_idle()
    await world.wait_until_idle()
    assert await world.names("Thing") == []


async def test_new_kinds_are_watched(world: Any, declare: Any, refer: Any) -> None:
    world.server.add(declare("Widget", group="example.com"))
    path = "/apis/example.com/v1/namespaces/ns/widgets"
    widget = await world.client.create(
        path, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    )
    await world.make("Thing", "child", owners=[refer(widget)])
    await world.wait_until_idle()
    assert await world.names("Thing") == ["child"]
    await world.client.delete(f"{path}/w")
    await world.wait_until_idle()
    assert await world.names("Thing") == []


async def test_replaced_resource_is_still_watched(world: Any, declare: Any, refer: Any) -> None:
    """Also when its objects are deleted while the resource is replaced, before any watch event."""
    for turn in range(20):
        owner = await world.make("Secret", f"owner-{turn}")
        await world.make("Thing", f"child-{turn}", owners=[refer(owner)])
        await world.client.delete(f"/api/v1/namespaces/ns/secrets/owner-{turn}")
        world.server.add(declare("Secret"))
    await world.wait_until_idle()
    assert await world.names("Thing") == []
    assert {node.name for node in world.collector.graph.nodes.values()} == {"ns", "other"}


async def test_dependents_of_a_kind_deleted_right_after_its_objects(
    world: Any, declare: Any, refer: Any
) -> None:
    world.server.add(declare("Widget", group="example.com"))
    path = "/apis/example.com/v1/namespaces/ns/widgets"
    widget = {"apiVersion": "example.com/v1", "kind": "Widget"}
    seen, kept = [
        await world.client.create(path, widget | {"metadata": {"name": name}}) for name in ("seen", "kept")
    ]
    await world.make("Thing", "child-of-seen", owners=[refer(seen)])
    await world.make("Thing", "child-of-kept", owners=[refer(kept)])
    await world.wait_until_idle()
    await world.client.delete(f"{path}/seen")
    await world.controllers.informers.catch_up()
    world.server.remove("example.com", "widgets")
    await world.wait_until_idle()
    assert await world.names("Thing") == ["child-of-kept"]
    assert "kept" not in {node.name for node in world.collector.graph.nodes.values()}


async def test_a_new_object_of_the_same_name_is_not_the_owner(world: Any, refer: Any) -> None:
    parent = await world.make("Thing", "parent")
    await world.make("Thing", "child", owners=[refer(parent)])
    await world.client.delete("/api/v1/namespaces/ns/things/parent")
    await world.make("Thing", "parent")
    await world.wait_until_idle()
    assert await world.names("Thing") == ["parent"]


async def test_orphaned_dependents_are_collected_after_a_restart(start: Any, refer: Any) -> None:
    from kubewright.storage import MemoryStorage

    class Kept(MemoryStorage):
        async def close(self) -> None:
            """Outlives the server."""

    storage = Kept()
    async with start(storage=storage) as world:
        parent = await world.make("Thing", "parent")
        await world.make("Thing", "child", owners=[refer(parent)])
        await world.controllers.stop()
        await world.client.delete("/api/v1/namespaces/ns/things/parent")
        assert await world.names("Thing") == ["child"]
    async with start(storage=storage) as world:
        await world.wait_until_idle()
        with pytest.raises(NotFound):
            await world.client.get("/api/v1/namespaces/ns/things/child")


def test_owner_created_shortly_after_its_dependent(start: Any, refer: Any) -> None:
    async def main() -> None:
        async with start() as world:
            late = await world.make("Thing", "late")
            await world.client.delete("/api/v1/namespaces/ns/things/late")
            await world.wait_until_idle()
            await world.make("Thing", "child", owners=[refer(late)])
            path = "/api/v1/namespaces/ns/things/child"
            other = await world.make("Thing", "other")
            await world.client.merge(path, {"metadata": {"ownerReferences": [refer(other)]}})
            await world.wait_until_idle()
            assert await world.names("Thing") == ["child", "other"]

    # With a simulated clock, the delay after which the owner counts as missing cannot pass before the patch.
    fake_time(main())
