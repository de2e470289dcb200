"""What a node has to say about changes of the pods on it.

NodeDeclaredFeatureValidator: some changes need a kubelet that knows how to make them. Nodes list what theirs
can do in `status.declaredFeatures`.

PodResizeValidator: a pod cannot be resized to more than its whole node has, nor on an operating system other
than Linux.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubewright.api.quantity import Quantity
from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin

from .live import Live
from .refusal import refuse
from .usage import pod_requests

Object = dict[str, Any]


class _NodeRule(AdmissionPlugin):
    """Looks at updates of pods that have a node, where the spec changes."""

    validating = True
    subresources: tuple[str, ...] = ()

    def __init__(self, live: Live) -> None:
        self._live = live

    def handles(self, request: AdmissionAttributes) -> bool:
        return (
            request.operation == "UPDATE"
            and request.resource.resource == "pods"
            and not request.resource.group
            and request.subresource in self.subresources
            and bool(((request.object or {}).get("spec") or {}).get("nodeName"))
            and _generation(request.object) != _generation(request.old_object)
        )

    async def _node(self, request: AdmissionAttributes) -> Object:
        assert request.object is not None
        name = request.object["spec"]["nodeName"]
        node = await self._live.get("", "nodes", "", name)
        if node is None:
            raise refuse(request, f'node "{name}" not found')
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
"""By the name under which a kubelet declares it: which changes, from the old to the new spec, need it."""


class DeclaredFeatures(_NodeRule):
    """A change is made only if the kubelet of the pod's node declares that it can make it."""

    name = "NodeDeclaredFeatureValidator"
    subresources = ("", "resize")

    async def validate(self, request: AdmissionAttributes) -> None:
        """Refuse what the node does not declare."""
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
            raise refuse(request, f"pod update requires features {text}")


class PodResize(_NodeRule):
    """What a pod asks for has to fit on its node, were it alone there."""

    name = "PodResizeValidator"
    subresources = ("resize",)

    async def validate(self, request: AdmissionAttributes) -> None:
        """Refuse what cannot fit."""
        assert request.object is not None
        node = await self._node(request)
        name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
        system = labels.get("kubernetes.io/os", "linux")
        if system != "linux":
            text = f'pod resize is only supported on linux nodes, node "{name}" is "{system}"'
            raise refuse(request, text, [{"reason": "UnsupportedPlatform"}])
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
            raise refuse(request, text, [{"reason": "NodeCapacity"}])
