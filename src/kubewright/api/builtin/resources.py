"""The built-in resources of Kubernetes, with their names, scopes, verbs and subresources.

`RESOURCES` lists those of the newest version by group version, in the order of discovery. It is parsed at
first use, one line per resource:

    deployments Deployment N [deploy] {all} /scale(autoscaling/v1 Scale:gpu) /status
    plural      kind       scope short names, categories, <verbs>, /subresources(kind: verbs)

`N` is namespaced, `C` cluster-wide. Verbs are letters: create, delete, Deletecollection, get, list, patch,
update, watch; all eight if none are given. A subresource without a kind has the kind of its parent, and
without verbs get, patch and update. An indented line continues the line before.

Schemas of the same kinds are in `builtin_schemas`, their OpenAPI definitions in `builtin_openapi`, and typed
classes in `kubewright.api.<group>.<version>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from kubewright.api.gvk import GroupVersion, GroupVersionKind, GroupVersionResource, version_priority
from kubewright.api.kubernetes_version import NEWEST, KubernetesVersion, version_table

from .schemas import as_typed as as_typed
from .schemas import definition_name as definition_name
from .schemas import definitions as definitions
from .schemas import message_name as message_name
from .schemas import schema_for as schema_for
from .schemas import wire_messages as wire_messages

RELEASE: Final = str(NEWEST)

RESOURCES: Final = """
v1
bindings Binding N <c>
componentstatuses ComponentStatus C [cs] <gl>
configmaps ConfigMap N [cm]
endpoints Endpoints N [ep]
events Event N [ev]
limitranges LimitRange N [limits]
namespaces Namespace C [ns] <cdglpuw> /finalize(:u) /status
nodes Node C [no] /proxy(NodeProxyOptions:cdgpu) /status
persistentvolumeclaims PersistentVolumeClaim N [pvc] /status
persistentvolumes PersistentVolume C [pv] /status
pods Pod N [po] {all} /attach(PodAttachOptions:cg) /binding(Binding:c) /ephemeralcontainers
  /eviction(policy/v1 Eviction:c) /exec(PodExecOptions:cg) /log(:g)
  /portforward(PodPortForwardOptions:cg) /proxy(PodProxyOptions:cdgpu) /resize /status
