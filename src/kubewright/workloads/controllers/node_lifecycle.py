"""Node lifecycle: conditions and taints of nodes whose kubelet has stopped, and the readiness of their pods.

A node is healthy while its Lease or its status is renewed. After the grace period its conditions become
Unknown and its pods not ready. Taints follow the conditions: NoSchedule for the scheduler, NoExecute for the
taint eviction controller. To keep a network failure from moving all pods, only one node per zone gets the
NoExecute taint every ten seconds, none in a small zone of which most nodes have failed, and none at all if no
node is ready.

Permissions: get, list, watch and patch of Nodes and their status; list and watch of Leases; list, watch and
patch of Pods and their status; create and patch of Events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, NamedTuple

from kubewright.api.encoding.codec import decode, decoder
from kubewright.api.errors import Conflict, NotFound
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import ObjectReference
from kubewright.api.objects import Struct
from kubewright.api.values.times import format_time
from kubewright.apiserver.resources.objects import Object
from kubewright.cache.stores.store import ObjectChange
from kubewright.client import patches
from kubewright.controller import ControllerBuilder, Request, Result
from kubewright.workloads.component_manager import ComponentManager
from kubewright.workloads.pods import pod_reference

NODE: Final = GroupVersionKind("", "v1", "Node")
POD: Final = GroupVersionKind("", "v1", "Pod")
LEASE: Final = GroupVersionKind("coordination.k8s.io", "v1", "Lease")
LEASE_NAMESPACE: Final = "kube-node-lease"

GRACE_PERIOD: Final = 50.0
"""Seconds without a heartbeat until a node is unknown, as in kube-controller-manager 1.36."""
EVICTION_INTERVAL: Final = 10.0
"""Seconds between NoExecute taints of nodes of one zone."""
UNHEALTHY_ZONE_FRACTION: Final = 0.55
LARGE_ZONE: Final = 50
"""Number of nodes above which a mostly failed zone is still evicted, at a tenth of the rate."""
CONFLICT_RETRY: Final = 0.1

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_CONDITION_TAINTS: Final = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
_MANAGED: Final = frozenset(_CONDITION_TAINTS.values()) | {UNSCHEDULABLE}
_EXECUTE: Final = frozenset((NOT_READY, UNREACHABLE))
_KUBELET_CONDITIONS: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


class _LeaseSpec(Struct):
    renew_time: str | None = None


class _LeaseView(Struct):
    spec: _LeaseSpec | None = None


_decode_lease = decoder(_LeaseView).decode


class _Health(NamedTuple):
    """What was last heard of a node, and when."""

    heartbeat: str
    seen_at: float


def add_node_lifecycle_controller(manager: ComponentManager) -> None:
    """Add the node lifecycle controller."""
    NodeLifecycle(manager).add()


class NodeLifecycle:
    """Reconciles the health, the conditions and the taints of nodes."""

    def __init__(self, manager: ComponentManager, *, grace_period: float = GRACE_PERIOD) -> None:
        self.manager = manager
        self.grace_period = grace_period
        self._leases: dict[str, _Health] = {}
        self._statuses: dict[str, _Health] = {}
        self._ready: dict[str, tuple[str, bool]] = {}
        """Zone and readiness of each node."""
        self._next_taint: dict[str, float] = {}
        self._registered: dict[str, str] = {}

    def add(self) -> None:
        """Add the controller to the manager."""
        builder: ControllerBuilder[Request] = ControllerBuilder(self.manager, "node-lifecycle-controller")
        builder.watches(NODE, handler=self._on_node).watches(LEASE, handler=self._on_lease)
        builder.with_options(workers=4).complete(self.reconcile)

    def _on_node(self, change: ObjectChange) -> Iterable[Request]:
        return (Request("", change.key.name),)

    def _on_lease(self, change: ObjectChange) -> Iterable[Request]:
        """Remember the renewal; only that of an unhealthy node needs a reconcile."""
        if change.key.namespace != LEASE_NAMESPACE or change.new is None:
            return ()
        spec = _decode_lease(change.new.raw).spec
        self._observe(self._leases, change.key.name, (spec.renew_time if spec is not None else "") or "")
        ready = self._ready.get(change.key.name)
        return () if ready is not None and ready[1] else (Request("", change.key.name),)

    def _observe(self, known: dict[str, _Health], node: str, heartbeat: str) -> None:
        before = known.get(node)
        if before is None or before.heartbeat != heartbeat:
            known[node] = _Health(heartbeat, asyncio.get_running_loop().time())

    async def reconcile(self, request: Request) -> Result | None:
        """Update the conditions, the pods and the taints of one node."""
        name = request.name
        found = await self.manager.client.get_or_none(NODE, name)
        if found is None:
            self._forget(name)
            return None
        node: Object = found.raw
        self._register(node)
        conditions = _conditions(node)
        ready = conditions.get("Ready") or {}
        self._observe(self._statuses, name, str(ready.get("lastHeartbeatTime") or ""))
        now = asyncio.get_running_loop().time()
        silent_at = self._last_seen(name) + self.grace_period
        was_ready = ready.get("status") == "True"
        if now >= silent_at and ready.get("status") != "Unknown":
            node = await self._mark_unknown(node, conditions)
            conditions = _conditions(node)
        status = (conditions.get("Ready") or {}).get("status")
        before = self._ready.get(name)
        self._ready[name] = (_zone(node), status == "True")
        if status != "True" and (was_ready or (before is not None and before[1])):
            await self._mark_pods_not_ready(node)
        delay = await self._update_taints(node, conditions)
        waits = [each for each in (delay, silent_at - now if now < silent_at else None) if each is not None]
        return Result(requeue_after=max(0.01, min(waits))) if waits else None

    def _register(self, node: Object) -> None:
        name, uid = node["metadata"]["name"], node["metadata"]["uid"]
        if self._registered.get(name) != uid:
            self._registered[name] = uid
            self._event(node, "RegisteredNode", f"Node {name} event: Registered Node {name} in Controller")

    def _forget(self, name: str) -> None:
        for known in (self._leases, self._statuses, self._ready, self._registered):
            known.pop(name, None)

    def _last_seen(self, name: str) -> float:
        return max(known[name].seen_at for known in (self._leases, self._statuses) if name in known)

    # Conditions

    async def _mark_unknown(self, node: Object, conditions: dict[str, Object]) -> Object:
        stamp = format_time(self.manager.now())
        changed = []
        for kind in _KUBELET_CONDITIONS:
            known = conditions.get(kind)
            if known is None:
                reason, message = "NodeStatusNeverUpdated", "Kubelet never posted node status."
                heartbeat = node["metadata"].get("creationTimestamp")
            else:
                reason, message = "NodeStatusUnknown", "Kubelet stopped posting node status."
                heartbeat = known.get("lastHeartbeatTime")
            if known is None or known.get("status") != "Unknown":
                changed.append(
                    {
                        "type": kind,
                        "status": "Unknown",
                        "reason": reason,
                        "message": message,
                        "lastHeartbeatTime": heartbeat,
                        "lastTransitionTime": stamp,
                    }
                )
        patch = patches.strategic_merge_patch({"status": {"conditions": changed}})
        name = node["metadata"]["name"]
        patched = await self.manager.client.patch(NODE, name, patch, subresource="status")
        self._event(node, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
        # The patch is not a heartbeat.
        ready = _conditions(patched.raw).get("Ready") or {}
        seen = self._statuses.get(name)
        if seen is not None:
            self._statuses[name] = _Health(str(ready.get("lastHeartbeatTime") or ""), seen.seen_at)
        return patched.raw

    async def _mark_pods_not_ready(self, node: Object) -> None:
        for pod in await self._pods_of(node["metadata"]["name"]):
            status = pod.get("status") or {}
            ready = next((one for one in status.get("conditions") or () if one.get("type") == "Ready"), None)
            if ready is None or ready.get("status") != "True":
                continue
            change = {**ready, "status": "False", "lastTransitionTime": format_time(self.manager.now())}
            metadata = pod["metadata"]
            patch = patches.strategic_merge_patch({"status": {"conditions": [change]}})
            try:
                await self.manager.client.patch(
                    POD, metadata["name"], patch, namespace=metadata["namespace"], subresource="status"
                )
            except NotFound:
                continue
            about = pod_reference(metadata)
            self.manager.recorder.event(about, "Warning", "NodeNotReady", "Node is not ready")

    async def _pods_of(self, node: str) -> list[Object]:
        informer = await self.manager.cache.informer(POD)
        return [decode(entry.raw, dict) for _, entry in informer.store.indexed("spec.nodeName", node)]

    # Taints

    async def _update_taints(self, node: Object, conditions: dict[str, Object]) -> float | None:
        """Set the taints that follow from the conditions; return after how long to check again."""
        name, spec = node["metadata"]["name"], node.get("spec") or {}
        current: list[Object] = spec.get("taints") or []
        wanted = {
            (taint, "NoSchedule")
            for (kind, status), taint in _CONDITION_TAINTS.items()
            if (conditions.get(kind) or {}).get("status") == status
        }
        if spec.get("unschedulable"):
            wanted.add((UNSCHEDULABLE, "NoSchedule"))
        delay: float | None = None
        status = (conditions.get("Ready") or {}).get("status")
        if status in ("False", "Unknown"):
            key = NOT_READY if status == "False" else UNREACHABLE
            tainted = any(one.get("key") in _EXECUTE and one.get("effect") == "NoExecute" for one in current)
            delay = 0.0 if tainted else self._eviction_delay(node)
            if delay == 0.0:
                wanted.add((key, "NoExecute"))
                delay = None
            elif delay is None:
                delay = EVICTION_INTERVAL
        kept = [
            one for one in current if not _is_managed(one) or (one.get("key"), one.get("effect")) in wanted
        ]
        present = {(one.get("key"), one.get("effect")) for one in kept}
        stamp = format_time(self.manager.now())
        added: list[Object] = [
            {"key": key, "effect": effect, "timeAdded": stamp}
            for key, effect in sorted(wanted)
            if (key, effect) not in present
        ]
        if not added and len(kept) == len(current):
            return delay
        change = {
            "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
            "spec": {"taints": [*kept, *added]},
        }
        try:
            await self.manager.client.patch(NODE, name, patches.merge_patch(change))
        except Conflict:
            return CONFLICT_RETRY
        if any(one["effect"] == "NoExecute" for one in added):
            self._next_taint[_zone(node)] = asyncio.get_running_loop().time() + EVICTION_INTERVAL
        return delay

    def _eviction_delay(self, node: Object) -> float | None:
        """Return after how long the node may get its NoExecute taint; `None` while it must not."""
        if not any(ready for _, ready in self._ready.values()):
            return None
        zone = _zone(node)
        states = [ready for other, ready in self._ready.values() if other == zone]
        failed = states.count(False)
        interval = 0.0
        if failed > 2 and failed < len(states) and failed / len(states) >= UNHEALTHY_ZONE_FRACTION:
            if len(states) <= LARGE_ZONE:
                return None
            interval = EVICTION_INTERVAL * 9
        return max(0.0, self._next_taint.get(zone, 0.0) + interval - asyncio.get_running_loop().time())

    def _event(self, node: Object, reason: str, message: str) -> None:
        metadata = node["metadata"]
        about = ObjectReference(api_version="v1", kind="Node", name=metadata["name"], uid=metadata["uid"])
        self.manager.recorder.event(about, "Normal", reason, message)


def _is_managed(taint: Object) -> bool:
    """Whether this controller adds and removes a taint."""
    if taint.get("effect") == "NoSchedule":
        return taint.get("key") in _MANAGED
    return taint.get("effect") == "NoExecute" and taint.get("key") in _EXECUTE


def _conditions(node: Object) -> dict[str, Object]:
    return {one.get("type") or "": one for one in (node.get("status") or {}).get("conditions") or ()}


def _zone(node: Object) -> str:
    labels = node["metadata"].get("labels") or {}
    region = labels.get("topology.kubernetes.io/region", "")
    return f"{region}/{labels.get('topology.kubernetes.io/zone', '')}"
