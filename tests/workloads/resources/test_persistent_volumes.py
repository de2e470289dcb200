"""Binding, provisioning, expansion and reclaiming of volumes; claims of ephemeral volumes."""

from __future__ import annotations

import asyncio
from typing import Any

from kubewright.api.core.v1 import PersistentVolume, PersistentVolumeClaim
from kubewright.client import patches

BINDER = "persistentvolume-binder-controller"


def claim(name: str = "data", size: str = "1Gi", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec},
    }


def volume(name: str, size: str, policy: str = "Retain", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {"disk": name}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "hostPath": {"path": "/x"},
            "persistentVolumeReclaimPolicy": policy,
            **spec,
        },
    }


def storage_class(name: str = "fast", mode: str = "Immediate", *, default: bool = False) -> dict[str, Any]:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": annotations},
        "provisioner": "disks.example.com",
        "volumeBindingMode": mode,
        "allowVolumeExpansion": True,
    }


async def get_claim(cluster: Any, name: str = "data") -> PersistentVolumeClaim:
    found: PersistentVolumeClaim = await cluster.client.get(PersistentVolumeClaim, name, namespace="default")
    return found


async def wait_for_phase(cluster: Any, phase: str, name: str = "data") -> PersistentVolumeClaim:
    async def check() -> Any:
        found = await get_claim(cluster, name)
        return found if found.status is not None and found.status.phase == phase else None

    found: PersistentVolumeClaim = await cluster.eventually(check)
    return found


async def test_bind_to_the_smallest_volume(run: Any) -> None:
    async with run(BINDER) as cluster:
        client = cluster.client
        await client.create(claim(size="2Gi", storageClassName=""))
        await asyncio.sleep(1)
        text = "no persistent volumes available for this claim and no storage class is set"
        assert ("FailedBinding", text) in await cluster.events()
        for name, size in (("large", "10Gi"), ("fits", "3Gi"), ("small", "1Gi")):
            await client.create(volume(name, size))
        bound = await wait_for_phase(cluster, "Bound")
        assert bound.spec is not None
        assert bound.spec.volume_name in ("large", "fits")
        assert bound.metadata.annotations == {
            "pv.kubernetes.io/bind-completed": "yes",
            "pv.kubernetes.io/bound-by-controller": "yes",
        }
        found = await client.get(PersistentVolume, bound.spec.volume_name)
        assert found.spec.claim_ref.uid == bound.metadata.uid
        assert found.status.phase == "Bound"
        assert bound.status is not None
        assert bound.status.capacity == found.spec.capacity
        others = {each.name: each.status.phase for each in await client.list(PersistentVolume)}
        assert others["small"] == "Available"
        writes = len(cluster.requests)
        await asyncio.sleep(600)
        assert len(cluster.requests) == writes


async def test_provision_expand_and_delete(run: Any) -> None:
    async with run(BINDER, controllers=True) as cluster:
        client = cluster.client
        await client.create(claim())
        await asyncio.sleep(1)
        await client.create(storage_class(default=True))
        bound = await wait_for_phase(cluster, "Bound")
        assert bound.spec is not None
        assert bound.spec.storage_class_name == "fast", "assigned after the claim was created"
        name = bound.spec.volume_name
        assert name == f"pvc-{bound.metadata.uid}"
        made = await client.get(PersistentVolume, name)
        assert made.metadata.annotations["pv.kubernetes.io/provisioned-by"] == "disks.example.com"
        reasons = [reason for reason, _ in await cluster.events()]
        assert [reason for reason in reasons if "rovision" in reason] == [
            "ExternalProvisioning",
            "Provisioning",
            "ProvisioningSucceeded",
        ]
        size = patches.merge_patch({"spec": {"resources": {"requests": {"storage": "5Gi"}}}})
        await client.patch("persistentvolumeclaims", "data", size, namespace="default")

        async def expanded() -> Any:
            found = await get_claim(cluster)
            return str(found.status.capacity["storage"]) == "5Gi" if found.status else None

        await cluster.eventually(expanded)
        assert str((await client.get(PersistentVolume, name)).spec.capacity["storage"]) == "5Gi"
        await client.delete(PersistentVolumeClaim, "data", namespace="default")

        async def deleted() -> Any:
            return await client.get_or_none(PersistentVolume, name) is None

        await cluster.eventually(deleted)


async def test_wait_for_first_consumer_and_retain(run: Any) -> None:
    async with run(BINDER, controllers=True) as cluster:
        client = cluster.client
        await client.create(storage_class(mode="WaitForFirstConsumer"))
        await client.create(claim(storageClassName="fast"))
        await asyncio.sleep(5)
        text = "waiting for first consumer to be created before binding"
        assert ("WaitForFirstConsumer", text) in await cluster.events()
        node = {"volume.kubernetes.io/selected-node": "n1"}
        await client.patch(
            "persistentvolumeclaims",
            "data",
            patches.merge_patch({"metadata": {"annotations": node}}),
            namespace="default",
        )
        bound = await wait_for_phase(cluster, "Bound")
        assert bound.spec is not None
        name = bound.spec.volume_name or ""
        made = await client.get(PersistentVolume, name)
        (term,) = made.spec.node_affinity.required.node_selector_terms
        assert term.match_expressions[0].values == ["n1"]
        retain = patches.merge_patch({"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
        await client.patch("persistentvolumes", name, retain)
        await client.delete(PersistentVolumeClaim, "data", namespace="default")

        async def released() -> Any:
            return (await client.get(PersistentVolume, name)).status.phase == "Released"

        await cluster.eventually(released)


async def test_claim_that_names_its_volume(run: Any) -> None:
    async with run(BINDER) as cluster:
        client = cluster.client
        await client.create(volume("small", "1Gi"))
        await client.create(claim(size="2Gi", volumeName="small", storageClassName=""))
        await asyncio.sleep(1)
        text = 'Cannot bind to requested volume "small": requested PV is too small'
        assert ("VolumeMismatch", text) in await cluster.events()
        await client.create(claim("other", volumeName="small", storageClassName=""))
        await wait_for_phase(cluster, "Bound", "other")
        await client.delete(PersistentVolume, "small")
        finalizers = patches.merge_patch({"metadata": {"finalizers": None}})
        await client.patch("persistentvolumes", "small", finalizers)
        await wait_for_phase(cluster, "Lost", "other")
        assert ("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!") in (
            await cluster.events()
        )


async def test_ephemeral_volumes(run: Any, pod: Any) -> None:
    async with run("ephemeral-volume-controller") as cluster:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": claim()["spec"]}
        volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
        await cluster.client.create(claim("taken-scratch"))
        await cluster.client.create(pod("web", volumes=volumes))
        await cluster.client.create(pod("taken", volumes=volumes))

        async def created() -> Any:
            return await get_claim(cluster, "web-scratch")

        found = await cluster.eventually(created)
        assert found.metadata.labels == {"a": "b"}
        assert found.metadata.owner_references[0].name == "web"
        events = await cluster.events()
        assert (
            "FailedBinding",
            "ephemeral volume scratch: PVC default/taken-scratch was not created for pod default/taken "
            "(pod is not owner)",
        ) in events
