"""OwnerReferencesPermissionEnforcement: changing owner references requires permission to delete the object.

Disabled by default. `blockOwnerDeletion` requires permission to update the finalizers of the owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin, AdmissionRule
from kubewright.apiserver.authorization import AuthorizationAttributes, Decision
from kubewright.apiserver.resources.objects import Object

from .rejection import reject

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer


class OwnerReferences(AdmissionPlugin):
    """Authorizes changes of owner references."""

    name = "OwnerReferencesPermissionEnforcement"
    validating = True
    rules = (AdmissionRule(("CREATE", "UPDATE"), "*", ("*/*",)),)

    def __init__(self, server: APIServer) -> None:
        self._server = server

    def handles(self, request: AdmissionAttributes) -> bool:
        """Handle changes of owner references, except of pods by their own kubelet."""
        return request.subresource != "status" and _owners(request.object) != _owners(request.old_object)

    async def validate(self, request: AdmissionAttributes) -> None:
        """Authorize deletion of the object, then finalizer updates of newly blocked owners."""
        resource = request.resource
        if request.operation == "UPDATE" and not await self._may(
            request,
            "delete",
            resource.group,
            resource.version,
            resource.resource,
            "",
            request.namespace,
            request.name,
        ):
            raise reject(
                request,
                "cannot set an ownerRef on a resource you can't delete: , <nil>",
            )
        before = {each["uid"] for each in _owners(request.old_object) if each.get("blockOwnerDeletion")}
        for owner in _owners(request.object):
            if not owner.get("blockOwnerDeletion") or owner.get("uid") in before:
                continue
            group, _, version = (owner.get("apiVersion") or "").rpartition("/")
            for store in self._server.stores:
                if store.resource.group == group and store.resource.kind == owner.get("kind"):
                    namespace = request.namespace if store.resource.namespaced else ""
                    if not await self._may(
                        request,
                        "update",
                        group,
                        version,
                        store.resource.plural,
                        "finalizers",
                        namespace,
                        owner.get("name") or "",
                    ):
                        raise reject(
                            request,
                            "cannot set blockOwnerDeletion if an ownerReference refers to a resource "
                            "you can't set finalizers on: , <nil>",
                        )
                    break
            else:
                raise reject(
                    request,
                    "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for "
                    f"APIVersion {owner.get('apiVersion')} Kind {owner.get('kind')}",
                )

    async def _may(
        self,
        request: AdmissionAttributes,
        verb: str,
        group: str,
        version: str,
        resource: str,
        subresource: str,
        namespace: str,
        name: str,
    ) -> bool:
        attributes = AuthorizationAttributes(
            request.user, verb, group, version, resource, subresource, namespace, name, ""
        )
        decision, _ = await self._server.authorizer.authorize(attributes)
        return decision is Decision.ALLOW


def _owners(obj: Object | None) -> list[Object]:
    return ((obj or {}).get("metadata") or {}).get("ownerReferences") or []
