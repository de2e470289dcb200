"""Storage object in use protection: claims, volumes and volume attributes classes in use are not deleted.

Admission adds a finalizer to each of them. This controller removes the finalizer of an object that is being
deleted once no pod uses the claim, no claim is bound to the volume, or no claim or volume has the class. Only
pods that are assigned to a node count: others cannot start with a claim that is being deleted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from kubewright.api.errors import NotFound
from kubewright.api.gvk import GroupResource
from kubewright.apiserver.resources.objects import Object
from kubewright.client.patches import merge_patch
from kubewright.controlplane.in_process_clients import controller_client

from . import Component, new_controller
from .source import resource_source

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer
    from kubewright.cache.stores.store import ObjectChange
    from kubewright.controlplane.informers import Informers


_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class _Protection:
    """One resource whose objects have a finalizer while they are in use."""

    resource: GroupResource
    finalizer: str
    controller: str


_PODS: Final = GroupResource("", "pods")
_CLAIMS: Final = _Protection(
    GroupResource("", "persistentvolumeclaims"), "kubernetes.io/pvc-protection", "pvc-protection-controller"
)
_VOLUMES: Final = _Protection(
    GroupResource("", "persistentvolumes"), "kubernetes.io/pv-protection", "pv-protection-controller"
)
_CLASSES: Final = _Protection(
    GroupResource("storage.k8s.io", "volumeattributesclasses"),
    "kubernetes.io/vac-protection",
    "volumeattributesclass-protection-controller",
)
StorageRequest = tuple[_Protection, str, str]
"""A protected resource, namespace and name."""


class StorageProtectionController(Component):
    """Removes the finalizers of claims, volumes and classes that are not in use."""

    def __init__(self, server: APIServer, informers: Informers) -> None:
        self.server = server
        self._informers = informers
        self._clients = {
            each: controller_client(server, each.controller) for each in (_CLAIMS, _VOLUMES, _CLASSES)
        }
        self._deleted_claims: dict[StorageRequest, None] = {}
        """Claims that are being deleted."""
        controller = new_controller("storage-protection", self._reconcile)
        controller.watch(resource_source(informers, _PODS, self._pod_changed, needs="events"))
        for each in (_CLAIMS, _VOLUMES, _CLASSES):
            controller.watch(resource_source(informers, each.resource, partial(self._object_changed, each)))
        self.controllers = (controller,)

    def _pod_changed(self, change: ObjectChange) -> Iterable[StorageRequest]:
        if change.type != "DELETED":
            return
        if change.entry.raw:
            for name in claims_of(change.entry.object):
                yield _CLAIMS, change.namespace, name
        else:
            # Deleted while the watch on storage was interrupted: its claims are not known.
            yield from self._deleted_claims

    def _object_changed(self, protection: _Protection, change: ObjectChange) -> Iterable[StorageRequest]:
        if change.type == "DELETED" or change.entry.metadata.deletion_timestamp is None:
            self._deleted_claims.pop((protection, *change.key), None)
        else:
            if protection is _CLAIMS:
                self._deleted_claims[protection, *change.key] = None
            yield protection, *change.key
        if protection is not _CLASSES:
            old = change.entry.object if change.type == "DELETED" else change.old_object
            for name in classes_of(old or {}):
                yield _CLASSES, "", name

    async def _reconcile(self, request: StorageRequest) -> None:
        protection, namespace, name = request
        client = self._clients[protection]
        try:
            current = (await client.get(protection.resource, name, namespace=namespace)).raw
            metadata = current["metadata"]
            finalizers = metadata.get("finalizers") or []
            if "deletionTimestamp" not in metadata or protection.finalizer not in finalizers:
                return
            if await self._in_use(protection, current):
                return
            remaining = [each for each in finalizers if each != protection.finalizer]
            precondition = {"resourceVersion": metadata["resourceVersion"], "uid": metadata["uid"]}
            patch = {"metadata": {"finalizers": remaining or None, **precondition}}
            await client.patch(protection.resource, name, merge_patch(patch), namespace=namespace)
        except NotFound:
            return

    async def _in_use(self, protection: _Protection, obj: Object) -> bool:
        metadata = obj["metadata"]
        if protection is _VOLUMES:
            return (obj.get("status") or {}).get("phase") == "Bound"
        if protection is _CLAIMS:
            async for pod in self._stored("pods", metadata["namespace"]):
                if (pod.get("spec") or {}).get("nodeName") and metadata["name"] in claims_of(pod):
                    return True
            return False
        for plural in ("persistentvolumeclaims", "persistentvolumes"):
            async for user in self._stored(plural):
                if metadata["name"] in classes_of(user):
                    return True
        return False

    async def _stored(self, plural: str, namespace: str = "") -> AsyncIterator[Object]:
        store = self.server.store("", plural)
        if store is not None:
            for item in (await store.storage.list(store.range(namespace))).items:
                yield _decode(item.value)


def claims_of(pod: Object) -> set[str]:
    """Return the claims that a pod's volumes name, or that are created for them."""
    found = set()
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            found.add(volume["persistentVolumeClaim"].get("claimName") or "")
        elif "ephemeral" in volume:
            found.add(f"{pod['metadata']['name']}-{volume['name']}")
    return found - {""}


def classes_of(obj: Object) -> set[str]:
    """Return the volume attributes classes that a claim or a volume has, had or changes to."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    changing = status.get("modifyVolumeStatus") or {}
    found = {
        spec.get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        changing.get("targetVolumeAttributesClassName"),
    }
    return {name for name in found if name}
