"""Node authorizer: what kubelets can read and write.

A kubelet (`system:node:NAME` of the group `system:nodes`) reads its own Node, the pods that are bound to it,
and the secrets, config maps, claims, volumes and service accounts that these pods refer to. NodeRestriction
limits its writes further. Relations are looked up in the informers for each request; the authorizer keeps no
state.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from kubewright.api.kubernetes_version import KubernetesVersion
from kubewright.api.selectors.field_selectors import parse_field_selector
from kubewright.api.selectors.label_selectors import SelectorError
from kubewright.apiserver.authorization import (
    ALLOWED,
    NO_OPINION,
    AuthorizationAttributes,
    AuthorizationResult,
    Decision,
)
from kubewright.apiserver.authorization.rbac import PolicyRule
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.admission.node_restriction import NODE_LEASES, node_of

if TYPE_CHECKING:
    from kubewright.controlplane.informers import Informers

_READS = ("get", "list", "watch")
_WRITES = ("get", "create", "update", "patch", "delete")


def _no(reason: str) -> AuthorizationResult:
    return Decision.NO_OPINION, reason


@cache
def _node_rules(version: KubernetesVersion) -> tuple[PolicyRule, ...]:
    """Return the rules of the ClusterRole system:node, which no binding references."""
    from kubewright.controlplane.bootstrap.roles import cluster_roles

    role = next(each for each in cluster_roles(version) if each["metadata"]["name"] == "system:node")
    return tuple(PolicyRule.parse(rule) for rule in role["rules"])


class NodeAuthorizer:
    """Authorizes kubelets; no opinion on other users."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers

    async def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationResult:
        """Allow requests that concern the kubelet's own node."""
        node = node_of(attributes.user)
        if node is None:
            return NO_OPINION
        if not node:
            return _no(f'unknown node for user "{attributes.user.name}"')
        group, resource = attributes.group, attributes.resource
        if (group, resource) in _RELATED:
            return await self._related(node, attributes)
        if (group, resource) == ("", "serviceaccounts"):
            return await self._service_account(node, attributes)
        if (group, resource) == ("", "nodes"):
            return _own_node(node, attributes)
        if (group, resource) == ("", "pods"):
            return await self._pod(node, attributes)
        if (group, resource) == ("resource.k8s.io", "resourceslices"):
            return await self._slice(node, attributes)
        if (group, resource) == ("certificates.k8s.io", "podcertificaterequests"):
            return await self._pod_certificate(node, attributes)
        if (group, resource) in (("coordination.k8s.io", "leases"), ("storage.k8s.io", "csinodes")):
            return _own_object(node, attributes)
        if any(rule.allows(attributes) for rule in _node_rules(self._informers.server.kubernetes_version)):
            return ALLOWED
        return NO_OPINION

    async def _related(self, node: str, attributes: AuthorizationAttributes) -> AuthorizationResult:
        """Authorize requests for objects that pods of the node refer to."""
        verb, resource = attributes.verb, attributes.resource
        if (resource, attributes.subresource) == ("persistentvolumeclaims", "status"):
            if verb not in ("update", "patch"):
                return _no("can only get/update/patch this type")
        elif resource in ("secrets", "configmaps"):
            if verb not in _READS:
                return _no("can only read resources of this type")
            if attributes.subresource:
                return _no("cannot read subresource")
            if not attributes.namespace:
                return _no("can only read namespaced object of this type")
        elif verb != "get":
            return _no("can only get individual resources of this type")
        elif attributes.subresource:
            return _no("cannot get subresource")
        return await self._decide(node, attributes)

    async def _decide(self, node: str, attributes: AuthorizationAttributes) -> AuthorizationResult:
        if not attributes.name:
            return _no("No Object name found")
        if await self._is_related(node, attributes.resource, attributes.namespace, attributes.name):
            return ALLOWED
        return _no(f"no relationship found between node '{node}' and this object")

    async def _service_account(self, node: str, attributes: AuthorizationAttributes) -> AuthorizationResult:
        if attributes.verb == "get" and not attributes.subresource:
            return await self._decide(node, attributes)
        if attributes.verb != "create" or not attributes.name:
            return _no("can only create tokens for individual service accounts")
        if attributes.subresource != "token":
            return _no("can only create token subresource of serviceaccount")
        return await self._decide(node, attributes)

    async def _pod(self, node: str, attributes: AuthorizationAttributes) -> AuthorizationResult:
        verb, subresource = attributes.verb, attributes.subresource
        if (
            (not subresource and verb in ("create", "delete"))
            or (subresource == "status" and verb in ("update", "patch"))
            or (subresource == "eviction" and verb == "create")
        ):
            return ALLOWED
        if subresource or verb not in _READS:
            return NO_OPINION
        if verb != "get":
            if _selects(attributes, "spec.nodeName", node):
                return ALLOWED
            if not attributes.name:
                return _no("can only list/watch pods with spec.nodeName field selector")
        return await self._decide(node, attributes)

    async def _slice(self, node: str, attributes: AuthorizationAttributes) -> AuthorizationResult:
        verb = attributes.verb
        if attributes.subresource:
            return _no("cannot authorize ResourceSlice subresources")
        if verb == "create":
            return ALLOWED
        if verb in ("get", "update", "patch", "delete"):
            return await self._decide(node, attributes)
        if verb in ("list", "watch", "deletecollection"):
            if _selects(attributes, "spec.nodeName", node):
                return ALLOWED
            return _no("can only list/watch/deletecollection resourceslices with nodeName field selector")
        verbs = "get, watch, list, create, update, patch, delete, deletecollection"
        return _no(f"only the following verbs are allowed for a ResourceSlice: {verbs}")

    async def _pod_certificate(self, node: str, attributes: AuthorizationAttributes) -> AuthorizationResult:
        """Authorize requests for certificates of pods; NodeRestriction compares new ones with the pods."""
        verb = attributes.verb
        if attributes.subresource:
            return _no("nodes may not access the status subresource of PodCertificateRequests")
        if verb == "create":
            return ALLOWED
        if verb == "get":
            return await self._decide(node, attributes)
        if verb in ("list", "watch"):
            if _selects(attributes, "spec.nodeName", node):
                return ALLOWED
            return _no("can only list/watch podcertificaterequests with nodeName field selector")
        return _no(f"nodes may not {verb} podcertificaterequests")

    async def _is_related(self, node: str, resource: str, namespace: str, name: str) -> bool:
        """Return whether an object belongs to the node or to a pod that is bound to it."""
        informers = self._informers
        if resource == "pods":
            return _node_name(await informers.get("", "pods", name, namespace=namespace)) == node
        if resource == "volumeattachments":
            return _node_name(await informers.get("storage.k8s.io", resource, name)) == node
        if resource == "resourceslices":
            return _node_name(await informers.get("resource.k8s.io", resource, name)) == node
        if resource == "podcertificaterequests":
            group = "certificates.k8s.io"
            return _node_name(await informers.get(group, resource, name, namespace=namespace)) == node
        if resource == "persistentvolumes":
            volume = await informers.get("", resource, name)
            return volume is not None and await self._uses_volume(node, volume)
        for pod in await informers.list("", "pods", namespace=namespace):
            if _node_name(pod) == node and (resource, name) in _references(pod):
                return True
        if resource == "secrets":
            for volume in await informers.list("", "persistentvolumes"):
                if (namespace, name) in _volume_secrets(volume) and await self._uses_volume(node, volume):
                    return True
        return False

    async def _uses_volume(self, node: str, volume: Object) -> bool:
        claim = (volume.get("spec") or {}).get("claimRef") or {}
        if not claim.get("name"):
            return False
        return await self._is_related(
            node, "persistentvolumeclaims", claim.get("namespace") or "", claim["name"]
        )


