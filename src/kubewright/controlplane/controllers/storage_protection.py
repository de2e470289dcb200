"""Storage that is in use is not deleted: claims wait for the pods that use them, volumes for their claim, and
classes of volume attributes for both.

Admission puts a finalizer on each of them. When one is being deleted and nobody uses it any more, the
finalizer goes, and with it the object. Only pods that are on a node use anything: the others could not start
with a claim that is about to go.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kubewright.api.errors import NotFound

from .changes import Changes, ObjectChange
from .loop import Loop
from .requests import Requests, controller_user, resource_path

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer

Object = dict[str, Any]

_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class _Protected:
    """One resource whose objects wait for their users."""

    group: str
    plural: str
    finalizer: str
    controller: str


_CLAIMS: Final = _Protected(
    "", "persistentvolumeclaims", "kubernetes.io/pvc-protection", "pvc-protection-controller"
)
_VOLUMES: Final = _Protected(
    "", "persistentvolumes", "kubernetes.io/pv-protection", "pv-protection-controller"
)
_CLASSES: Final = _Protected(
    "storage.k8s.io",
    "volumeattributesclasses",
    "kubernetes.io/vac-protection",
    "volumeattributesclass-protection-controller",
)
Key = tuple[_Protected, str, str]


class StorageProtection:
    """Lets claims, volumes and classes go that nobody uses."""

    def __init__(self, server: APIServer, changes: Changes) -> None:
        self.server = server
        self.loop: Loop[Key] = Loop("storage protection", self._release)
        self.loops = (self.loop,)
        self._requests = {
            each: Requests(server, controller_user(each.controller)) for each in (_CLAIMS, _VOLUMES, _CLASSES)
        }
        changes.follow("", "pods", self._pod_changed)
        changes.follow("", "persistentvolumeclaims", lambda change: self._changed(_CLAIMS, change))
        changes.follow("", "persistentvolumes", lambda change: self._changed(_VOLUMES, change))
        changes.follow(
            "storage.k8s.io", "volumeattributesclasses", lambda change: self._changed(_CLASSES, change)
        )

    def _pod_changed(self, change: ObjectChange) -> None:
        if change.type == "DELETED":
            for name in claims_of(change.object):
                self.loop.add((_CLAIMS, change.namespace, name))

    def _changed(self, protected: _Protected, change: ObjectChange) -> None:
        if change.type != "DELETED" and change.metadata.deletion_timestamp is not None:
            self.loop.add((protected, *change.key))
        if protected is not _CLASSES and change.old is not None:
            for name in classes_of(_decode(change.old)):
                self.loop.add((_CLASSES, "", name))

    async def _release(self, key: Key) -> None:
        protected, namespace, name = key
        store = self.server.store(protected.group, protected.plural)
        if store is None:
            return
        requests = self._requests[protected]
        path = resource_path(store.resource, namespace, name)
        try:
            live = await requests.get(path)
            metadata = live["metadata"]
            finalizers = metadata.get("finalizers") or []
            if "deletionTimestamp" not in metadata or protected.finalizer not in finalizers:
                return
            if await self._in_use(protected, live):
                return
            kept = [each for each in finalizers if each != protected.finalizer]
            same = {"resourceVersion": metadata["resourceVersion"], "uid": metadata["uid"]}
            await requests.merge(path, {"metadata": {"finalizers": kept or None, **same}})
        except NotFound:
            return

    async def _in_use(self, protected: _Protected, obj: Object) -> bool:
        metadata = obj["metadata"]
        if protected is _VOLUMES:
            return (obj.get("status") or {}).get("phase") == "Bound"
        if protected is _CLAIMS:
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
    """The claims that a pod's volumes name, or that are made for them."""
    found = set()
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            found.add(volume["persistentVolumeClaim"].get("claimName") or "")
        elif "ephemeral" in volume:
            found.add(f"{pod['metadata']['name']}-{volume['name']}")
    return found - {""}


def classes_of(obj: Object) -> set[str]:
    """The classes of volume attributes that a claim or a volume has, had or is to have."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    changing = status.get("modifyVolumeStatus") or {}
    found = {
        spec.get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        changing.get("targetVolumeAttributesClassName"),
    }
    return {name for name in found if name}
