"""Protection of claims, volumes and classes in use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubewright.api.errors import NotFound
from kubewright.api.unstructured import Unstructured
from kubewright.testing import TestServer, start_test_server


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async with start_test_server("in-process") as server:
        yield server


def claim(name: str) -> Unstructured:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return _object("PersistentVolumeClaim", name, spec)


def pod(name: str, claim: str, **spec: Any) -> Unstructured:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    return _object("Pod", name, {"containers": [{"name": "c", "image": "i"}], "volumes": [volume], **spec})


def _object(kind: str, name: str, spec: Any) -> Unstructured:
    metadata = {"name": name, "namespace": "default"} if kind != "PersistentVolume" else {"name": name}
    return Unstructured({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec})


async def gone(server: TestServer, plural: str, name: str) -> bool:
    await server.plane.wait_until_idle()
    try:
        await server.client().get(
            plural, name, namespace="default" if plural != "persistentvolumes" else None
        )
    except NotFound:
        return True
    return False


async def test_a_claim_waits_for_pods_on_nodes(server: TestServer) -> None:
    client = server.client()
    for name in ("unused", "wanted", "used"):
        await client.create(claim(name))
    await client.create(pod("waiting", "wanted"))
    await client.create(pod("running", "used", nodeName="n1"))
    for name in ("unused", "wanted", "used"):
        await client.delete("persistentvolumeclaims", name, namespace="default")
    assert await gone(server, "persistentvolumeclaims", "unused")
    assert await gone(server, "persistentvolumeclaims", "wanted")
    assert not await gone(server, "persistentvolumeclaims", "used")
    await client.delete("pods", "running", namespace="default", grace_period=0)
    assert await gone(server, "persistentvolumeclaims", "used")


async def test_a_volume_waits_for_its_claim(server: TestServer) -> None:
    client = server.client()
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}
    for name in ("free", "bound"):
        await client.create(_object("PersistentVolume", name, spec))
    held = await client.get("persistentvolumes", "bound")
    held.raw["status"] = {"phase": "Bound"}
    held = await client.update_status(held)
    for name in ("free", "bound"):
        await client.delete("persistentvolumes", name)
    assert await gone(server, "persistentvolumes", "free")
    assert not await gone(server, "persistentvolumes", "bound")
    held = await client.get("persistentvolumes", "bound")
    held.raw["status"] = {"phase": "Released"}
    await client.update_status(held)
    assert await gone(server, "persistentvolumes", "bound")


async def test_volume_attributes_class_waits_for_claims(server: TestServer) -> None:
    client = server.client()
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "driverName": "d.example.com"}
    for name in ("free", "used"):
        await client.create(Unstructured({**kind, "metadata": {"name": name}, "parameters": {"iops": "1"}}))
    user = claim("user")
    user.raw["spec"]["volumeAttributesClassName"] = "used"
    await client.create(user)
    for name in ("free", "used"):
        await client.delete("volumeattributesclasses", name)
    await server.plane.wait_until_idle()
    left = await client.list("volumeattributesclasses.storage.k8s.io")
    assert [each.raw["metadata"]["name"] for each in left] == ["used"]
    await client.delete("persistentvolumeclaims", "user", namespace="default")
    await server.plane.wait_until_idle()
    assert not list(await client.list("volumeattributesclasses.storage.k8s.io"))


async def test_namespace_deletion_removes_claims(server: TestServer) -> None:
    client = server.client()
    await client.create(Unstructured({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}))
    made = claim("data")
    made.raw["metadata"]["namespace"] = "ns"
    await client.create(made)
    await client.delete("namespaces", "ns")
    await server.plane.wait_until_idle()
    with pytest.raises(NotFound):
        await client.get("namespaces", "ns")
