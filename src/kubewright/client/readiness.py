"""`readiness_of`: whether an object of any kind has reached the state that its spec requests.

    state = readiness_of(deployment)
    if not state.is_ready:
        print(state)                       # InProgress: 1 of 3 replicas are available

The states are those of kstatus (`Current`, `InProgress`, `Failed`, `Terminating`). Built-in kinds have a rule
each; other kinds follow the conventions for custom resources: `status.observedGeneration`, and the conditions
`Reconciling`, `Stalled` and `Ready`. An object without any of these is current.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from kubewright.api.gvk import GroupKind, GroupVersion

from .kind_types import AnyObject
from .patches import to_dict

ReadinessState = Literal["Current", "InProgress", "Failed", "Terminating"]


@dataclass(frozen=True, slots=True)
class Readiness:
    """State of an object, and the reason if it is not current."""

    state: ReadinessState
    message: str = ""

    @property
    def is_ready(self) -> bool:
        """Whether the object is current."""
        return self.state == "Current"

    @property
    def is_failed(self) -> bool:
        """Whether the object will not become current without another change."""
        return self.state == "Failed"

    def __str__(self) -> str:
        return f"{self.state}: {self.message}" if self.message else self.state


CURRENT: Final = Readiness("Current")


def readiness_of(obj: AnyObject) -> Readiness:
    """Return the state of an object as read from the API server."""
    data = to_dict(obj)
    metadata = data.get("metadata") or {}
    if metadata.get("deletionTimestamp"):
        finalizers = ", ".join(metadata.get("finalizers") or ())
        return Readiness("Terminating", f"finalizers: {finalizers}" if finalizers else "being deleted")
    spec, status = data.get("spec") or {}, data.get("status") or {}
    if not isinstance(spec, dict) or not isinstance(status, dict):
        return CURRENT
    observed = status.get("observedGeneration")
    generation = metadata.get("generation") or 0
    if isinstance(observed, int) and observed < generation:
        return _in_progress(f"generation {generation} has not been observed yet")
    group = GroupVersion.parse(str(data.get("apiVersion", ""))).group
    rule = _RULES.get(GroupKind(group, str(data.get("kind", ""))), _custom_resource)
    return rule(spec, status)


def _in_progress(message: str) -> Readiness:
    return Readiness("InProgress", message)


def _condition(status: dict[str, Any], type_: str) -> dict[str, Any]:
    conditions = status.get("conditions")
    for each in conditions if isinstance(conditions, list) else ():
        if isinstance(each, dict) and each.get("type") == type_:
            return each
    return {}


def _reason(condition: dict[str, Any], default: str) -> str:
    return str(condition.get("message") or condition.get("reason") or default)


def _custom_resource(spec: dict[str, Any], status: dict[str, Any]) -> Readiness:
    stalled = _condition(status, "Stalled")
    if stalled.get("status") == "True":
        return Readiness("Failed", _reason(stalled, "stalled"))
    reconciling = _condition(status, "Reconciling")
    if reconciling.get("status") == "True":
        return _in_progress(_reason(reconciling, "reconciling"))
    ready = _condition(status, "Ready")
    if ready and ready.get("status") != "True":
        return _in_progress(_reason(ready, f"condition Ready is {ready.get('status')}"))
    return CURRENT


def _replicas(spec: dict[str, Any]) -> int:
    wanted = spec.get("replicas")
    return 1 if wanted is None else int(wanted)


def _first_missing(wanted: int, status: dict[str, Any], counts: tuple[tuple[str, str], ...]) -> str:
    """Return a message about the first count of the status that is less than `wanted`."""
    for field, adjective in counts:
        found = int(status.get(field) or 0)
        if found < wanted:
            return f"{found} of {wanted} replicas are {adjective}"
    return ""


def _deployment(spec: dict[str, Any], status: dict[str, Any]) -> Readiness:
    progressing = _condition(status, "Progressing")
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return Readiness("Failed", _reason(progressing, "progress deadline exceeded"))
    if status.get("observedGeneration") is None:
        return _in_progress("the Deployment has not been observed yet")
    wanted = _replicas(spec)
    missing = _first_missing(wanted, status, (("replicas", "created"), ("updatedReplicas", "updated")))
    if missing:
        return _in_progress(missing)
    old = int(status.get("replicas") or 0) - int(status.get("updatedReplicas") or 0)
    if old > 0:
        return _in_progress(f"old replicas have not terminated yet ({old} of them)")
    missing = _first_missing(wanted, status, (("availableReplicas", "available"), ("readyReplicas", "ready")))
    if missing:
        failure = _condition(status, "ReplicaFailure")
        detail = f" ({_reason(failure, '')})" if failure.get("status") == "True" else ""
        return _in_progress(missing + detail)
    available = _condition(status, "Available")
    if available and available.get("status") != "True":
        return _in_progress(_reason(available, "not available"))
    return CURRENT


def _replica_set(spec: dict[str, Any], status: dict[str, Any]) -> Readiness:
    failure = _condition(status, "ReplicaFailure")
    if failure.get("status") == "True":
        return _in_progress(_reason(failure, "replica failure"))
    wanted = _replicas(spec)
    counts = (("replicas", "created"), ("availableReplicas", "available"), ("readyReplicas", "ready"))
    missing = _first_missing(wanted, status, counts)
    if missing:
        return _in_progress(missing)
    return CURRENT


def _stateful_set(spec: dict[str, Any], status: dict[str, Any]) -> Readiness:
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return CURRENT
    wanted = _replicas(spec)
    missing = _first_missing(wanted, status, (("replicas", "created"), ("readyReplicas", "ready")))
    if missing:
        return _in_progress(missing)
    partition = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
    missing = _first_missing(max(0, wanted - partition), status, (("updatedReplicas", "updated"),))
    if missing:
        return _in_progress(missing)
    if not partition and status.get("currentRevision") != status.get("updateRevision"):
        return _in_progress("waiting for the update to finish")
    return CURRENT


def _daemon_set(spec: dict[str, Any], status: dict[str, Any]) -> Readiness:
    if status.get("observedGeneration") is None or "desiredNumberScheduled" not in status:
        return _in_progress("the DaemonSet has not been observed yet")
    counts = (
        ("currentNumberScheduled", "scheduled"),
        ("updatedNumberScheduled", "updated"),
        ("numberAvailable", "available"),
        ("numberReady", "ready"),
    )
    missing = _first_missing(int(status["desiredNumberScheduled"]), status, counts)
    return _in_progress(missing) if missing else CURRENT


def _pod(spec: dict[str, Any], status: dict[str, Any]) -> Readiness:
    phase = status.get("phase")
    if phase == "Succeeded":
        return CURRENT
    if phase == "Failed":
        return Readiness("Failed", str(status.get("message") or status.get("reason") or "the pod failed"))
    if _condition(status, "Ready").get("status") == "True":
        return CURRENT
    for each in status.get("containerStatuses") or ():
        waiting = (each.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            return _in_progress(f"container {each.get('name')}: {_reason(waiting, '')}")
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        return _in_progress(_reason(scheduled, "not scheduled"))
    return _in_progress(f"phase {phase or 'Pending'}")


def _job(spec: dict[str, Any], status: dict[str, Any]) -> Readiness:
    failed = _condition(status, "Failed")
    if failed.get("status") == "True":
        return Readiness("Failed", _reason(failed, "the job failed"))
    if _condition(status, "Complete").get("status") == "True" or status.get("startTime"):
        return CURRENT  # as in kstatus, a running job is current
    if spec.get("suspend"):
        return CURRENT
    return _in_progress("the job has not started yet")


def _claim(spec: dict[str, Any], status: dict[str, Any]) -> Readiness:
    phase = status.get("phase")
    return CURRENT if phase == "Bound" else _in_progress(f"phase {phase or 'Pending'}, expected Bound")


def _service(spec: dict[str, Any], status: dict[str, Any]) -> Readiness:
    if spec.get("type") == "LoadBalancer" and not (status.get("loadBalancer") or {}).get("ingress"):
        return _in_progress("the load balancer has no address yet")
    return CURRENT


def _namespace(spec: dict[str, Any], status: dict[str, Any]) -> Readiness:
    return CURRENT


def _definition(spec: dict[str, Any], status: dict[str, Any]) -> Readiness:
    names = _condition(status, "NamesAccepted")
    if names.get("status") == "False":
        return Readiness("Failed", _reason(names, "names are not accepted"))
    established = _condition(status, "Established")
    if established.get("status") == "True":
        return CURRENT
    return _in_progress(_reason(established, "not established yet"))


def _api_service(spec: dict[str, Any], status: dict[str, Any]) -> Readiness:
    available = _condition(status, "Available")
    if available.get("status") == "True":
        return CURRENT
    return _in_progress(_reason(available, "not available yet"))


def _disruption_budget(spec: dict[str, Any], status: dict[str, Any]) -> Readiness:
    if status.get("observedGeneration") is None:
        return _in_progress("the PodDisruptionBudget has not been observed yet")
    return CURRENT


_RULES: Final[dict[GroupKind, Callable[[dict[str, Any], dict[str, Any]], Readiness]]] = {
    GroupKind("apps", "Deployment"): _deployment,
    GroupKind("apps", "ReplicaSet"): _replica_set,
    GroupKind("apps", "StatefulSet"): _stateful_set,
    GroupKind("apps", "DaemonSet"): _daemon_set,
    GroupKind("", "Pod"): _pod,
    GroupKind("batch", "Job"): _job,
    GroupKind("", "PersistentVolumeClaim"): _claim,
    GroupKind("", "Service"): _service,
    GroupKind("", "Namespace"): _namespace,
    GroupKind("policy", "PodDisruptionBudget"): _disruption_budget,
    GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    GroupKind("apiregistration.k8s.io", "APIService"): _api_service,
}
