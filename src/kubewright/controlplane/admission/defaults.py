"""Plug-ins that set defaults: tolerations, default classes, protection finalizers, taints."""

from __future__ import annotations

from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin, AdmissionRule
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.informers import Informers

from .rejection import reject

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


class _Filler(AdmissionPlugin):
    """Base of plug-ins for creates of one resource."""

    mutating = True
    reinvoke = True


class DefaultTolerationSeconds(_Filler):
    """Adds tolerations for not-ready and unreachable nodes, with a duration."""

    name = "DefaultTolerationSeconds"
    rules = (AdmissionRule(("CREATE", "UPDATE"), "", ("pods",)),)

    def __init__(self, not_ready: int = 300, unreachable: int = 300) -> None:
        """The arguments are seconds."""
        self._seconds = {NOT_READY: not_ready, UNREACHABLE: unreachable}

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Add missing tolerations."""
        assert request.object is not None
        spec: Object = request.object.setdefault("spec", {})
        tolerations: list[Object] = spec.get("tolerations") or []
        missing = [
            {
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": seconds,
            }
            for key, seconds in self._seconds.items()
            if not any(
                each.get("key", "") in ("", key) and each.get("effect", "") in ("", "NoExecute")
                for each in tolerations
            )
        ]
        if missing:
            spec["tolerations"] = tolerations + missing
        return bool(missing)


class TaintNodesByCondition(_Filler):
    """Taints new nodes as not ready."""

    name = "TaintNodesByCondition"
    rules = (AdmissionRule(("CREATE",), "", ("nodes",)),)

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Taint the node."""
        assert request.object is not None
        spec: Object = request.object.setdefault("spec", {})
        taints: list[Object] = spec.get("taints") or []
        if any(each.get("key") == NOT_READY and each.get("effect") == "NoSchedule" for each in taints):
            return False
        spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]
        return True


class StorageObjectInUseProtection(_Filler):
    """Adds protection finalizers to volumes and claims."""

    name = "StorageObjectInUseProtection"
    _finalizers = {
        "persistentvolumes": "kubernetes.io/pv-protection",
        "persistentvolumeclaims": "kubernetes.io/pvc-protection",
        "volumeattributesclasses": "kubernetes.io/vac-protection",
    }
    rules = (
        AdmissionRule(("CREATE",), "", ("persistentvolumes", "persistentvolumeclaims")),
        AdmissionRule(("CREATE",), "storage.k8s.io", ("volumeattributesclasses",)),
    )

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Add the finalizer."""
        assert request.object is not None
        metadata: Object = request.object.setdefault("metadata", {})
        finalizer = self._finalizers[request.resource.resource]
        finalizers: list[str] = metadata.get("finalizers") or []
        if finalizer in finalizers:
            return False
        metadata["finalizers"] = [*finalizers, finalizer]
        return True


def _default_class(classes: list[Object], annotation: str) -> list[Object]:
    """Return the classes annotated as default, newest first."""
    marked = [
        each for each in classes if (each["metadata"].get("annotations") or {}).get(annotation) == "true"
    ]
    marked.sort(key=lambda each: each["metadata"]["name"])
    marked.sort(key=lambda each: each["metadata"].get("creationTimestamp") or "", reverse=True)
    return marked


class DefaultStorageClass(_Filler):
    """Sets the default storage class of claims."""

    name = "DefaultStorageClass"
    rules = (AdmissionRule(("CREATE",), "", ("persistentvolumeclaims",)),)
    _annotations = (
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    )

    def __init__(self, informers: Informers) -> None:
        self._informers = informers

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Set the class."""
        assert request.object is not None
        spec: Object = request.object.setdefault("spec", {})
        annotations = (request.object.get("metadata") or {}).get("annotations") or {}
        if (
            spec.get("storageClassName") is not None
            or "volume.beta.kubernetes.io/storage-class" in annotations
        ):
            return False
        classes = await self._informers.list("storage.k8s.io", "storageclasses")
        for annotation in self._annotations:
            marked = _default_class(classes, annotation)
            if marked:
                spec["storageClassName"] = marked[0]["metadata"]["name"]
                return True
        return False


class DefaultIngressClass(_Filler):
    """Sets the default class of Ingresses."""

    name = "DefaultIngressClass"
    rules = (AdmissionRule(("CREATE",), "networking.k8s.io", ("ingresses",)),)

    def __init__(self, informers: Informers) -> None:
        self._informers = informers

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Set the class; more than one default is an error."""
        assert request.object is not None
        spec: Object = request.object.setdefault("spec", {})
        annotations = (request.object.get("metadata") or {}).get("annotations") or {}
        if spec.get("ingressClassName") is not None or "kubernetes.io/ingress.class" in annotations:
            return False
        classes = await self._informers.list("networking.k8s.io", "ingressclasses")
        marked = _default_class(classes, "ingressclass.kubernetes.io/is-default-class")
        if not marked:
            return False
        if len(marked) > 1:
            raise reject(request, f"{len(marked)} default IngressClasses were found, only 1 allowed")
        spec["ingressClassName"] = marked[0]["metadata"]["name"]
        return True
