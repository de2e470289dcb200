"""The example CSI driver on a simulated node: from a claim to a snapshot and its restoration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("grpc", reason="requires kubewright[node]")

from tests.workloads.nodes.process_cluster import ProcessCluster, linux_only, start_process_cluster

import csi_directory
from csi_directory import DirectoryDriver
from kubewright.api.core.v1 import Node, PersistentVolume, PersistentVolumeClaim
from kubewright.api.encoding.codec import to_plain
from kubewright.api.storage.v1 import CSINode, VolumeAttachment
from kubewright.client import Client, merge_patch
from kubewright.client.wait import field_is, is_deleted
from kubewright.node.csi import CSIDriver, VolumeSnapshot, VolumeSnapshotContent, install_driver

NAME = DirectoryDriver.name
DEPLOY = Path(csi_directory.__file__).with_name("deploy.yaml")
ACCOUNT = "system:serviceaccount:kube-system:csi-directory"
ACCOUNT_GROUPS = ("system:serviceaccounts", "system:authenticated")


@asynccontextmanager
async def running(
    driver: CSIDriver, cluster: ProcessCluster, kubelets: Path, *, node: str = "node-0"
) -> AsyncIterator[None]:
    """Run the driver with the permissions of `deploy.yaml` only."""
    stop = asyncio.Event()
    directory = kubelets / node
    await install_driver(cluster.client, driver)
    for document in yaml.safe_load_all(DEPLOY.read_text()):
        if document["kind"] in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"):
            await cluster.client.create(document)
    client = cluster.server.client().with_impersonation(ACCOUNT, ACCOUNT_GROUPS)
    task = asyncio.create_task(driver.run(stop, node=node, kubelet_directory=directory, client=client))

    def registered(found: CSINode | None) -> bool:
        return bool(found and found.spec and found.spec.drivers)

    waiting = asyncio.create_task(cluster.client.wait(CSINode, name=node, until=registered, timeout=120))
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    await waiting
    try:
        yield
    finally:
        stop.set()
        await task


async def create_class(client: Client, **fields: Any) -> None:
    await client.create(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "directory"},
            "provisioner": NAME,
            "allowVolumeExpansion": True,
            **fields,
        }
    )


async def create_claim(client: Client, name: str, size: str = "1Gi", **spec: Any) -> None:
    body = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "directory",
        "resources": {"requests": {"storage": size}},
        **spec,
    }
    metadata = {"name": name, "namespace": "default"}
    await client.create(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": body}
    )


async def bound(client: Client, name: str) -> PersistentVolumeClaim:
    def check(claim: PersistentVolumeClaim | None) -> bool:
        return bool(claim and claim.status and claim.status.phase == "Bound")

    found = await client.wait(PersistentVolumeClaim, name, namespace="default", until=check, timeout=120)
    assert found is not None
    return found


def claimed(claim: str) -> dict[str, Any]:
    """Return the volumes of a pod that uses a claim."""
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}


async def run_pod(cluster: ProcessCluster, name: str, script: str, spec: dict[str, Any]) -> None:
    """Run a shell script with the volume `data` in `$DATA`."""
    await cluster.run_pod(
        name,
        "sh",
        "-c",
        f'DATA="${{KUBEWRIGHT_ROOT:-}}/data"; {script}',
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
        spec={"restartPolicy": "Never", **spec},
    )


@linux_only
async def test_life_of_a_volume(kubelets: Path, eventually: Any) -> None:
    root = kubelets / "root"
    async with start_process_cluster(kubelet_directory=kubelets) as cluster:
        client = cluster.client
        async with running(DirectoryDriver(root), cluster, kubelets):
            await create_class(client)
            await create_claim(client, "site")
            claim = await bound(client, "site")
            assert claim.spec is not None
            volume = await client.get(PersistentVolume, claim.spec.volume_name or "")
            assert volume.spec is not None
            assert volume.spec.csi is not None
            assert volume.spec.csi.driver == NAME
            handle = volume.spec.csi.volume_handle or ""
            data = root / "volumes" / handle / "data"

            # The pod writes into the directory of the driver.
            await run_pod(cluster, "writer", 'echo hello > "$DATA/index.html"; sleep 600', claimed("site"))
            await cluster.wait_ready("writer", timeout=120)
            await eventually((data / "index.html").exists)
            assert (data / "index.html").read_text() == "hello\n"
            await cluster.wait_for_reasons("writer", "SuccessfulAttachVolume")
            in_use = field_is(".status.volumesInUse", [f"kubernetes.io/csi/{NAME}^{handle}"])
            await client.wait(Node, name="node-0", until=in_use, timeout=120)

            await _expand(cluster, "site", "2Gi")
            await _take_snapshot(client)
            (data / "index.html").write_text("changed\n")

            # The restored volume has the files of the snapshot.
            source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "before"}
            await create_claim(client, "restored", "2Gi", dataSource=source)
            # Expanded without a pod: the kubelet finishes it with the next pod.
            await bound(client, "restored")
            await _request_size(client, "restored", "3Gi")
            await client.wait(
                PersistentVolumeClaim,
                "restored",
                namespace="default",
                until=lambda found: "FileSystemResizePending" in conditions(found),
                timeout=120,
            )
            await run_pod(cluster, "reader", 'cat "$DATA/index.html"', claimed("restored"))
            await cluster.wait_for("reader", lambda status: status["phase"] == "Succeeded")
            assert await cluster.logs("reader") == "hello\n"
            restored = await wait_for_size(client, "restored", "3Gi")
            assert conditions(restored) == []
            clone = {"kind": "PersistentVolumeClaim", "name": "site"}
            await create_claim(client, "clone", "2Gi", dataSource=clone)
            await run_pod(cluster, "cloned", 'cat "$DATA/index.html"', claimed("clone"))
            await cluster.wait_for("cloned", lambda status: status["phase"] == "Succeeded")
            assert await cluster.logs("cloned") == "changed\n"

            await _delete_all(cluster, eventually, "writer", "reader", "cloned")
            await eventually(lambda: not list((root / "volumes").iterdir()))
            await eventually(lambda: not list((root / "snapshots").iterdir()))
            await eventually(lambda: not list((kubelets / "node-0" / "pods").iterdir()))
            await eventually(lambda: _is_empty(client, VolumeAttachment))


def conditions(claim: PersistentVolumeClaim | None) -> list[str]:
    status = claim.status if claim is not None else None
    return [each.type or "" for each in (status.conditions if status is not None else None) or ()]


async def _request_size(client: Client, claim: str, size: str) -> None:
    change = {"spec": {"resources": {"requests": {"storage": size}}}}
    await client.patch(PersistentVolumeClaim, claim, merge_patch(change), namespace="default")


async def _expand(cluster: ProcessCluster, claim: str, size: str) -> None:
    await _request_size(cluster.client, claim, size)
    assert conditions(await wait_for_size(cluster.client, claim, size)) == []
    await cluster.wait_for_reasons("writer", "FileSystemResizeSuccessful")
    await cluster.wait_for_reasons(claim, "Resizing", "FileSystemResizeRequired")


async def wait_for_size(client: Client, claim: str, size: str) -> PersistentVolumeClaim:
    """Wait until a claim has a capacity, and return it."""

    def expanded(found: PersistentVolumeClaim | None) -> bool:
        capacity = found.status.capacity if found is not None and found.status is not None else None
        return str((capacity or {}).get("storage")) == size

    found = await client.wait(PersistentVolumeClaim, claim, namespace="default", until=expanded, timeout=120)
    assert found is not None
    return found


async def _take_snapshot(client: Client) -> None:
    group = "snapshot.storage.k8s.io/v1"
    await client.create(
        {
            "apiVersion": group,
            "kind": "VolumeSnapshotClass",
            "metadata": {"name": "directory"},
            "driver": NAME,
            "deletionPolicy": "Delete",
        }
    )
    spec = {"volumeSnapshotClassName": "directory", "source": {"persistentVolumeClaimName": "site"}}
    metadata = {"name": "before", "namespace": "default"}
    await client.create({"apiVersion": group, "kind": "VolumeSnapshot", "metadata": metadata, "spec": spec})
    found = await client.wait(
        VolumeSnapshot,
        "before",
        namespace="default",
        until=lambda snapshot: bool(snapshot and snapshot.status.ready_to_use),
        timeout=120,
    )
    assert found is not None
    assert str(found.status.restore_size) == "2Gi"


async def _delete_all(cluster: ProcessCluster, eventually: Any, *pods: str) -> None:
    client = cluster.client
    for name in pods:
        await client.delete("pods", name, namespace="default", grace_period=1)
    for name in ("site", "restored", "clone"):
        await client.delete(PersistentVolumeClaim, name, namespace="default")
    await client.delete(VolumeSnapshot, "before", namespace="default")
    await client.wait(VolumeSnapshot, "before", namespace="default", until=is_deleted, timeout=120)
    await eventually(lambda: _is_empty(client, VolumeSnapshotContent))


async def _is_empty(client: Client, kind: Any) -> bool:
    return not list(await client.list(kind))


def test_manifests_have_the_object_of_the_driver(kubelets: Path) -> None:
    (declared,) = [each for each in yaml.safe_load_all(DEPLOY.read_text()) if each["kind"] == "CSIDriver"]
    expected = to_plain(DirectoryDriver(kubelets).api_object())
    assert declared["spec"] == expected["spec"]
    assert declared["metadata"]["name"] == NAME
