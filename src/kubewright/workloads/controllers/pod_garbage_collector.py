"""Pod garbage collection: pods that no kubelet will delete.

- pods of nodes that do not exist, after a quarantine of 40 seconds
- terminating pods of nodes with the taint `node.kubernetes.io/out-of-service`
- terminating pods without a node
- the oldest finished pods above a threshold

Permissions: get, list and watch of Nodes; list, watch and delete of Pods, patch of their status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, NamedTuple

from kubewright.api.encoding.codec import decode, decoder
from kubewright.api.errors import NotFound
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import Preconditions
from kubewright.api.objects import Struct
from kubewright.api.values.times import format_time
from kubewright.apiserver.resources.objects import Object
from kubewright.cache.stores.store import ObjectChange, ObjectKey
from kubewright.client import patches
from kubewright.controller import ControllerBuilder, Result
from kubewright.workloads.component_manager import ComponentManager

NODE: Final = GroupVersionKind("", "v1", "Node")
POD: Final = GroupVersionKind("", "v1", "Pod")
TERMINATED_POD_THRESHOLD: Final = 12_500
QUARANTINE_SECONDS: Final = 40.0
"""Seconds that a node has to be missing before its pods are deleted."""
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
FINISHED: Final = ("Succeeded", "Failed")


class _Metadata(Struct):
    deletion_timestamp: str | None = None
    creation_timestamp: str | None = None


class _Spec(Struct):
    node_name: str = ""


class _Status(Struct):
    phase: str = ""
    reason: str = ""


class _PodView(Struct):
    metadata: _Metadata
    spec: _Spec
    status: _Status | None = None


_decode_pod = decoder(_PodView).decode


class GarbageRequest(NamedTuple):
    """What to check: the pods of a node, one pod, or the number of finished pods."""

    kind: str
    namespace: str = ""
    name: str = ""


_FINISHED_PODS: Final = GarbageRequest("finished")


def add_pod_garbage_collector(manager: ComponentManager) -> None:
    """Add the pod garbage collector."""
    PodGarbageCollector(manager).add()


class PodGarbageCollector:
    """Deletes pods that no kubelet will delete."""

    def __init__(
        self, manager: ComponentManager, *, terminated_pod_threshold: int = TERMINATED_POD_THRESHOLD
    ) -> None:
        self.manager = manager
        self.terminated_pod_threshold = terminated_pod_threshold
        self._nodes: set[str] = set()
        self._out_of_service: set[str] = set()
        self._missing_since: dict[str, float] = {}
        self._finished: dict[ObjectKey, tuple[bool, str]] = {}
        """Finished pods; whether each was not evicted, and its creation time: the order of deletion."""

    def add(self) -> None:
        """Add the controller to the manager."""
        name = "pod-garbage-collector-controller"
        builder: ControllerBuilder[GarbageRequest] = ControllerBuilder(self.manager, name)
        builder.watches(NODE, handler=self._on_node).watches(POD, handler=self._on_pod)
        builder.with_options(workers=4).complete(self.reconcile)

    def _on_node(self, change: ObjectChange) -> Iterable[GarbageRequest]:
        name = change.key.name
        if change.new is None:
            self._nodes.discard(name)
            self._out_of_service.discard(name)
            return (GarbageRequest("node", name=name),)
        self._nodes.add(name)
        self._missing_since.pop(name, None)
        node: Object = decode(change.new.raw, dict)
        if not _is_out_of_service(node):
            self._out_of_service.discard(name)
            return ()
        self._out_of_service.add(name)
        return (GarbageRequest("node", name=name),)

    def _on_pod(self, change: ObjectChange) -> Iterable[GarbageRequest]:
        if change.new is None:
            self._finished.pop(change.key, None)
            return ()
        pod = _decode_pod(change.new.raw)
        requests: list[GarbageRequest] = []
        if pod.status is not None and pod.status.phase in FINISHED:
            evicted = pod.status.reason == "Evicted"
            self._finished[change.key] = (not evicted, pod.metadata.creation_timestamp or "")
            if self.terminated_pod_threshold and len(self._finished) > self.terminated_pod_threshold:
                requests.append(_FINISHED_PODS)
        node = pod.spec.node_name
        if node and node not in self._nodes:
            requests.append(GarbageRequest("node", name=node))
        elif pod.metadata.deletion_timestamp and (not node or node in self._out_of_service):
            requests.append(GarbageRequest("pod", *change.key))
        return requests

    async def reconcile(self, request: GarbageRequest) -> Result | None:
        """Delete the pods that a request is about."""
        if request.kind == "finished":
            await self._collect_finished()
        elif request.kind == "pod":
            found = await self.manager.client.get_or_none(POD, request.name, namespace=request.namespace)
            if found is not None and found.raw["metadata"].get("deletionTimestamp"):
                await self._delete(found.raw)
        else:
            return await self._collect_node(request.name)
        return None

    async def _collect_node(self, name: str) -> Result | None:
        informer = await self.manager.cache.informer(POD)
        pods = [decode(entry.raw, dict) for _, entry in informer.store.indexed("spec.nodeName", name)]
        if name in self._nodes:
            if name in self._out_of_service:
                for pod in pods:
                    if pod["metadata"].get("deletionTimestamp"):
                        await self._delete(pod)
            return None
        if not pods:
            self._missing_since.pop(name, None)
            return None
        now = asyncio.get_running_loop().time()
        left = self._missing_since.setdefault(name, now) + QUARANTINE_SECONDS - now
        if left > 0:
            return Result(requeue_after=left)
        if await self.manager.client.uncached.get_or_none(NODE, name) is not None:
            # The cache may never receive it, if it is deleted before the watch has caught up.
            return Result(requeue_after=QUARANTINE_SECONDS)
        for pod in pods:
            await self._delete(pod, "PodGC: node no longer exists")
        self._missing_since.pop(name, None)
        return None

    async def _collect_finished(self) -> None:
        surplus = len(self._finished) - self.terminated_pod_threshold
        oldest = sorted(self._finished, key=self._finished.__getitem__)[: max(0, surplus)]
        for key in oldest:
            found = await self.manager.client.get_or_none(POD, key.name, namespace=key.namespace)
            if found is not None:
                await self._delete(found.raw)

    async def _delete(self, pod: Object, message: str = "") -> None:
        """Set the phase of a pod to Failed if it is not finished, and delete it without grace period."""
        metadata, status = pod["metadata"], pod.get("status") or {}
        client, name, namespace = self.manager.client, metadata["name"], metadata["namespace"]
        change: Object = {}
        if status.get("phase") not in FINISHED:
            change["phase"] = "Failed"
        if message:
            condition = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": message,
                "lastTransitionTime": format_time(self.manager.now()),
            }
            change["conditions"] = [condition]
        try:
            if change:
                patch = patches.strategic_merge_patch(
                    {"metadata": {"uid": metadata["uid"]}, "status": change}
                )
                await client.patch(POD, name, patch, namespace=namespace, subresource="status")
            await client.delete(
                POD,
                name,
                namespace=namespace,
                grace_period=0,
                preconditions=Preconditions(uid=metadata["uid"]),
            )
        except NotFound:
            return


def _is_out_of_service(node: Object) -> bool:
    ready = any(
        one.get("type") == "Ready" and one.get("status") == "True"
        for one in (node.get("status") or {}).get("conditions") or ()
    )
    taints = (node.get("spec") or {}).get("taints") or ()
    return not ready and any(one.get("key") == OUT_OF_SERVICE for one in taints)
