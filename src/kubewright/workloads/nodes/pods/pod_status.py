"""Phase, conditions and container statuses of a pod, computed from the states of its containers as a
kubelet does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kubewright.workloads.nodes.containers.container_state import ContainerState
from kubewright.workloads.nodes.objects import Object, condition_of, format_names


class PodCondition(NamedTuple):
    """Status, reason and message of a condition."""

    status: str
    reason: str = ""
    message: str = ""


TRUE = PodCondition("True")
_STATUS_FIELDS: Final = (
    ("initContainerStatuses", ("init", "sidecar")),
    ("containerStatuses", ("main",)),
    ("ephemeralContainerStatuses", ("ephemeral",)),
)


def has_started_main(containers: Sequence[ContainerState]) -> bool:
    """Return whether a main container runs or has run, so all init containers are complete."""
    return any(each.kind == "main" and (each.is_running or each.exit_code is not None) for each in containers)


def has_ended_mains(containers: Sequence[ContainerState]) -> bool:
    """Return whether all main containers have ended and are not restarted."""
    return all(
        each.is_terminated and not each.restarts_after(each.exit_code or 0)
        for each in containers
        if each.kind == "main"
    )


def container_statuses(containers: Sequence[ContainerState]) -> Object:
    """Return the fields of the pod status that have statuses of containers."""
    found: Object = {}
    for field, kinds in _STATUS_FIELDS:
        statuses = [each.status() for each in containers if each.kind in kinds]
        if statuses:
            found[field] = statuses
    return found


def pod_phase(containers: Sequence[ContainerState], *, terminal: bool, initialized: bool) -> str:
    """Return the phase. `terminal`: containers are not restarted; `initialized`: init containers ran."""
    pending = waiting = running = stopped = succeeded = final = 0
    for each in containers:
        if each.kind == "init":
            code = each.exit_code
            if code is not None and code != 0 and not each.is_running:
                if not each.restarts_after(code):
                    return "Failed"
            elif not each.is_complete:
                pending += 1
        elif each.kind == "sidecar":
            if each.is_running:
                running += 1
                if not each.started and not initialized:
                    pending += 1
            elif each.exit_code is None:
                waiting += 1
        elif each.kind == "main":
            code = None if each.is_running else each.exit_code
            if each.is_running:
                running += 1
            elif code is None:
                waiting += 1
            else:
                stopped += 1
                succeeded += each.is_complete
                final += not each.restarts_after(code)
    if pending or waiting:
        return "Pending"
    if running:
        return "Running"
    if not stopped:
        return "Pending"
    if not terminal and stopped != final:
        return "Running"
    return "Succeeded" if stopped == succeeded else "Failed"


def pod_conditions(
    pod: Object, containers: Sequence[ContainerState], phase: str, *, sandbox: bool
) -> dict[str, PodCondition]:
    """Return the conditions that a kubelet sets. `sandbox`: whether the pod has its network."""
    containers_ready = _containers_ready(containers, phase)
    return {
        "PodReadyToStartContainers": PodCondition(str(sandbox)),
        "Initialized": _initialized(containers, phase),
        "Ready": _ready(pod, containers_ready),
        "ContainersReady": containers_ready,
        "PodScheduled": TRUE,
    }


def _containers_ready(containers: Sequence[ContainerState], phase: str) -> PodCondition:
    if phase == "Failed":
        return PodCondition("False", "PodFailed")
    if phase == "Succeeded":
        return PodCondition("False", "PodCompleted")
    unready = [each.name for each in containers if each.kind in ("main", "sidecar") and not each.ready]
    if not unready:
        return TRUE
    return PodCondition(
        "False", "ContainersNotReady", f"containers with unready status: {format_names(unready)}"
    )


def _ready(pod: Object, containers_ready: PodCondition) -> PodCondition:
    gates = (pod.get("spec") or {}).get("readinessGates")
    if containers_ready.status != "True" or not gates:
        return containers_ready
    messages = []
    for gate in gates:
        kind = gate.get("conditionType") or ""
        found = condition_of(pod.get("status") or {}, kind)
        if found is None:
            messages.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif found.get("status") != "True":
            messages.append(
                f'the status of pod readiness gate "{kind}" is not "True", but {found.get("status")}'
            )
    return PodCondition("False", "ReadinessGatesNotReady", ", ".join(messages)) if messages else TRUE


def _initialized(containers: Sequence[ContainerState], phase: str) -> PodCondition:
    if phase == "Succeeded":
        return PodCondition("True", "PodCompleted")
    if has_started_main(containers):
        return TRUE
    incomplete = [
        each.name
        for each in containers
        if (each.kind == "init" and not each.is_complete) or (each.kind == "sidecar" and not each.started)
    ]
    if not incomplete:
        return TRUE
    return PodCondition(
        "False", "ContainersNotInitialized", f"containers with incomplete status: {format_names(incomplete)}"
    )