podtemplates PodTemplate N
replicationcontrollers ReplicationController N [rc] {all} /scale(autoscaling/v1 Scale:gpu) /status
resourcequotas ResourceQuota N [quota] /status
secrets Secret N
serviceaccounts ServiceAccount N [sa] /token(authentication.k8s.io/v1 TokenRequest:c)
services Service N [svc] {all} /proxy(ServiceProxyOptions:cdgpu) /status
apiregistration.k8s.io/v1
apiservices APIService C {api-extensions} /status
apps/v1
controllerrevisions ControllerRevision N
daemonsets DaemonSet N [ds] {all} /status
deployments Deployment N [deploy] {all} /scale(autoscaling/v1 Scale:gpu) /status
replicasets ReplicaSet N [rs] {all} /scale(autoscaling/v1 Scale:gpu) /status
statefulsets StatefulSet N [sts] {all} /scale(autoscaling/v1 Scale:gpu) /status
events.k8s.io/v1
events Event N [ev]
authentication.k8s.io/v1
selfsubjectreviews SelfSubjectReview C <c>
tokenreviews TokenReview C <c>
authorization.k8s.io/v1
localsubjectaccessreviews LocalSubjectAccessReview N <c>
selfsubjectaccessreviews SelfSubjectAccessReview C <c>
selfsubjectrulesreviews SelfSubjectRulesReview C <c>
subjectaccessreviews SubjectAccessReview C <c>
autoscaling/v2
horizontalpodautoscalers HorizontalPodAutoscaler N [hpa] {all} /status
autoscaling/v1
horizontalpodautoscalers HorizontalPodAutoscaler N [hpa] {all} /status
batch/v1
cronjobs CronJob N [cj] {all} /status
jobs Job N {all} /status
certificates.k8s.io/v1
certificatesigningrequests CertificateSigningRequest C [csr] /approval /status
clustertrustbundles ClusterTrustBundle C
podcertificaterequests PodCertificateRequest N /status
certificates.k8s.io/v1beta1
clustertrustbundles ClusterTrustBundle C
podcertificaterequests PodCertificateRequest N /status
networking.k8s.io/v1
ingressclasses IngressClass C
ingresses Ingress N [ing] /status
ipaddresses IPAddress C [ip]
networkpolicies NetworkPolicy N [netpol]
servicecidrs ServiceCIDR C /status
policy/v1
poddisruptionbudgets PodDisruptionBudget N [pdb] /status
rbac.authorization.k8s.io/v1
clusterrolebindings ClusterRoleBinding C
clusterroles ClusterRole C
rolebindings RoleBinding N
roles Role N
storage.k8s.io/v1
csidrivers CSIDriver C
csinodes CSINode C /status
csistoragecapacities CSIStorageCapacity N
storageclasses StorageClass C [sc]
volumeattachments VolumeAttachment C /status
volumeattributesclasses VolumeAttributesClass C [vac]
admissionregistration.k8s.io/v1
mutatingadmissionpolicies MutatingAdmissionPolicy C {api-extensions}
mutatingadmissionpolicybindings MutatingAdmissionPolicyBinding C {api-extensions}
mutatingwebhookconfigurations MutatingWebhookConfiguration C {api-extensions}
validatingadmissionpolicies ValidatingAdmissionPolicy C {api-extensions} /status
validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding C {api-extensions}
validatingwebhookconfigurations ValidatingWebhookConfiguration C {api-extensions}
admissionregistration.k8s.io/v1beta1
mutatingadmissionpolicies MutatingAdmissionPolicy C {api-extensions}
mutatingadmissionpolicybindings MutatingAdmissionPolicyBinding C {api-extensions}
admissionregistration.k8s.io/v1alpha1
mutatingadmissionpolicies MutatingAdmissionPolicy C {api-extensions}
mutatingadmissionpolicybindings MutatingAdmissionPolicyBinding C {api-extensions}
apiextensions.k8s.io/v1
customresourcedefinitions CustomResourceDefinition C [crd,crds] {api-extensions} /status
scheduling.k8s.io/v1
priorityclasses PriorityClass C [pc]
scheduling.k8s.io/v1beta1
podgroups PodGroup N /status
workloads Workload N
scheduling.k8s.io/v1alpha3
compositepodgroups CompositePodGroup N /status
podgroups PodGroup N /status
workloads Workload N
coordination.k8s.io/v1
leases Lease N
coordination.k8s.io/v1beta1
leasecandidates LeaseCandidate N
coordination.k8s.io/v1alpha2
leasecandidates LeaseCandidate N
node.k8s.io/v1
runtimeclasses RuntimeClass C
discovery.k8s.io/v1
endpointslices EndpointSlice N
resource.k8s.io/v1
deviceclasses DeviceClass C
devicetaintrules DeviceTaintRule C /status
resourceclaims ResourceClaim N /status
resourceclaimtemplates ResourceClaimTemplate N
resourceslices ResourceSlice C
resource.k8s.io/v1beta2
deviceclasses DeviceClass C
devicetaintrules DeviceTaintRule C /status
resourceclaims ResourceClaim N /status
resourceclaimtemplates ResourceClaimTemplate N
resourceslices ResourceSlice C
resource.k8s.io/v1beta1
deviceclasses DeviceClass C
resourceclaims ResourceClaim N /status
resourceclaimtemplates ResourceClaimTemplate N
resourceslices ResourceSlice C
resource.k8s.io/v1alpha3
devicetaintrules DeviceTaintRule C /status
resourcepoolstatusrequests ResourcePoolStatusRequest C /status
flowcontrol.apiserver.k8s.io/v1
flowschemas FlowSchema C /status
prioritylevelconfigurations PriorityLevelConfiguration C /status
internal.apiserver.k8s.io/v1alpha1
storageversions StorageVersion C /status
storagemigration.k8s.io/v1
storageversionmigrations StorageVersionMigration C /status
storagemigration.k8s.io/v1beta1
storageversionmigrations StorageVersionMigration C /status
lifecycle.k8s.io/v1alpha1
evictionrequests EvictionRequest N /status
evictions Eviction N /status
"""

VERBS: Final = {
    "c": "create",
    "d": "delete",
    "D": "deletecollection",
    "g": "get",
    "l": "list",
    "p": "patch",
    "u": "update",
    "w": "watch",
}
"""Verbs by the letters that tables of rules and resources write them with."""
_TERM: Final = re.compile(
    r"\[(?P<short>[^]]*)\]|\{(?P<categories>[^}]*)\}|<(?P<verbs>[^>]*)>|/(?P<sub>\w+)(?:\((?P<kind>[^:]*):(?P<letters>\w+)\))?"
)


class Subresource(NamedTuple):
    """A subresource, such as `status`."""

    name: str
    gvk: GroupVersionKind
    verbs: tuple[str, ...]


class BuiltinResource(NamedTuple):
    """A built-in kind with its resource name, scope, verbs and subresources."""

    gvk: GroupVersionKind
    plural: str
    namespaced: bool
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    verbs: tuple[str, ...]
    subresources: tuple[Subresource, ...]

    @property
    def singular(self) -> str:
        """The singular name: the kind in lower case."""
        return self.gvk.kind.lower()

    @property
    def gvr(self) -> GroupVersionResource:
        """Group, version and resource name."""
        return GroupVersionResource(self.gvk.group, self.gvk.version, self.plural)

    @property
    def scope(self) -> str:
        """`Namespaced` or `Cluster`."""
        return "Namespaced" if self.namespaced else "Cluster"

    @property
    def served_by_default(self) -> bool:
        """Whether kube-apiserver serves it by default: true for stable versions only."""
        return "alpha" not in self.gvk.version and "beta" not in self.gvk.version

    def subresource(self, name: str) -> Subresource | None:
        """Return the subresource of that name, or `None`."""
        return next((part for part in self.subresources if part.name == name), None)


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


def _verbs(letters: str) -> tuple[str, ...]:
    return tuple(VERBS[letter] for letter in letters)


def _subresource(parent: GroupVersionKind, name: str, kind: str | None, letters: str | None) -> Subresource:
    api_version, _, local = (kind or parent.kind).rpartition(" ")
    gvk = GroupVersionKind.from_api_version(api_version or parent.api_version, local)
    return Subresource(name, gvk, _verbs(letters or "gpu"))


def _lines() -> Iterator[tuple[GroupVersion, str]]:
    home = GroupVersion("", "")
    for line in RESOURCES.replace("\n  ", " ").split("\n"):
        if " " in line:
            yield home, line
        elif line:
            home = GroupVersion.parse(line)


def _parse(home: GroupVersion, line: str) -> BuiltinResource:
    plural, kind, scope, *rest = line.split(" ", 3)
    gvk = home.kind(kind)
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs = tuple(VERBS.values())
    parts: list[Subresource] = []
    for term in _TERM.finditer(rest[0] if rest else ""):
        short = _names(term["short"]) or short
        categories = _names(term["categories"]) or categories
        verbs = _verbs(term["verbs"]) if term["verbs"] else verbs
        if term["sub"]:
            parts.append(_subresource(gvk, term["sub"], term["kind"], term["letters"]))
    return BuiltinResource(gvk, plural, scope == "N", short, categories, verbs, tuple(parts))


@cache
def resources(version: KubernetesVersion = NEWEST) -> tuple[BuiltinResource, ...]:
    """Return all built-in resources of a version of Kubernetes, in discovery order."""
    newest = tuple(_parse(home, line) for home, line in _lines())
    if version.is_newest:
        return newest
    versions = version_table()["resources"]
    rows = [
        _parse(home, line)
        for home, line in _lines()
        if version.includes(versions.get(str(home), {}).get(line, ""))
    ]
    known = set(rows)
    for api_version, lines in versions.items():
        home = GroupVersion.parse(api_version)
        rows += (
            row
            for line, range_ in lines.items()
            if version.includes(range_) and (row := _parse(home, line)) not in known
        )
    groups = list(dict.fromkeys(row.gvk.group for row in newest))
    order = {group: position for position, group in enumerate(groups)}
    rows.sort(key=lambda row: (order[row.gvk.group], version_priority(row.gvk.version), row.plural))
    return tuple(rows)


@cache
def group_versions() -> tuple[GroupVersion, ...]:
    """Return all built-in group versions, in discovery order."""
    return tuple(dict.fromkeys(row.gvk.group_version for row in resources()))


@cache
def _by_kind() -> dict[GroupVersionKind, BuiltinResource]:
    return {row.gvk: row for row in resources()}


@cache
def _by_resource() -> dict[GroupVersionResource, BuiltinResource]:
    return {row.gvr: row for row in resources()}


def resource_of_kind(gvk: GroupVersionKind) -> BuiltinResource | None:
    """Return the resource of a kind, or `None`."""
    return _by_kind().get(gvk)


def resource_at(gvr: GroupVersionResource) -> BuiltinResource | None:
    """Return the resource of that name, or `None`."""
    return _by_resource().get(gvr)


def resources_in(group_version: GroupVersion) -> tuple[BuiltinResource, ...]:
    """Return the resources of one group version."""
    return tuple(row for row in resources() if row.gvk.group_version == group_version)


def kinds_named(kind: str) -> tuple[GroupVersionKind, ...]:
    """Return the built-in kinds of that name, preferred versions first."""
    return tuple(row.gvk for row in resources() if row.gvk.kind == kind)


def published(name: str, prefix: str = "#/components/schemas/") -> dict[str, Any]:
    """Return a definition as served under `/openapi/v3`: see `builtin_openapi`."""
    from .openapi import published

    return published(name, prefix)
