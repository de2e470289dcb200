"""NodeRestriction: limits what kubelets can write.

A user `system:node:NAME` of the group `system:nodes` writes its own Node, lease and CSINode, pods that are
bound to it, and tokens and certificates of the service accounts of these pods. Others are not restricted.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from kubewright.api.errors import internal_error, not_found
from kubewright.api.gvk import GroupResource
from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin, AdmissionRule
from kubewright.apiserver.authorization import AuthorizationAttributes, Decision
from kubewright.apiserver.resources.objects import Object

from .rejection import reject

if TYPE_CHECKING:
    from kubewright.apiserver.authentication.user import User
    from kubewright.apiserver.server import APIServer
    from kubewright.controlplane.informers import Informers


NODES_GROUP = "system:nodes"
NODE_PREFIX = "system:node:"
MIRROR = "kubernetes.io/config.mirror"
NODE_LEASES = "kube-node-lease"
NODE_RESTRICTION = "node-restriction.kubernetes.io"
_KUBELET_LABELS = frozenset(
    (
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    )
)
_KUBELET_LABEL_NAMESPACES = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KUBELET_SIGNERS = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet")
_REFERENCING_VOLUMES = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_REFERENCING_SOURCES = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}

Rule = Callable[[AdmissionAttributes, str], Awaitable[None]]


def node_of(user: User) -> str | None:
    """Return the node that a user is the kubelet of; `None` for other users."""
    if user.name.startswith(NODE_PREFIX) and NODES_GROUP in user.groups:
        return user.name.removeprefix(NODE_PREFIX)
    return None


class NodeRestriction(AdmissionPlugin):
    """Rejects writes of kubelets that do not concern their own node."""

    name = "NodeRestriction"
    mutating = True
    rules = (AdmissionRule(("CREATE", "UPDATE", "DELETE"), "*", ("*/*",)),)

    def __init__(self, server: APIServer, informers: Informers) -> None:
        self._server = server
        self._informers = informers
        self._rules: dict[tuple[str, str], Rule] = {
            ("", "pods"): self._pod,
            ("", "nodes"): self._node,
            ("", "persistentvolumeclaims"): self._claim,
            ("", "serviceaccounts"): self._service_account,
            ("coordination.k8s.io", "leases"): self._lease,
            ("storage.k8s.io", "csinodes"): self._csi_node,
            ("resource.k8s.io", "resourceslices"): self._resource_slice,
            ("certificates.k8s.io", "certificatesigningrequests"): self._signing_request,
            ("certificates.k8s.io", "podcertificaterequests"): self._pod_certificate,
        }

    def handles(self, request: AdmissionAttributes) -> bool:
        """Handle writes of kubelets."""
        return node_of(request.user) is not None

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Reject forbidden writes; objects are never changed."""
        node = node_of(request.user)
        if not node:
            raise reject(request, f'could not determine node from user "{request.user.name}"')
        rule = self._rules.get((request.resource.group, request.resource.resource))
        if rule is not None:
            await rule(request, node)
        return False

    async def _read_pod(self, request: AdmissionAttributes, name: str) -> Object:
        pod = await self._informers.read("", "pods", name, namespace=request.namespace)
        if pod is None:
            raise not_found(GroupResource("", "pods"), name)
        return pod

    async def _pod(self, request: AdmissionAttributes, node: str) -> None:
        if request.subresource == "status":
            _check_pod_status(request, node)
        elif request.subresource == "eviction":
            name = request.name or _metadata(request.object).get("name") or ""
            if _node_name(await self._read_pod(request, name)) != node:
                raise reject(request, f"node {node} can only evict pods with spec.nodeName set to itself")
        elif request.subresource:
            raise reject(
                request,
                f"unexpected pod subresource \"{request.subresource}\", only 'status' and 'eviction' are "
                "allowed",
            )
        elif request.operation == "CREATE":
            await self._create_pod(request, node)
        elif request.operation == "DELETE":
            if _node_name(request.old_object) != node:
                raise reject(request, f'node "{node}" can only delete pods with spec.nodeName set to itself')
        else:
            raise reject(
                request,
                f'unexpected operation "{request.operation}", node "{node}" can only create and delete '
                "mirror pods",
            )

    async def _create_pod(self, request: AdmissionAttributes, node: str) -> None:
        pod = request.object or {}
        if MIRROR not in (_metadata(pod).get("annotations") or {}):
            why = f'pod does not have "{MIRROR}" annotation, node "{node}" can only create mirror pods'
            raise reject(request, why)
        can_only = f'node "{node}" can only create pods with'
        if _node_name(pod) != node:
            raise reject(request, f"{can_only} spec.nodeName set to itself")
        owners = _metadata(pod).get("ownerReferences") or []
        if len(owners) > 1:
            raise reject(request, f"{can_only} a single owner reference set to itself")
        owner = owners[0] if owners else {}
        if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
            raise reject(request, f"{can_only} an owner reference set to itself")
        if not owner.get("controller"):
            raise reject(request, f"{can_only} a controller owner reference set to itself")
        if owner.get("blockOwnerDeletion"):
            raise reject(request, f'node "{node}" must not set blockOwnerDeletion on an owner reference')
        found = await self._informers.get("", "nodes", node)
        if found is None:
            raise not_found(GroupResource("", "nodes"), node)
        wanted, uid = owner.get("uid") or "", found["metadata"]["uid"]
        if wanted != uid:
            raise reject(request, f"node {node} UID mismatch: expected {wanted} got {uid}")
        referenced = _api_reference(pod.get("spec") or {})
        if referenced:
            raise reject(request, f'node "{node}" can not create pods that reference {referenced}')

    async def _node(self, request: AdmissionAttributes, node: str) -> None:
        name = request.name or _metadata(request.object).get("name") or ""
        if name != node:
            raise reject(request, f'node "{node}" is not allowed to modify node "{name}"')
        if request.operation == "DELETE":
            return
        new, old = request.object or {}, request.old_object or {}
        labels, old_labels = (_metadata(obj).get("labels") or {} for obj in (new, old))
        changed = {key for key in {*labels, *old_labels} if labels.get(key) != old_labels.get(key)}
        forbidden = ", ".join(sorted(filter(_is_forbidden_label, changed)))
        spec, old_spec = (obj.get("spec") or {} for obj in (new, old))
        source = spec.get("configSource")
        if request.operation == "CREATE":
            if source is not None:
                why = f'node "{node}" is not allowed to create pods with a non-nil configSource'
                raise reject(request, why)
            if forbidden:
                why = f'node "{node}" is not allowed to set the following labels: {forbidden}'
                raise reject(request, why)
            return
        if source is not None and source != old_spec.get("configSource"):
            why = f'node "{node}" is not allowed to update configSource to a new non-nil configSource'
            raise reject(request, why)
        if (spec.get("taints") or []) != (old_spec.get("taints") or []):
            raise reject(request, f'node "{node}" is not allowed to modify taints')
        if (_metadata(new).get("ownerReferences") or []) != (_metadata(old).get("ownerReferences") or []):
            raise reject(request, f'node "{node}" is not allowed to modify ownerReferences')
        if forbidden:
            raise reject(request, f"is not allowed to modify labels: {forbidden}")

    async def _claim(self, request: AdmissionAttributes, node: str) -> None:
        if request.subresource != "status":
            raise reject(request, "may only update PVC status")
        if request.operation != "UPDATE":
            raise reject(request, f'unexpected operation "{request.operation}"')
        new, old = _claim_without_progress(request.object), _claim_without_progress(request.old_object)
        changed = sorted(key for key in {*new, *old} if new.get(key) != old.get(key))
        if changed:
            raise reject(
                request,
                f'node "{node}" is not allowed to update fields other than status.quantity and '
                f"status.conditions: {', '.join(changed)}",
            )

    async def _service_account(self, request: AdmissionAttributes, node: str) -> None:
        if request.operation != "CREATE" or request.subresource != "token":
            return
        spec = (request.object or {}).get("spec") or {}
        bound = spec.get("boundObjectRef") or {}
        if bound.get("apiVersion") != "v1" or bound.get("kind") != "Pod" or not bound.get("name"):
            raise reject(request, "node requested token not bound to a pod")
        if not bound.get("uid"):
            raise reject(request, "node requested token with a pod binding without a uid")
        pod = await self._read_pod(request, bound["name"])
        if bound["uid"] != pod["metadata"]["uid"]:
            raise reject(
                request,
                f"the UID in the bound object reference ({bound['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated",
            )
        if _node_name(pod) != node:
            raise reject(request, "node requested token bound to a pod scheduled on a different node")
        audiences = spec.get("audiences") or []
        if len(audiences) > 1:
            raise reject(request, "node may only request 0 or 1 audiences")
        await self._check_audience(request, pod, audiences[0] if audiences else "")

    async def _check_audience(self, request: AdmissionAttributes, pod: Object, audience: str) -> None:
        """Accept an audience that a volume of the pod uses, or that the node is authorized for."""
        for volume in (pod.get("spec") or {}).get("volumes") or ():
            if audience in await self._audiences(volume, pod["metadata"]):
                return
        verb = "request-serviceaccounts-token-audience"
        attributes = AuthorizationAttributes(
            request.user, verb, "", "v1", audience, "", request.namespace, request.name, ""
        )
        decision, _ = await self._server.authorizer.authorize(attributes)
        if decision is not Decision.ALLOW:
            raise reject(
                request,
                f'audience "{audience}" not found in pod spec volume, {request.user.name} is not authorized '
                "to request tokens for this audience",
            )

    async def _audiences(self, volume: Object, metadata: Object) -> list[str]:
        """Return the audiences of the tokens that a volume needs."""
        sources = (volume.get("projected") or {}).get("sources") or ()
        tokens = [source["serviceAccountToken"] for source in sources if source.get("serviceAccountToken")]
        if tokens:
            return [token.get("audience") or "" for token in tokens]
        driver = (volume.get("csi") or {}).get("driver") or ""
        claim_name = (volume.get("persistentVolumeClaim") or {}).get("claimName") or ""
        if volume.get("ephemeral") is not None:
            claim_name = f"{metadata['name']}-{volume.get('name')}"
        if claim_name:
            namespace = metadata.get("namespace") or ""
            claim = await self._informers.read("", "persistentvolumeclaims", claim_name, namespace=namespace)
            bound = ((claim or {}).get("spec") or {}).get("volumeName") or ""
            persistent = await self._informers.read("", "persistentvolumes", bound) if bound else None
            driver = (((persistent or {}).get("spec") or {}).get("csi") or {}).get("driver") or ""
        if not driver:
            return []
        found = await self._informers.read("storage.k8s.io", "csidrivers", driver)
        requests = ((found or {}).get("spec") or {}).get("tokenRequests") or ()
        return [each.get("audience") or "" for each in requests]

    async def _lease(self, request: AdmissionAttributes, node: str) -> None:
        if request.namespace != NODE_LEASES:
            raise reject(request, f'can only access leases in the "{NODE_LEASES}" system namespace')
        self._check_own(request, node, "can only access node lease with the same name as the requesting node")

    async def _csi_node(self, request: AdmissionAttributes, node: str) -> None:
        self._check_own(request, node, "can only access CSINode with the same name as the requesting node")

    def _check_own(self, request: AdmissionAttributes, node: str, why: str) -> None:
        if (request.name or _metadata(request.object).get("name")) != node:
            raise reject(request, why)

    async def _resource_slice(self, request: AdmissionAttributes, node: str) -> None:
        if request.operation == "UPDATE":
            return
        obj = request.object if request.operation == "CREATE" else request.old_object
        if ((obj or {}).get("spec") or {}).get("nodeName") != node:
            verb = request.operation.lower()
            raise reject(
                request, f"can only {verb} ResourceSlice with the same NodeName as the requesting node"
            )

    async def _signing_request(self, request: AdmissionAttributes, node: str) -> None:
        spec = (request.object or {}).get("spec") or {}
        if request.operation != "CREATE" or spec.get("signerName") not in _KUBELET_SIGNERS:
            return
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        try:
            parsed = x509.load_pem_x509_csr(base64.b64decode(spec.get("request") or ""))
        except ValueError as error:
            raise reject(request, f"unable to parse csr: {error}") from None
        names = [each.value for each in parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        if names != [f"{NODE_PREFIX}{node}"]:
            raise reject(request, f"can only create a node CSR with CN={NODE_PREFIX}{node}")

    async def _pod_certificate(self, request: AdmissionAttributes, node: str) -> None:
        """Accept requests for a pod of the node, its service account, and a signer that the pod uses.

        What a stale cache can explain is an internal error, so that kubelets try again.
        """
        if request.operation != "CREATE":
            raise reject(request, f"unexpected operation {request.operation}")
        if request.subresource:
            raise reject(request, f"unexpected subresource {request.subresource}")
        kind = "PodCertificateRequest"
        spec = (request.object or {}).get("spec") or {}
        names = {name: spec.get(name) or "" for name in ("nodeName", "podName", "serviceAccountName")}
        pod_name = f"{request.namespace}/{names['podName']}"
        if names["nodeName"] != node:
            named = f'{kind}.Spec.NodeName="{names["nodeName"]}"'
            raise reject(request, f'{named}, which is not the requesting node "{node}"')
        await self._check_uid(spec.get("nodeUID"), "nodes", node, "", f'{kind} for pod "{pod_name}"')
        pod = await self._check_uid(
            spec.get("podUID"), "pods", names["podName"], request.namespace, f'{kind} for pod "{pod_name}"'
        )
        if _node_name(pod) != node:
            why = f'pod "{pod_name}" is not running on node "{node}" named in the {kind}'
            raise reject(request, why)
        if MIRROR in (_metadata(pod).get("annotations") or {}):
            raise reject(request, f'pod "{pod_name}" is a mirror pod')
        account, used = names["serviceAccountName"], pod["spec"].get("serviceAccountName") or ""
        if account != used:
            why = f'contains serviceAccountName ("{account}") that differs from running pod ("{used}")'
            raise reject(request, f'{kind} for pod "{pod_name}" {why}')
        uid = spec.get("serviceAccountUID")
        await self._check_uid(
            uid, "serviceaccounts", account, request.namespace, f'{kind} for pod "{pod_name}"'
        )
        await self._check_signer(request, pod, spec.get("signerName") or "", account)

    async def _check_uid(
        self, uid: str | None, resource: str, name: str, namespace: str, subject: str
    ) -> Object:
        """Return the object with a name; its UID has to be the one of a request."""
        found = await self._informers.read("", resource, name, namespace=namespace)
        if found is None:
            raise internal_error(f'{subject}: {resource} "{name}" not found')
        if uid != (current := found["metadata"]["uid"]):
            why = f'contains a UID ("{uid or ""}") of {resource} "{name}" which differs from "{current}"'
            raise internal_error(f"{subject} {why}")
        return found

    async def _check_signer(
        self, request: AdmissionAttributes, pod: Object, signer: str, account: str
    ) -> None:
        """Accept a signer that a volume of the pod uses, or that the node is authorized for."""
        for volume in (pod.get("spec") or {}).get("volumes") or ():
            for source in (volume.get("projected") or {}).get("sources") or ():
                if (source.get("podCertificate") or {}).get("signerName") == signer:
                    return
        verb, resource = "request-serviceaccounts-podcertificate-signer", signer.replace("/", ":")
        group, version = request.resource.group, request.resource.version
        attributes = AuthorizationAttributes(
            request.user, verb, group, version, resource, "", request.namespace, account, ""
        )
        decision, _ = await self._server.authorizer.authorize(attributes)
        if decision is not Decision.ALLOW:
            name = f"{request.namespace}/{pod['metadata']['name']}"
            why = f'pod "{name}" does not mount a podCertificate projected volume for signer "{signer}"'
            raise reject(request, why)


def _metadata(obj: Object | None) -> Object:
    return (obj or {}).get("metadata") or {}


def _node_name(pod: Object | None) -> str:
    return ((pod or {}).get("spec") or {}).get("nodeName") or ""


def _check_pod_status(request: AdmissionAttributes, node: str) -> None:
    if request.operation != "UPDATE":
        raise reject(request, f'unexpected operation "{request.operation}"')
    new, old = request.object or {}, request.old_object or {}
    if _node_name(old) != node:
        rule = "can only update pod status for pods with spec.nodeName set to itself"
        raise reject(request, f'node "{node}" {rule}')
    if (_metadata(new).get("labels") or {}) != (_metadata(old).get("labels") or {}):
        raise reject(request, f'node "{node}" cannot update labels through pod status')
    status, old_status = (obj.get("status") or {} for obj in (new, old))
    if (status.get("resourceClaimStatuses") or []) != (old_status.get("resourceClaimStatuses") or []):
        raise reject(request, f'node "{node}" cannot update resource claim statues')
    if status.get("extendedResourceClaimStatus") != old_status.get("extendedResourceClaimStatus"):
        raise reject(request, f'node "{node}" cannot update extended resource claim status')


def _is_forbidden_label(label: str) -> bool:
    """Return whether kubelets must not set a label of their node."""
    namespace = label.partition("/")[0] if "/" in label else ""
    if _within(namespace, (NODE_RESTRICTION,)):
        return True
    is_allowed = label in _KUBELET_LABELS or _within(namespace, _KUBELET_LABEL_NAMESPACES)
    return _within(namespace, ("kubernetes.io", "k8s.io")) and not is_allowed


def _within(namespace: str, domains: Iterable[str]) -> bool:
    return any(namespace == domain or namespace.endswith(f".{domain}") for domain in domains)


def _claim_without_progress(claim: Object | None) -> Object:
    """Return the fields of a claim by path, without those that kubelets update."""
    fields: Object = {}
    for part, value in (claim or {}).items():
        if isinstance(value, dict):
            fields.update({f"{part}.{key}": each for key, each in value.items()})
        else:
            fields[part] = value
    for path in (
        "metadata.resourceVersion",
        "metadata.managedFields",
        "status.capacity",
        "status.conditions",
        "status.allocatedResourceStatuses",
        "status.allocatedResources",
    ):
        fields.pop(path, None)
    return fields


def _api_reference(spec: Object) -> str:
    """Return the resource that a pod refers to; mirror pods must not refer to any."""
    if spec.get("serviceAccountName"):
        return "serviceaccounts"
    every = [
        container
        for part in ("initContainers", "containers", "ephemeralContainers")
        for container in spec.get(part) or ()
    ]
    sources = [source for each in every for source in each.get("envFrom") or ()]
    sources += [env.get("valueFrom") or {} for each in every for env in each.get("env") or ()]
    if spec.get("imagePullSecrets") or any("secretRef" in each or "secretKeyRef" in each for each in sources):
        return "secrets"
    if any("configMapRef" in each or "configMapKeyRef" in each for each in sources):
        return "configmaps"
    if spec.get("resourceClaims"):
        return "resourceclaims"
    for volume in spec.get("volumes") or ():
        found = [text for name, text in _REFERENCING_VOLUMES.items() if volume.get(name) is not None]
        for source in (volume.get("projected") or {}).get("sources") or ():
            found += [text for name, text in _REFERENCING_SOURCES.items() if source.get(name) is not None]
        if found:
            return found[0]
    return ""
