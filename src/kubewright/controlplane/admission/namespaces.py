"""NamespaceLifecycle: rejects creates in missing or terminating namespaces, and deletion of system
namespaces.
"""

from __future__ import annotations

from kubewright.api.errors import forbidden, not_found
from kubewright.api.gvk import GroupResource
from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin
from kubewright.controlplane.informers import Informers

from .rejection import reject

IMMORTAL = frozenset(("default", "kube-system", "kube-public"))
_NAMESPACES = GroupResource("", "namespaces")


class NamespaceLifecycle(AdmissionPlugin):
    """404 for a namespace that does not exist, 403 for one that is being deleted."""

    name = "NamespaceLifecycle"
    mutating = True

    def __init__(self, informers: Informers) -> None:
        self._informers = informers

    def handles(self, request: AdmissionAttributes) -> bool:
        """Handle creates in namespaces, CONNECT requests, and deletes of namespaces."""
        if request.operation == "DELETE":
            return request.resource.resource == "namespaces" and not request.resource.group
        return bool(request.namespace) and request.operation in ("CREATE", "CONNECT")

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Reject invalid requests; objects are never changed."""
        if request.resource.resource == "namespaces" and not request.resource.group:
            if request.operation == "DELETE" and not request.subresource and request.name in IMMORTAL:
                raise forbidden(_NAMESPACES, request.name, "this namespace may not be deleted")
            return False
        if request.resource.group == "authorization.k8s.io":
            return False
        name = request.namespace
        namespace = await self._informers.namespace(name)
        if namespace is None:
            raise not_found(_NAMESPACES, name)
        if request.operation == "CREATE" and (namespace.get("status") or {}).get("phase") == "Terminating":
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {name} is being terminated",
                "field": "metadata.namespace",
            }
            raise reject(
                request,
                f"unable to create new content in namespace {name} because it is being terminated",
                [cause],
            )
        return False