_RELATED = frozenset(
    (
        ("", "secrets"),
        ("", "configmaps"),
        ("", "persistentvolumeclaims"),
        ("", "persistentvolumes"),
        ("resource.k8s.io", "resourceclaims"),
        ("storage.k8s.io", "volumeattachments"),
    )
)


def _own_node(node: str, attributes: AuthorizationAttributes) -> AuthorizationResult:
    """Authorize requests for Nodes; NodeRestriction limits writes to the own one."""
    if attributes.subresource:
        is_status_write = attributes.subresource == "status" and attributes.verb in ("update", "patch")
        return ALLOWED if is_status_write else NO_OPINION
    if attributes.verb in ("create", "update", "patch"):
        return ALLOWED
    if attributes.verb not in _READS:
        return NO_OPINION
    if attributes.name == node:
        return ALLOWED
    if not attributes.name:
        return _no(f"node '{node}' cannot read all nodes, only its own Node object")
    return _no(f"node '{node}' cannot read '{attributes.name}', only its own Node object")


def _own_object(node: str, attributes: AuthorizationAttributes) -> AuthorizationResult:
    """Authorize requests for the lease and the CSINode, which have the name of the node."""
    is_lease = attributes.resource == "leases"
    if attributes.verb not in _WRITES:
        what = "node lease" if is_lease else "CSINode"
        return _no(f"can only get, create, update, patch, or delete a {what}")
    if is_lease and attributes.namespace != NODE_LEASES:
        return _no(f'can only access leases in the "{NODE_LEASES}" system namespace')
    if not is_lease and attributes.subresource:
        return _no("cannot authorize CSINode subresources")
    if attributes.verb != "create" and attributes.name != node:
        what = "node lease" if is_lease else "CSINode"
        return _no(f"can only access {what} with the same name as the requesting node")
    return ALLOWED


