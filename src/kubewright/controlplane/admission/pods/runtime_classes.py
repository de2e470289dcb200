"""RuntimeClass: overhead and scheduling of a pod's runtime class."""

from __future__ import annotations

from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin, AdmissionRule
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.admission.rejection import reject
from kubewright.controlplane.informers import Informers


class RuntimeClasses(AdmissionPlugin):
    """Copies overhead, node selector and tolerations of the runtime class into the pod."""

    name = "RuntimeClass"
    mutating = True
    validating = True
    reinvoke = True
    rules = (AdmissionRule(("CREATE",), "", ("pods",)),)

    def __init__(self, informers: Informers) -> None:
        self._informers = informers

    async def _class(self, request: AdmissionAttributes, spec: Object) -> Object | None:
        name = spec.get("runtimeClassName")
        if name is None:
            return None
        found = await self._informers.get("node.k8s.io", "runtimeclasses", name)
        if found is None:
            raise reject(request, f'pod rejected: RuntimeClass "{name}" not found')
        return found

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Copy overhead and scheduling from the runtime class."""
        assert request.object is not None
        spec: Object = request.object.setdefault("spec", {})
        found = await self._class(request, spec)
        if found is None:
            return False
        changed = False
        overhead = (found.get("overhead") or {}).get("podFixed")
        if overhead is not None:
            if spec.get("overhead") and spec["overhead"] != overhead:
                raise reject(
                    request, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
                )
            changed |= spec.get("overhead") != overhead
            spec["overhead"] = overhead
        scheduling = found.get("scheduling") or {}
        selector = dict(spec.get("nodeSelector") or {})
        for key, value in (scheduling.get("nodeSelector") or {}).items():
            if selector.get(key, value) != value:
                raise reject(
                    request,
                    f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                    f"pod.spec.nodeSelector[{key}] = {selector[key]}",
                )
            changed |= key not in selector
            selector[key] = value
        if selector:
            spec["nodeSelector"] = selector
        tolerations = list(spec.get("tolerations") or ())
        added = [each for each in scheduling.get("tolerations") or () if each not in tolerations]
        if added:
            spec["tolerations"] = tolerations + added
        return changed or bool(added)

    async def validate(self, request: AdmissionAttributes) -> None:
        """Reject an overhead that differs from the runtime class."""
        spec: Object = (request.object or {}).get("spec") or {}
        found = await self._class(request, spec)
        overhead = ((found or {}).get("overhead") or {}).get("podFixed")
        if overhead is None and spec.get("overhead"):
            if found is not None:
                raise reject(
                    request, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
                )
            raise reject(
                request, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )
        if overhead is not None and spec.get("overhead") != overhead:
            raise reject(
                request, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            )
