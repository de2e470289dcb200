"""Deletion of namespaces with their content."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.api.errors import Forbidden, NotFound


async def test_namespace_is_deleted_after_its_content(world: Any) -> None:
    await world.make("Thing", "a", namespace="other")
    await world.make("Pod", "p", namespace="other")
    await world.make("Thing", "stays")
    await world.client.delete("/api/v1/namespaces/other")
    await world.wait_until_idle()
    assert await world.names("Namespace") == ["ns"]
    assert await world.names("Thing") == ["stays"]
    with pytest.raises(NotFound, match='namespaces "other" not found'):
        await world.make("Thing", "late", namespace="other")


async def test_content_with_finalizers_delays_the_deletion(world: Any) -> None:
    await world.make("Secret", "held", finalizers=["example.com/hold"])
    await world.make("Secret", "free")
    await world.client.delete("/api/v1/namespaces/ns")
    await world.wait_until_idle()
    namespace = await world.client.get("/api/v1/namespaces/ns")
    assert await world.names("Secret") == ["held"]
    conditions = {each["type"]: each for each in namespace["status"]["conditions"]}
    assert list(conditions) == [
        "NamespaceDeletionDiscoveryFailure",
        "NamespaceDeletionGroupVersionParsingFailure",
        "NamespaceDeletionContentFailure",
        "NamespaceContentRemaining",
        "NamespaceFinalizersRemaining",
    ]
    assert (
        conditions["NamespaceContentRemaining"]["message"]
        == "Some resources are remaining: secrets. has 1 resource instances"
    )
    assert (
        conditions["NamespaceFinalizersRemaining"]["message"]
        == "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    )
    with pytest.raises(Forbidden) as excinfo:
        await world.make("Secret", "late")
    assert excinfo.value.causes[0]["reason"] == "NamespaceTerminating"
    await world.client.merge("/api/v1/namespaces/ns/secrets/held", {"metadata": {"finalizers": None}})
    await world.wait_until_idle()
    assert await world.names("Namespace") == ["other"]


async def test_pods_are_deleted_first(world: Any) -> None:
    await world.make("Pod", "p", finalizers=["example.com/hold"])
    await world.make("Secret", "needed")
    await world.client.delete("/api/v1/namespaces/ns")
    await world.wait_until_idle()
    assert await world.names("Secret") == ["needed"]
    await world.client.merge("/api/v1/namespaces/ns/pods/p", {"metadata": {"finalizers": None}})
    await world.wait_until_idle()
    assert await world.names("Namespace") == ["other"]


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_protected_namespaces(world: Any, name: str) -> None:
    await world.make("Namespace", name)
    with pytest.raises(Forbidden, match="this namespace may not be deleted"):
        await world.client.delete(f"/api/v1/namespaces/{name}")
