"""`AssumedReadiness`: what a cluster with nodes would do with the pods, volumes and Services of a plan.

    assumed = AssumedReadiness(plane, delay=1.0)
    assumed.start()

There are no nodes in a rehearsal. Pods of the snapshot stay as they are. Pods that are created become ready
after a delay, those of new Jobs complete; pods that are deleted end. New claims are bound, and new Services
of type LoadBalancer get an address. The controllers of workloads do the rest, so that a Deployment rolls out
as in a cluster in which every image starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.encoding import codec
from kubewright.api.errors import APIError, Conflict
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.unstructured import Unstructured
from kubewright.client.patches import merge_patch
from kubewright.workloads.controllers import component_names

if TYPE_CHECKING:
    from kubewright.apiserver.watch.cache import WatchCache
    from kubewright.apiserver.watch.event import WatchCacheEvent
    from kubewright.controlplane import ControlPlane

CONTROLLERS: Final = frozenset(
    (
        "cronjob-controller",
        "daemonset-controller",
        "deployment-controller",
        "disruption-controller",
        "endpointslice-controller",
        "job-controller",
        "replicaset-controller",
        "replicationcontroller-controller",
        "statefulset-controller",
        "ttl-after-finished-controller",
    )
)
"""Controllers that run: those whose result does not depend on nodes, clouds or metrics."""
DISABLED: Final = component_names() - CONTROLLERS
NODE: Final = "assumed-node"
"""The node of new pods, if the snapshot has none."""
_NODE: Final = GroupVersionKind("", "v1", "Node")
_POD: Final = GroupVersionKind("", "v1", "Pod")
_CLAIM: Final = GroupVersionKind("", "v1", "PersistentVolumeClaim")
_SERVICE: Final = GroupVersionKind("", "v1", "Service")


class AssumedReadiness:
    """Stands in for kubelets, scheduler, volume provisioner and load balancers."""

    def __init__(self, plane: ControlPlane, *, delay: float) -> None:
        self._client = plane.client(user_agent="assumed")
        self._dispatcher = plane.server.dispatcher
        self._delay = delay
        self._known_jobs: frozenset[str] | None = None
        self._pending: set[tuple[str, str, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._addresses = itertools.count(1)
        self._nodes: list[str] = []
        self._actions: dict[str, Callable[[dict[str, Any]], Coroutine[Any, Any, None] | None]] = {
            "pods": self._pod,
            "persistentvolumeclaims": self._claim,
            "services": self._service,
        }

    def start(self) -> None:
        """Handle the changes of objects from now on."""
        self._dispatcher.listeners.append(self)

    async def prepare(self) -> None:
        """Prepare for the start of the operator: pods of Jobs that are created from now on complete."""
        await self._node()
        jobs = await self._client.list("jobs.batch")
        self._known_jobs = frozenset(each.raw["metadata"]["uid"] for each in jobs)

    # Listener of the dispatcher

    def on_resource_added(self, cache: WatchCache) -> None:
        """Do nothing."""

    def on_resource_removed(self, cache: WatchCache) -> None:
        """Do nothing."""

    def on_watch_lost(self) -> None:
        """Do nothing: the storage is in this process."""

    def on_watch_restarted(self) -> None:
        """Do nothing."""

    def on_event(self, cache: WatchCache, event: WatchCacheEvent) -> None:
        """Do what the cluster would do after a change."""
        action = self._actions.get(str(cache.resource))
        if action is None or event.event.value is None:
            return
        obj = codec.loads(event.event.value)
        work = action(obj)
        if work is None:
            return
        key = (str(cache.resource), obj["metadata"]["uid"], str(obj["metadata"].get("deletionTimestamp")))
        if key in self._pending:
            work.close()
            return
        self._pending.add(key)
        loop = asyncio.get_running_loop()
        # Not as a part of the process whose write caused the event.
        task = loop.create_task(self._later(work, key), context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _later(self, work: Coroutine[Any, Any, None], key: tuple[str, str, str]) -> None:
        await asyncio.sleep(self._delay)
        self._pending.discard(key)
        with contextlib.suppress(APIError):  # the object was deleted or changed
            await work

    # Actions

    def _pod(self, pod: dict[str, Any]) -> Coroutine[Any, Any, None] | None:
        metadata, spec = pod["metadata"], pod.get("spec") or {}
        phase = (pod.get("status") or {}).get("phase") or "Pending"
        if metadata.get("deletionTimestamp"):
            return self._end_pod(metadata)
        if phase != "Pending" or spec.get("schedulingGates") or spec.get("nodeName"):
            return None
        return self._run_pod(pod)

    async def _end_pod(self, metadata: dict[str, Any]) -> None:
        await self._client.delete(
            _POD, metadata["name"], namespace=metadata["namespace"], grace_period=0, missing_ok=True
        )

    async def _run_pod(self, pod: dict[str, Any]) -> None:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        if not pod["spec"].get("nodeName"):
            node = _required_node(pod) or await self._node()
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name, "namespace": namespace},
                "target": {"kind": "Node", "name": node},
            }
            bindings = self._client.subresource("binding", _POD, name, namespace=namespace)
            await bindings.create(Unstructured(binding))
        status = pod_status(pod, completes=self._completes(pod), number=next(self._addresses))
        await self._client.patch(
            _POD, name, merge_patch({"status": status}), namespace=namespace, subresource="status"
        )

    async def _node(self) -> str:
        """Return the name of a node, in turn; controllers leave out pods whose node does not exist."""
        if not self._nodes:
            nodes = [each.raw for each in await self._client.list(_NODE)]
            self._nodes = [
                each["metadata"]["name"] for each in nodes if not each["spec"].get("unschedulable")
            ]
        if not self._nodes:
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
            with contextlib.suppress(Conflict):
                await self._client.create(Unstructured(node))
            self._nodes = [NODE]
        self._nodes.append(self._nodes.pop(0))
        return self._nodes[-1]

    def _completes(self, pod: dict[str, Any]) -> bool:
        owners = pod["metadata"].get("ownerReferences") or ()
        job = next((each["uid"] for each in owners if each.get("kind") == "Job"), None)
        return job is not None and self._known_jobs is not None and job not in self._known_jobs

    def _claim(self, claim: dict[str, Any]) -> Coroutine[Any, Any, None] | None:
        phase = (claim.get("status") or {}).get("phase") or "Pending"
        if phase != "Pending" or claim["metadata"].get("deletionTimestamp"):
            return None
        spec = claim.get("spec") or {}
        capacity = (spec.get("resources") or {}).get("requests") or {}
        status = {"phase": "Bound", "accessModes": spec.get("accessModes") or [], "capacity": capacity}
        return self._set_status(_CLAIM, claim["metadata"], status)

    def _service(self, service: dict[str, Any]) -> Coroutine[Any, Any, None] | None:
        balancer = (service.get("status") or {}).get("loadBalancer") or {}
        if (service.get("spec") or {}).get("type") != "LoadBalancer" or balancer.get("ingress"):
            return None
        address = {"ip": f"198.51.100.{next(self._addresses) % 250 + 1}", "ipMode": "VIP"}
        return self._set_status(_SERVICE, service["metadata"], {"loadBalancer": {"ingress": [address]}})

    async def _set_status(
        self, kind: GroupVersionKind, metadata: dict[str, Any], status: dict[str, Any]
    ) -> None:
        await self._client.patch(
            kind,
            metadata["name"],
            merge_patch({"status": status}),
            namespace=metadata["namespace"],
            subresource="status",
        )


def _required_node(pod: dict[str, Any]) -> str:
    """Return the node that a pod of a DaemonSet is for; an empty string for other pods."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for each in term.get("matchFields") or ():
            if each.get("key") == "metadata.name" and each.get("values"):
                return str(each["values"][0])
    return ""


def pod_status(pod: dict[str, Any], *, completes: bool, number: int) -> dict[str, Any]:
    """Return the status of a pod whose containers run and are ready, or have completed."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    state: dict[str, Any] = {"running": {"startedAt": now}}
    if completes:
        state = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
    conditions = [
        {"type": each, "status": "True", "lastTransitionTime": now}
        for each in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    if completes:
        for each in conditions[2:]:
            each |= {"status": "False", "reason": "PodCompleted"}
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    return {
        "phase": "Succeeded" if completes else "Running",
        "startTime": now,
        "hostIP": "192.0.2.1",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": conditions,
        "containerStatuses": [
            {
                "name": each["name"],
                "image": each.get("image", ""),
                "imageID": each.get("image", ""),
                "ready": not completes,
                "started": not completes,
                "restartCount": 0,
                "state": state,
            }
            for each in pod["spec"].get("containers") or ()
        ],
    }