def _selects(attributes: AuthorizationAttributes, field: str, value: str) -> bool:
    try:
        return parse_field_selector(attributes.field_selector).exact(field) == value
    except SelectorError:
        return False


def _node_name(obj: Object | None) -> str:
    return ((obj or {}).get("spec") or {}).get("nodeName") or ""


def _references(pod: Object) -> set[tuple[str, str]]:
    """Return the resource and name of the objects in its namespace that a pod refers to."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    found = {("serviceaccounts", spec.get("serviceAccountName") or "")}
    found |= {("secrets", each.get("name") or "") for each in spec.get("imagePullSecrets") or ()}
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(part) or ():
            found.update(_environment_references(container))
    for volume in spec.get("volumes") or ():
        found.update(_volume_references(volume, pod["metadata"]["name"]))
    claims = [*(spec.get("resourceClaims") or ()), *(status.get("resourceClaimStatuses") or ())]
    claims.append(status.get("extendedResourceClaimStatus") or {})
    found |= {("resourceclaims", each.get("resourceClaimName") or "") for each in claims}
    return found


def _environment_references(container: Object) -> Iterator[tuple[str, str]]:
    sources = [*(container.get("envFrom") or ())]
    sources += [variable.get("valueFrom") or {} for variable in container.get("env") or ()]
    for source in sources:
        for field in ("secretRef", "secretKeyRef"):
            yield "secrets", (source.get(field) or {}).get("name") or ""
        for field in ("configMapRef", "configMapKeyRef"):
            yield "configmaps", (source.get(field) or {}).get("name") or ""


def _volume_references(volume: Object, pod_name: str) -> Iterator[tuple[str, str]]:
    if volume.get("persistentVolumeClaim"):
        yield "persistentvolumeclaims", volume["persistentVolumeClaim"].get("claimName") or ""
    if volume.get("ephemeral") is not None:
        yield "persistentvolumeclaims", f"{pod_name}-{volume.get('name')}"
    if volume.get("configMap"):
        yield "configmaps", volume["configMap"].get("name") or ""
    for source in (volume.get("projected") or {}).get("sources") or ():
        yield "secrets", (source.get("secret") or {}).get("name") or ""
        yield "configmaps", (source.get("configMap") or {}).get("name") or ""
    for source in volume.values():
        if isinstance(source, dict):
            yield "secrets", source.get("secretName") or ""
            for field in ("secretRef", "nodePublishSecretRef"):
                yield "secrets", (source.get(field) or {}).get("name") or ""


def _volume_secrets(volume: Object) -> set[tuple[str, str]]:
    """Return namespace and name of the secrets that a persistent volume refers to."""
    spec = volume.get("spec") or {}
    default = (spec.get("claimRef") or {}).get("namespace") or ""
    found: set[tuple[str, str]] = set()
    for source in spec.values():
        if not isinstance(source, dict):
            continue
        for field, reference in source.items():
            if field.endswith("SecretRef") or field == "secretRef":
                name = (reference or {}).get("name") or ""
                found.add(((reference or {}).get("namespace") or default, name))
        if source.get("secretName"):
            found.add((source.get("secretNamespace") or default, source["secretName"]))
    return found
