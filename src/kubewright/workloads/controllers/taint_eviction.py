"""Taint eviction: deletes pods that do not tolerate a NoExecute taint of their node, now or after a time.

Permissions: list and watch of Nodes; list, watch and delete of Pods, patch of their status; create and patch
of Events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from kubewright.api.core.v1 import Node, Taint, Toleration
from kubewright.api.encoding.codec import decode, decoder, from_plain
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import Preconditions
from kubewright.api.objects import Struct
from kubewright.api.values.times import format_time
from kubewright.apiserver.resources.objects import Object
from kubewright.cache.stores.store import ObjectChange, ObjectKey
from kubewright.client import patches
from kubewright.controller import ControllerBuilder, Request, Result
from kubewright.workloads.component_manager import ComponentManager
from kubewright.workloads.pods import pod_reference
from kubewright.workloads.scheduler.state.node_selectors import tolerates

NODE: Final = GroupVersionKind("", "v1", "Node")
POD: Final = GroupVersionKind("", "v1", "Pod")


class _Spec(Struct):
    node_name: str = ""


class _PodView(Struct):
    spec: _Spec


_decode_pod = decoder(_PodView).decode


def add_taint_eviction_controller(manager: ComponentManager) -> None:
    """Add the taint eviction controller."""
    TaintEviction(manager).add()


class TaintEviction:
    """Reconciles the pods of nodes with NoExecute taints."""

    def __init__(self, manager: ComponentManager) -> None:
        self.manager = manager
        self._taints: dict[str, list[Taint]] = {}
        """NoExecute taints by node; only of nodes that have some."""
        self._since: dict[ObjectKey, tuple[str, float]] = {}
        """Uid of each pod whose deletion is scheduled, and since when."""

    def add(self) -> None:
        """Add the controller to the manager."""
        builder: ControllerBuilder[Request] = ControllerBuilder(self.manager, "taint-eviction-controller")
        builder.watches(NODE, handler=self._on_node).watches(POD, handler=self._on_pod)
        builder.with_options(workers=4).complete(self.reconcile)

    async def _on_node(self, change: ObjectChange) -> Iterable[Request]:
        name = change.key.name
        before = self._taints.pop(name, None)
        spec = decode(change.new.raw, Node).spec if change.new is not None else None
        taints = [one for one in (spec.taints if spec else None) or () if one.effect == "NoExecute"]
        if taints:
            self._taints[name] = taints
        if not taints and not before:
            return ()
        informer = await self.manager.cache.informer(POD)
        await informer.wait_for_sync()
        return [Request(*key) for key, _ in informer.store.indexed("spec.nodeName", name)]

    def _on_pod(self, change: ObjectChange) -> Iterable[Request]:
        if change.new is None:
            self._since.pop(change.key, None)
        elif self._taints and _decode_pod(change.new.raw).spec.node_name in self._taints:
            return (Request(*change.key),)
        return ()

    async def reconcile(self, request: Request) -> Result | None:
        """Delete a pod, or schedule or cancel its deletion."""
        key = ObjectKey(request.namespace, request.name)
        found = await self.manager.client.get_or_none(POD, request.name, namespace=request.namespace)
        if found is None or found.raw["metadata"].get("deletionTimestamp"):
            self._since.pop(key, None)
            return None
        pod: Object = found.raw
        spec, uid = pod.get("spec") or {}, pod["metadata"]["uid"]
        taints = self._taints.get(spec.get("nodeName") or "")
        tolerations = from_plain(spec.get("tolerations") or [], list[Toleration])
        delay = _toleration_seconds(taints or [], tolerations)
        known = self._since.get(key)
        if known is not None and known[0] != uid:
            known = None
        if delay is None:
            if self._since.pop(key, None) is not None:
                self._event(pod, f"Cancelling deletion of Pod {key.namespace}/{key.name}")
            return None
        now = asyncio.get_running_loop().time()
        if known is None:
            known = self._since[key] = (uid, now)
        left = known[1] + delay - now
        if left > 0:
            return Result(requeue_after=left)
        await self._delete(pod)
        self._since.pop(key, None)
        return None

    async def _delete(self, pod: Object) -> None:
        metadata = pod["metadata"]
        name, namespace = metadata["name"], metadata["namespace"]
        self._event(pod, f"Marking for deletion Pod {namespace}/{name}")
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": format_time(self.manager.now()),
        }
        patch = patches.strategic_merge_patch(
            {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [condition]}}
        )
        await self.manager.client.patch(POD, name, patch, namespace=namespace, subresource="status")
        await self.manager.client.delete(
            POD,
            name,
            namespace=namespace,
            preconditions=Preconditions(uid=metadata["uid"]),
            missing_ok=True,
        )

    def _event(self, pod: Object, message: str) -> None:
        metadata = pod["metadata"]
        about = pod_reference(metadata)
        self.manager.recorder.event(about, "Normal", "TaintManagerEviction", message)


def _toleration_seconds(taints: list[Taint], tolerations: list[Toleration]) -> float | None:
    """Return how long a pod tolerates the taints; `None` without limit."""
    limits: list[float] = []
    for taint in taints:
        matching = [one for one in tolerations if tolerates(one, taint)]
        if not matching:
            return 0.0
        seconds = (one.toleration_seconds for one in matching)
        limits += [max(0.0, float(each)) for each in seconds if each is not None]
    return min(limits, default=None)
