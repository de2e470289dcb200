"""Storage that is in use is not deleted: claims wait for the pods that use them, volumes for their claim.

Admission puts a finalizer on every claim and volume. When one of them is being deleted and nobody uses it
any more, the finalizer goes, and with it the object. Only pods that are on a node use anything: the others
could not start with a claim that is about to go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.api.errors import NotFound

from .changes import Changes, ObjectChange
from .loop import Loop
from .requests import Requests, controller_user, resource_path

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer

Object = dict[str, Any]
CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"

_decode = msgspec.json.Decoder().decode


class StorageProtection:
    """Lets claims and volumes go that nobody uses."""

    def __init__(self, server: APIServer, changes: Changes) -> None:
        self.server = server
        self.claims: Loop[tuple[str, str]] = Loop("protection of claims", self._release_claim)
        self.volumes: Loop[tuple[str, str]] = Loop("protection of volumes", self._release_volume)
        self.loops = (self.claims, self.volumes)
        self._claim_requests = Requests(server, controller_user("pvc-protection-controller"))
        self._volume_requests = Requests(server, controller_user("pv-protection-controller"))
        changes.follow("", "persistentvolumeclaims", lambda change: _notice(change, self.claims))
        changes.follow("", "persistentvolumes", lambda change: _notice(change, self.volumes))
        changes.follow("", "pods", self._pod_changed)

    def _pod_changed(self, change: ObjectChange) -> None:
        if change.type == "DELETED":
            for name in claims_of(change.object):
                self.claims.add((change.namespace, name))

    async def _release_claim(self, key: tuple[str, str]) -> None:
        pods = self.server.store("", "pods")
        if pods is not None:
            for item in (await pods.storage.list(pods.range(key[0]))).items:
                pod = _decode(item.value)
                if (pod.get("spec") or {}).get("nodeName") and key[1] in claims_of(pod):
                    return
        await self._release("persistentvolumeclaims", key, CLAIM_FINALIZER, self._claim_requests)

    async def _release_volume(self, key: tuple[str, str]) -> None:
        await self._release("persistentvolumes", key, VOLUME_FINALIZER, self._volume_requests)

    async def _release(self, plural: str, key: tuple[str, str], finalizer: str, requests: Requests) -> None:
        store = self.server.store("", plural)
        if store is None:
            return
        path = resource_path(store.resource, *key)
        try:
            live = await requests.get(path)
            metadata = live["metadata"]
            finalizers = metadata.get("finalizers") or []
            bound = finalizer == VOLUME_FINALIZER and (live.get("status") or {}).get("phase") == "Bound"
            if "deletionTimestamp" in metadata and finalizer in finalizers and not bound:
                kept = [each for each in finalizers if each != finalizer]
                patch = {"finalizers": kept or None, "resourceVersion": metadata["resourceVersion"]}
                await requests.merge(path, {"metadata": {**patch, "uid": metadata["uid"]}})
        except NotFound:
            return


def _notice(change: ObjectChange, loop: Loop[tuple[str, str]]) -> None:
    if change.type != "DELETED" and change.metadata.deletion_timestamp is not None:
        loop.add(change.key)


def claims_of(pod: Object) -> set[str]:
    """The claims that a pod's volumes name, or that are made for them."""
    found = set()
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            found.add(volume["persistentVolumeClaim"].get("claimName") or "")
        elif "ephemeral" in volume:
            found.add(f"{pod['metadata']['name']}-{volume['name']}")
    return found - {""}
