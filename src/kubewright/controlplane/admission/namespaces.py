"""Plug-ins that check or create the namespace of a request.

NamespaceLifecycle rejects creates in missing or terminating namespaces, and deletion of system namespaces.
NamespaceExists and NamespaceAutoProvision are disabled by default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.api.errors import AlreadyExists, forbidden, not_found
from kubewright.api.gvk import GroupResource
from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin, AdmissionRule

from .rejection import reject
from .sources import ObjectSource

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer

IMMORTAL = frozenset(("default", "kube-system", "kube-public"))
_NAMESPACES = GroupResource("", "namespaces")


class NamespaceLifecycle(AdmissionPlugin):
    """404 for a namespace that does not exist, 403 for one that is being deleted."""

    name = "NamespaceLifecycle"
    mutating = True
    rules = (
        AdmissionRule(("CREATE", "CONNECT"), "*", ("*/*",)),
        AdmissionRule(("DELETE",), "", ("namespaces",)),
    )

    def __init__(self, informers: ObjectSource) -> None:
        self._informers = informers

    def handles(self, request: AdmissionAttributes) -> bool:
        """Handle requests in namespaces, and deletes of namespaces."""
        return bool(request.namespace) or request.operation == "DELETE"

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


def _is_in_namespace(request: AdmissionAttributes) -> bool:
    return bool(request.namespace) and (request.resource.group, request.resource.resource) != (
        "",
        "namespaces",
    )


class NamespaceExists(AdmissionPlugin):
    """404 for any write in a namespace that does not exist."""

    name = "NamespaceExists"
    validating = True
    rules = (AdmissionRule(("CREATE", "UPDATE", "DELETE"), "*", ("*/*",)),)

    def __init__(self, informers: ObjectSource) -> None:
        self._informers = informers

    def handles(self, request: AdmissionAttributes) -> bool:
        """Handle writes in namespaces."""
        return _is_in_namespace(request)

    async def validate(self, request: AdmissionAttributes) -> None:
        """Look the namespace up."""
        if await self._informers.namespace(request.namespace) is None:
            raise not_found(_NAMESPACES, request.namespace)


class NamespaceAutoProvision(AdmissionPlugin):
    """Creates the missing namespace of a new object."""

    name = "NamespaceAutoProvision"
    mutating = True
    rules = (AdmissionRule(("CREATE",), "*", ("*/*",)),)

    def __init__(self, server: APIServer, informers: ObjectSource) -> None:
        self._server = server
        self._informers = informers

    def handles(self, request: AdmissionAttributes) -> bool:
        """Handle creates in namespaces, except dry runs."""
        return not request.dry_run and _is_in_namespace(request)

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Create the namespace; the object is not changed."""
        if await self._informers.namespace(request.namespace) is not None:
            return False
        from kubewright.controlplane.in_process_clients import server_client

        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": request.namespace}}
        try:
            await server_client(self._server).create(body)
        except AlreadyExists:
            pass
        return False
