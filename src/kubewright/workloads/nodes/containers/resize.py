"""In-place resize of simulated containers: requests and limits change, or the node does not have enough."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kubewright.workloads.nodes.objects import Object
from kubewright.workloads.nodes.pods.pod_status import PodCondition
from kubewright.workloads.nodes.registration.node_state import pod_requests

from .runtime import ContainerExit

if TYPE_CHECKING:
    from kubewright.workloads.nodes.pods.pod_worker import PodWorker

    from .container_state import ContainerState

PENDING = "PodResizePending"


class PodResize:
    """Applies changed resources of one pod."""

    __slots__ = ("_worker",)

    def __init__(self, worker: PodWorker) -> None:
        self._worker = worker

    def apply(self, spec: Object) -> None:
        """Resize the containers whose resources differ from the spec, if the node has enough."""
        worker = self._worker
        specs = {
            one["name"]: one for field in ("containers", "initContainers") for one in spec.get(field) or ()
        }
        changed = [
            (each, specs[each.name])
            for each in worker.containers
            if each.name in specs and (specs[each.name].get("resources") or {}) != each.resources
        ]
        if not changed:
            if worker.conditions.remove(PENDING):
                worker.node.deferred.pop(worker.identity.uid, None)
                worker.dirty = True
            return
        requests = pod_requests(spec)
        more = {name: amount - worker.requests.get(name, 0) for name, amount in requests.items()}
        rejection = worker.node.lacking({name: amount for name, amount in more.items() if amount > 0}, pods=0)
        if rejection is not None:
            infeasible = any(
                amount > worker.node.allocatable.get(name, amount) for name, amount in requests.items()
            )
            reason = "Infeasible" if infeasible else "Deferred"
            worker.node.deferred[worker.identity.uid] = self._retry
            pending = PodCondition("True", reason, rejection.message)
            worker.conditions.set(PENDING, pending, worker.generation)
            worker.context.event(worker, "Warning", f"Resize{reason}", rejection.message)
            worker.dirty = True
            return
        worker.conditions.remove(PENDING)
        worker.node.deferred.pop(worker.identity.uid, None)
        worker.node.release(worker.identity.uid, worker.requests)
        worker.node.reserve(worker.identity.uid, requests)
        worker.requests = requests
        for container, wanted in changed:
            self._resize(container, wanted)
        resized = [{"name": each.name, "resources": each.resources} for each, _ in changed]
        text = json.dumps({"containers": resized}, separators=(",", ":"))
        worker.context.event(worker, "Normal", "ResizeCompleted", f"Pod resize completed: {text}")
        worker.dirty = True

    def _retry(self) -> None:
        """Try again after another pod has released its resources."""
        worker = self._worker
        if worker.stage == "running":
            self.apply(worker.pod.get("spec") or {})
            worker.context.wake(worker)
        else:
            worker.node.deferred.pop(worker.identity.uid, None)

    def _resize(self, container: ContainerState, wanted: Object) -> None:
        before, container.resources = container.resources, wanted.get("resources") or {}
        policies = {
            one.get("resourceName"): one.get("restartPolicy") for one in wanted.get("resizePolicy") or ()
        }
        restarts = any(
            policies.get(name) == "RestartContainer"
            and any(
                (before.get(part) or {}).get(name) != (container.resources.get(part) or {}).get(name)
                for part in ("requests", "limits")
            )
            for name in ("cpu", "memory")
        )
        if restarts and container.run is not None and container.is_running:
            self._worker.context.runtime.kill(container.run, ContainerExit(137))
