"""Plug-ins that only fill something in: tolerations, default classes, protecting finalizers, taints."""

from __future__ import annotations

from typing import Any

from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin

from .live import Live
from .refusal import refuse

Object = dict[str, Any]

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


class _Filler(AdmissionPlugin):
    """Looks at one resource as it is created."""

    mutating = True
    reinvoke = True
    resources: frozenset[tuple[str, str]] = frozenset()
    operations: tuple[str, ...] = ("CREATE",)

    def handles(self, request: AdmissionAttributes) -> bool:
        return (
            not request.subresource
            and request.operation in self.operations
            and (request.resource.group, request.resource.resource) in self.resources
        )


class DefaultTolerationSeconds(_Filler):
    """Pods tolerate nodes that are not ready or unreachable for five minutes, unless they say otherwise."""

    name = "DefaultTolerationSeconds"
    resources = frozenset((("", "pods"),))
    operations = ("CREATE", "UPDATE")

    def __init__(self, seconds: int = 300) -> None:
        self._seconds = seconds

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Add the tolerations that are missing."""
        assert request.object is not None
        spec: Object = request.object.setdefault("spec", {})
        tolerations: list[Object] = spec.get("tolerations") or []
        missing = [
            {
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": self._seconds,
            }
            for key in (NOT_READY, UNREACHABLE)
            if not any(
                each.get("key", "") in ("", key) and each.get("effect", "") in ("", "NoExecute")
                for each in tolerations
            )
        ]
        if missing:
            spec["tolerations"] = tolerations + missing
        return bool(missing)


class TaintNodesByCondition(_Filler):
    """New nodes are not ready until somebody says so."""

    name = "TaintNodesByCondition"
    resources = frozenset((("", "nodes"),))

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
    """Volumes and claims that are in use are not removed: a finalizer waits for their users."""

    name = "StorageObjectInUseProtection"
    _finalizers = {
        "persistentvolumes": "kubernetes.io/pv-protection",
        "persistentvolumeclaims": "kubernetes.io/pvc-protection",
        "volumeattributesclasses": "kubernetes.io/vac-protection",
    }
    resources = frozenset(
        (
            ("", "persistentvolumes"),
            ("", "persistentvolumeclaims"),
            ("storage.k8s.io", "volumeattributesclasses"),
        )
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
    """Those marked as default, the newest first."""
    marked = [
        each for each in classes if (each["metadata"].get("annotations") or {}).get(annotation) == "true"
    ]
    marked.sort(key=lambda each: each["metadata"]["name"])
    marked.sort(key=lambda each: each["metadata"].get("creationTimestamp") or "", reverse=True)
    return marked


class DefaultStorageClass(_Filler):
    """Claims that name no storage class get the default one."""

    name = "DefaultStorageClass"
    resources = frozenset((("", "persistentvolumeclaims"),))
    _annotations = (
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    )

    def __init__(self, live: Live) -> None:
        self._live = live

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Name the class."""
        assert request.object is not None
        spec: Object = request.object.setdefault("spec", {})
        annotations = (request.object.get("metadata") or {}).get("annotations") or {}
        if (
            spec.get("storageClassName") is not None
            or "volume.beta.kubernetes.io/storage-class" in annotations
        ):
            return False
        classes = await self._live.all("storage.k8s.io", "storageclasses")
        for annotation in self._annotations:
            marked = _default_class(classes, annotation)
            if marked:
                spec["storageClassName"] = marked[0]["metadata"]["name"]
                return True
        return False


class DefaultIngressClass(_Filler):
    """Ingresses that name no class get the default one."""

    name = "DefaultIngressClass"
    resources = frozenset((("networking.k8s.io", "ingresses"),))

    def __init__(self, live: Live) -> None:
        self._live = live

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Name the class; there may be only one default."""
        assert request.object is not None
        spec: Object = request.object.setdefault("spec", {})
        annotations = (request.object.get("metadata") or {}).get("annotations") or {}
        if spec.get("ingressClassName") is not None or "kubernetes.io/ingress.class" in annotations:
            return False
        classes = await self._live.all("networking.k8s.io", "ingressclasses")
        marked = _default_class(classes, "ingressclass.kubernetes.io/is-default-class")
        if not marked:
            return False
        if len(marked) > 1:
            raise refuse(request, f"{len(marked)} default IngressClasses were found, only 1 allowed")
        spec["ingressClassName"] = marked[0]["metadata"]["name"]
        return True
