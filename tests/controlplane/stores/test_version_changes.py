"""A store that was written as one version of Kubernetes is served as another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubewright.api import Unstructured
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.errors import NotFound
from kubewright.api.meta import ObjectMeta
from kubewright.api.rbac.v1 import ClusterRole
from kubewright.client import condition, merge_patch
from kubewright.controlplane import ControlPlane

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "default"},
    "spec": {"containers": [{"name": "a", "image": "a"}], "hostnameOverride": "b"},
}
DEVICE_CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {},
}
MIGRATION = {
    "apiVersion": "storagemigration.k8s.io/v1",
    "kind": "StorageVersionMigration",
    "metadata": {"name": "maps"},
    "spec": {"resource": {"group": "", "resource": "configmaps"}},
}


@pytest.fixture(params=["sqlite", "etcd"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store that survives a restart."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'cluster.db'}"
    return f"etcd://{request.getfixturevalue('etcd').removeprefix('http://')}"


def plane(store: str, version: str) -> ControlPlane:
    return ControlPlane(store=store, kubernetes_version=version, port=None)


async def rules_of_nodes(client: Any) -> str:
    return str((await client.get(ClusterRole, "system:node")).rules)


async def test_an_upgrade_and_a_downgrade(store: str) -> None:
    async with plane(store, "1.33") as old:
        client = old.client()
        await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data={"k": "v"}))
        dropped = await client.create(Unstructured({**POD, "metadata": {**POD["metadata"], "name": "early"}}))
        assert "hostnameOverride" not in dropped["spec"]
        assert "podcertificaterequests" not in await rules_of_nodes(client)
    async with plane(store, "1.37") as new:
        client = new.client()
        assert (await client.get(ConfigMap, "a", namespace="default")).data == {"k": "v"}
        assert "podcertificaterequests" in await rules_of_nodes(client)
        pod = await client.create(Unstructured(POD))
        assert pod["spec"]["hostnameOverride"] == "b"
        await client.create(Unstructured({**POD, "metadata": {**POD["metadata"], "name": "b"}}))
        await client.create(Unstructured(DEVICE_CLASS))
        await client.create(Unstructured(MIGRATION))
        done = await client.wait(Unstructured(MIGRATION), until=condition("Succeeded"), timeout=60)
        assert done["status"]["resourceVersion"]
    async with plane(store, "1.33") as old:
        client = old.client()
        with pytest.raises(NotFound):
            await client.get("deviceclasses.resource.k8s.io", "gpu")
        kept = await client.get("pods", "a", namespace="default")
        assert "hostnameOverride" not in kept["spec"]  # it is stored, until the object is written
        untouched = await client.get("pods", "b", namespace="default")
        assert "hostnameOverride" not in untouched["spec"]
        await client.patch(kept, merge_patch({"metadata": {"labels": {"a": "b"}}}))
    async with plane(store, "1.37") as new:
        client = new.client()
        assert (await client.get("deviceclasses.resource.k8s.io", "gpu"))["metadata"]["name"] == "gpu"
        written = await client.get("pods", "a", namespace="default")
        assert "hostnameOverride" not in written["spec"]
        untouched = await client.get("pods", "b", namespace="default")
        assert untouched["spec"]["hostnameOverride"] == "b"
