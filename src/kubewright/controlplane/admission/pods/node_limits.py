"""Validation of pod updates against the pod's node.

NodeDeclaredFeatureValidator: some updates require a kubelet feature, which nodes list in
`status.declaredFeatures`.

PodResizeValidator: a pod cannot be resized beyond the node's allocatable resources, nor on other operating
systems than Linux.
"""

from __future__ import annotations

from collections.abc import Callable

from kubewright.api.values.quantity import Quantity
from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin, AdmissionRule
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.admission.quotas.usage import pod_requests
from kubewright.controlplane.admission.rejection import reject
from kubewright.controlplane.informers import Informers


class _NodeRule(AdmissionPlugin):
    """Base of plug-ins for spec updates of pods that are bound to a node."""

    validating = True

    def __init__(self, informers: Informers) -> None:
        self._informers = informers

    def handles(self, request: AdmissionAttributes) -> bool:
        return bool(((request.object or {}).get("spec") or {}).get("nodeName")) and _generation(
            request.object
        ) != _generation(request.old_object)

    async def _node(self, request: AdmissionAttributes) -> Object:
        assert request.object is not None
        name = request.object["spec"]["nodeName"]
        node = await self._informers.read("", "nodes", name)
        if node is None:
            raise reject(request, f'node "{name}" not found')
        return node


def _generation(pod: Object | None) -> int:
    return int(((pod or {}).get("metadata") or {}).get("generation") or 0)


def _changes_whole_pod(new: Object, old: Object) -> bool:
    return (new.get("resources") or {}) != (old.get("resources") or {})


def _changes_init_container(new: Object, old: Object) -> bool:
    return any(
        before.get("restartPolicy") != "Always"
        and (before.get("resources") or {}) != (after.get("resources") or {})
        for before, after in zip(
            old.get("initContainers") or (), new.get("initContainers") or (), strict=False
        )
    )


FEATURES: dict[str, Callable[[Object, Object], bool]] = {
    "InPlacePodLevelResourcesVerticalScaling": _changes_whole_pod,
    "InPlacePodVerticalScalingInitContainers": _changes_init_container,
}
"""Feature name to a predicate over old and new spec: whether the update requires the feature."""


class DeclaredFeatures(_NodeRule):
    """Rejects updates that require a feature that the node does not declare."""

    name = "NodeDeclaredFeatureValidator"
    rules = (AdmissionRule(("UPDATE",), "", ("pods", "pods/resize")),)

    async def validate(self, request: AdmissionAttributes) -> None:
        """Reject updates with missing features."""
        assert request.object is not None
        assert request.old_object is not None
        new, old = request.object["spec"], request.old_object["spec"]
        needed = [name for name, needs in FEATURES.items() if needs(new, old)]
        if not needed:
            return
        node = await self._node(request)
        declared = (node.get("status") or {}).get("declaredFeatures") or ()
        missing = [name for name in needed if name not in declared]
        if missing:
            where = node["metadata"]["name"]
            text = f'{", ".join(missing)} which are not available on node "{where}"'
            raise reject(request, f"pod update requires features {text}")


class PodResize(_NodeRule):
    """Rejects resizes beyond the node's allocatable resources."""

    name = "PodResizeValidator"
    rules = (AdmissionRule(("UPDATE",), "", ("pods/resize",)),)

    async def validate(self, request: AdmissionAttributes) -> None:
        """Reject resizes that cannot fit."""
        assert request.object is not None
        node = await self._node(request)
        name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
        system = labels.get("kubernetes.io/os", "linux")
        if system != "linux":
            text = f'pod resize is only supported on linux nodes, node "{name}" is "{system}"'
            raise reject(request, text, [{"reason": "UnsupportedPlatform"}])
        allocatable = (node.get("status") or {}).get("allocatable") or {}
        requests = pod_requests(request.object["spec"])
        lacking = []
        for resource, scale in (("cpu", -3), ("memory", 0)):
            wanted = requests.get(resource, Quantity(0))
            there = Quantity(allocatable.get(resource) or 0)
            if wanted > there:
                amounts = f"requested: {wanted.as_int(scale)}, allocatable: {there.as_int(scale)}"
                lacking.append(f"{resource}, {amounts}")
        if lacking:
            text = f"node didn't have enough allocatable resources: {'; '.join(lacking)}"
            raise reject(request, text, [{"reason": "NodeCapacity"}])
