"""A scenario of `kubewright explore` that starts at a moment of a recording.

The objects of users at that moment are the setup: what the operator, and the controllers of the cluster, have
made of them is made again by them. The changes that users make after the moment are the steps, with their
recorded distance. If workloads were recorded, their controllers run, on a simulated node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kubewright.explore.scenarios.scenarios import Scenario
from kubewright.manager import Operator
from kubewright.recording import Recording
from kubewright.recording.recording import Object, RecordedKey

from .attribution import is_of, writers
from .inputs import ReplayInput, read_inputs

if TYPE_CHECKING:
    from kubewright.explore.scenarios.steps import Steps

_WORKLOADS = frozenset(("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"))
_OF_CLUSTER = frozenset(
    (
        "Node",
        "Pod",
        "ReplicaSet",
        "ControllerRevision",
        "EndpointSlice",
        "Endpoints",
        "Event",
        "Lease",
        "APIService",
        "FlowSchema",
        "PriorityLevelConfiguration",
        "PriorityClass",
        "IPAddress",
        "ServiceCIDR",
    )
)
"""Kinds of objects that the control plane creates itself."""
_SERVER = frozenset(
    (
        "uid",
        "resourceVersion",
        "managedFields",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "ownerReferences",
    )
)
_COMPONENTS = ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-apiserver")
"""Field managers of the control plane."""
MAX_PAUSE = 600.0


def scenario_of(
    recording: Recording, operator: Operator, *, at: float = 0.0, managers: Sequence[str] = ()
) -> Scenario:
    """Return the scenario of a recording from a time on; `managers` are field managers of the operator."""
    names = (*managers, operator.name, *filter(None, (recording.operator,)))
    written = {each.change.key for each in read_inputs(recording, names).changes if each.actor == "operator"}
    rest = recording.since(at)
    own = {f"{each.gvk.kind}.{each.gvk.group}" for each in operator.kinds if each.gvk is not None}
    objects = [
        each
        for each in rest.objects
        if RecordedKey.of(each) not in written and _is_of_user(each) and not _defines(each, own)
    ]
    recorded = read_inputs(rest, names)
    of_cluster = {
        id(each.change)
        for each in recorded.changes
        if is_of(writers(each.before, each.change.object), _COMPONENTS)
    }
    inputs = [
        each
        for each in recorded.inputs
        if id(each.change) not in of_cluster and _is_step(each) and _essential(each)
    ]
    kinds = {str(each.get("kind")) for each in rest.objects}
    has_workloads = not _WORKLOADS.isdisjoint(kinds) or any(each.key.kind in _WORKLOADS for each in inputs)

    async def steps(steps: Steps) -> None:
        last = 0.0
        for each in inputs:
            if each.at - last >= 0.5:
                await steps.advance(min(each.at - last, MAX_PAUSE))
            last = each.at
            await _step(steps, each)
        await steps.advance(60.0)

    return Scenario(
        name="recording",
        steps=steps,
        setup=[_plain(each) for each in sorted(objects, key=_order)],
        controllers=has_workloads,
        source=recording.source,
    )


async def _step(steps: Steps, each: ReplayInput) -> None:
    key = each.key
    kind = f"{key.kind}.{key.group}" if key.group else key.kind
    namespace = key.namespace or None
    if each.type != "create" and not _is_of_user(each.object):
        await steps.wait(kind, key.name, namespace=namespace, absent=False)  # a fault can delay its creation
    if each.type == "create":
        await steps.apply(_plain(each.object), namespace=namespace)
    elif each.type == "delete" or (each.patch.get("metadata") or {}).get("deletionTimestamp"):
        await steps.delete(kind, key.name, namespace=namespace)
    else:
        await steps.patch(kind, key.name, _essential(each), namespace=namespace)


def _essential(each: ReplayInput) -> Any:
    """Return what a user changed: not the status; of creations and deletions, something that is true."""
    if each.type != "patch":
        return {"metadata": {}}
    metadata = {
        name: value for name, value in (each.patch.get("metadata") or {}).items() if name not in _SERVER
    }
    rest = {name: value for name, value in each.patch.items() if name not in ("metadata", "status")}
    if (each.patch.get("metadata") or {}).get("deletionTimestamp"):
        return {"metadata": {}}
    return {**rest, "metadata": metadata} if metadata else rest


def _is_step(each: ReplayInput) -> bool:
    """Whether a user has made a change: also one of an object that the operator has created."""
    if each.type == "create":
        return _is_of_user(each.object)
    return each.key.kind not in _OF_CLUSTER and not each.key.namespace.startswith("kube-")


def _is_of_user(obj: Object) -> bool:
    key, metadata = RecordedKey.of(obj), obj.get("metadata") or {}
    if key.kind in _OF_CLUSTER or any(
        each.get("controller") for each in metadata.get("ownerReferences") or ()
    ):
        return False
    if key.namespace.startswith("kube-") or (key.kind == "Namespace" and key.name.startswith("kube-")):
        return False
    labels = metadata.get("labels") or {}
    return (
        key.name not in ("kube-root-ca.crt", "kubernetes", "default")
        and labels.get("kubernetes.io/bootstrapping") is None
        and not key.name.startswith("system:")
    )


def _defines(obj: Object, kinds: set[str]) -> bool:
    """Whether an object is the CRD of one of these kinds, which the operator brings itself."""
    if obj.get("kind") != "CustomResourceDefinition":
        return False
    spec = obj.get("spec") or {}
    return f"{(spec.get('names') or {}).get('kind')}.{spec.get('group')}" in kinds


def _order(obj: Object) -> int:
    """Namespaces and CRDs are created first."""
    return {"Namespace": 0, "CustomResourceDefinition": 1}.get(str(obj.get("kind")), 2)


def _plain(obj: Object) -> Object:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _SERVER}
    return {**{name: value for name, value in obj.items() if name != "status"}, "metadata": metadata}
