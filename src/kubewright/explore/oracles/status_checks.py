"""Checks of what a status claims.

- `status`: when the operator is idle, a custom resource that is ready has no child that is not, its
  `observedGeneration` is current, and its numbers of replicas are those of its only workload
- `early-claim`: a status does not report success before the same reconcile has written the children
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kubewright.explore.state import ClusterState, StateObject

    from .history import RunHistory

READY_CONDITIONS: Final = ("Ready", "Available")
READY_PHASES: Final = frozenset(("Ready", "Running", "Available", "Healthy"))
_WORKLOADS: Final = frozenset(("Deployment", "StatefulSet", "ReplicaSet"))
_COUNTS: Final = ("readyReplicas", "availableReplicas")


def status_problems(state: ClusterState, kinds: Collection[tuple[str, str]]) -> Iterator[str]:
    """Return claims of custom resources that are wrong in a state in which the operator is idle."""
    for obj in state:
        if obj.key[:2] not in kinds or obj.is_deleting or not isinstance(obj.data.get("status"), dict):
            continue
        generation = obj.metadata.get("generation")
        observed = obj.get("status", "observedGeneration")
        if isinstance(observed, int) and observed != generation:
            yield (
                f"{obj}: status.observedGeneration is {observed} and the generation is {generation} when the "
                "operator is idle; write it with every status"
            )
        children = state.children_of(obj)
        claim = ready_claim(obj)
        if claim:
            for child in children:
                reason = _not_ready(child)
                if reason:
                    yield f"{obj}: {claim}, and {child} is not: {reason}; derive the status from the children"
                    break
        yield from _counts(obj, children)


def ready_claim(obj: StateObject) -> str:
    """Return the text in which an object claims to be ready; empty if it does not."""
    for each in obj.get("status", "conditions", default=()) or ():
        if isinstance(each, dict) and each.get("type") in READY_CONDITIONS and each.get("status") == "True":
            return f"the condition {each['type']} is True"
    phase = obj.get("status", "phase")
    return f"status.phase is {phase}" if phase in READY_PHASES else ""


def _not_ready(child: StateObject) -> str:
    """Return why a child is known to be not ready; empty if it is, or if nothing is known."""
    for each in child.get("status", "conditions", default=()) or ():
        if isinstance(each, dict) and each.get("type") in READY_CONDITIONS and each.get("status") == "False":
            return f"its condition {each['type']} is False"
    if child.key.kind in _WORKLOADS and child.get("status", "observedGeneration") is not None:
        wanted, ready = (
            child.get("spec", "replicas", default=1),
            child.get("status", "readyReplicas", default=0),
        )
        if ready < wanted:
            return f"{ready} of {wanted} replicas are ready"
    return ""


def _counts(obj: StateObject, children: list[StateObject]) -> Iterator[str]:
    workloads = [each for each in children if each.key.kind in _WORKLOADS]
    if len(workloads) != 1 or workloads[0].get("status", "observedGeneration") is None:
        return
    for name in _COUNTS:
        claimed: Any = obj.get("status", name)
        actual = workloads[0].get("status", name, default=0)
        if isinstance(claimed, int) and claimed != actual:
            yield (
                f"{obj}: status.{name} is {claimed}, and that of {workloads[0]} is {actual}; copy it from "
                "the child"
            )


def early_claims(history: RunHistory, kinds: Collection[tuple[str, str]]) -> Iterator[str]:
    """Return reconciles that report success, and write children of the object afterwards."""
    claims: dict[str, tuple[int, StateObject, str]] = {}
    seen: set[str] = set()
    for change in history.changes:
        write = change.write
        if write is None or not write.reconcile:
            continue
        obj = change.object
        if obj.key[:2] in kinds and _is_new_claim(obj, change.before):
            claims.setdefault(write.reconcile, (write.number, obj, ready_claim(obj)))
            continue
        known = claims.get(write.reconcile)
        if known is None or write.number < known[0] or known[1].uid in seen:
            continue
        if any(each.get("uid") == known[1].uid for each in obj.owner_references):
            seen.add(known[1].uid)
            yield (
                f"{known[1]}: {known[2]} before the same reconcile writes {obj}; write the status after the "
                "children"
            )


def _is_new_claim(obj: StateObject, before: StateObject | None) -> bool:
    return _claims_generation(obj) and (before is None or not _claims_generation(before, obj))


def _claims_generation(obj: StateObject, later: StateObject | None = None) -> bool:
    """Whether an object claims to be ready for the generation that it has, or has later."""
    observed = obj.get("status", "observedGeneration")
    generation = (later or obj).metadata.get("generation")
    return bool(ready_claim(obj)) and (observed is None or observed == generation)
