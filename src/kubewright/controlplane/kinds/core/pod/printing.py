"""Table columns and cells of pods."""

from __future__ import annotations

from typing import Any

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.printing import (
    AGE,
    NAME,
    NONE,
    age_of,
    column,
    condition_is,
    name_of,
    since,
)

COLUMNS = (
    NAME,
    column("Ready", description="The aggregate readiness state of this pod for accepting traffic."),
    column("Status", description="The aggregate status of the containers in this pod."),
    column(
        "Restarts",
        description="The number of times the containers in this pod have been restarted and when the last "
        "container in this pod has restarted.",
    ),
    AGE,
    column("IP", description="Address of the pod.", wide=True),
    column("Node", description="Node of the pod.", wide=True),
    column("Nominated Node", description="Node whose pods are preempted for this pod.", wide=True),
    column("Readiness Gates", description="Number of readiness gates that are met.", wide=True),
)


class _Restarts:
    """Number of restarts of containers, and the time of the last one."""

    def __init__(self) -> None:
        self.count = 0
        self.last = ""

    def add(self, status: Object) -> None:
        self.count += status.get("restartCount") or 0
        finished = ((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
        self.last = max(self.last, finished or "")

    def __str__(self) -> str:
        return f"{self.count} ({since(self.last)} ago)" if self.count and self.last else str(self.count)


def _ended(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode') or 0}"


def cells(pod: Object) -> list[Any]:
    """Return the cells of a pod."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    initial = {one.get("name"): one for one in spec.get("initContainers") or ()}
    sidecars = {name for name, one in initial.items() if one.get("restartPolicy") == "Always"}
    total = len(spec.get("containers") or ()) + len(sidecars)
    reason = status.get("reason") or status.get("phase") or ""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    ready, initializing = 0, False
    restarts, sidecar_restarts = _Restarts(), _Restarts()
    for position, one in enumerate(status.get("initContainerStatuses") or ()):
        restarts.add(one)
        state = one.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if one.get("name") in sidecars:
            sidecar_restarts.add(one)
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if one.get("name") in sidecars and one.get("started"):
            ready += bool(one.get("ready"))
            continue
        initializing = True
        if terminated is not None:
            reason = f"Init:{_ended(terminated)}"
        elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
            reason = f"Init:{waiting['reason']}"
        else:
            reason = f"Init:{position}/{len(initial)}"
        break
    if not initializing or condition_is(pod, "Initialized"):
        restarts = sidecar_restarts
        reason, more = _running_reason(pod, status.get("containerStatuses") or [], reason, restarts)
        ready += more
    if "deletionTimestamp" in (pod.get("metadata") or {}):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            reason = "Terminating"
    addresses = status.get("podIPs") or [{}]
    return [
        name_of(pod),
        f"{ready}/{total}",
        reason,
        str(restarts),
        age_of(pod),
        addresses[0].get("ip") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(pod, spec.get("readinessGates") or []),
    ]


def _running_reason(pod: Object, statuses: list[Object], reason: str, restarts: _Restarts) -> tuple[str, int]:
    running, failure, ready = False, "", 0
    for one in reversed(statuses):
        restarts.add(one)
        state = one.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif terminated is not None:
            reason = _ended(terminated)
            if terminated.get("exitCode"):
                failure = reason
        elif one.get("ready") and state.get("running") is not None:
            running = True
            ready += 1
    if reason == "Completed":
        if running and condition_is(pod, "Ready"):
            reason = "Running"
        elif failure:
            reason = failure
        elif running:
            reason = "NotReady"
    return reason, ready


def _gates(pod: Object, gates: list[Object]) -> str:
    if not gates:
        return NONE
    met = sum(condition_is(pod, gate.get("conditionType") or "") for gate in gates)
    return f"{met}/{len(gates)}"
