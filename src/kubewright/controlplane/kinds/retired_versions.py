"""Errors for request bodies of another built-in kind or version than that of the endpoint.

kube-apiserver can still decode versions that it no longer serves; which error it returns depends on that. The
tables list these versions.
"""

from __future__ import annotations

from kubewright.api.builtin.resources import resource_of_kind
from kubewright.api.builtin.schemas import definition_name
from kubewright.api.errors import BadRequest
from kubewright.api.gvk import GroupVersionKind
from kubewright.apiserver.encoding.request_body import version_mismatch

_RETIRED_VERSIONS = {
    "admissionregistration.k8s.io": ("v1beta1",),
    "apiextensions.k8s.io": ("v1beta1",),
    "apiregistration.k8s.io": ("v1beta1",),
    "apps": ("v1beta1", "v1beta2"),
    "authentication.k8s.io": ("v1alpha1", "v1beta1"),
    "authorization.k8s.io": ("v1beta1",),
    "batch": ("v1beta1",),
    "certificates.k8s.io": ("v1beta1",),
    "coordination.k8s.io": ("v1beta1",),
    "discovery.k8s.io": ("v1beta1",),
    "events.k8s.io": ("v1beta1",),
    "flowcontrol.apiserver.k8s.io": ("v1beta1", "v1beta2", "v1beta3"),
    "networking.k8s.io": ("v1beta1",),
    "node.k8s.io": ("v1alpha1", "v1beta1"),
    "policy": ("v1beta1",),
    "rbac.authorization.k8s.io": ("v1alpha1", "v1beta1"),
    "scheduling.k8s.io": ("v1beta1",),
    "storage.k8s.io": ("v1alpha1", "v1beta1"),
}
"""Versions that are no longer served, but still decoded."""
_ABSENT_KINDS = {
    ("apps", "v1beta1"): ("DaemonSet", "ReplicaSet"),
    ("authentication.k8s.io", "v1alpha1"): ("TokenRequest", "TokenReview"),
    ("authentication.k8s.io", "v1beta1"): ("TokenRequest",),
    ("batch", "v1beta1"): ("Job",),
    ("networking.k8s.io", "v1beta1"): ("NetworkPolicy",),
    ("storage.k8s.io", "v1alpha1"): ("CSIDriver", "CSINode", "StorageClass"),
}
"""Kinds that these versions never had."""
_EXTENSIONS_KINDS = {
    "DaemonSet": "apps",
    "Deployment": "apps",
    "Ingress": "networking.k8s.io",
    "NetworkPolicy": "networking.k8s.io",
    "ReplicaSet": "apps",
    "Scale": "autoscaling",
}
"""Kinds of `extensions/v1beta1`, and their present group."""
_SCHEMES = {
    "apiextensions.k8s.io": "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55",
    "apiregistration.k8s.io": "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28",
}
"""The Go scheme of groups that have their own API server, as messages name it."""


def kind_mismatch(given: GroupVersionKind, wanted: GroupVersionKind) -> BadRequest:
    """Return the 400 for a body of kind `given` where `wanted` is expected."""
    if given.kind == wanted.kind and _is_other_version(given, wanted.group):
        return version_mismatch(given.api_version, wanted.api_version)
    shown = wanted.version if given.api_version == wanted.api_version else given.version
    prefix = f'{given.kind} in version "{shown}" cannot be handled as a {wanted.kind}: '
    if _is_registered(given) and _scheme(wanted.group) == _scheme(given.group):
        package = definition_name(wanted).split(".")[-3]
        return BadRequest(
            f"{prefix}converting ({shown}.{given.kind}) to ({package}.{wanted.kind}): unknown conversion"
        )
    return BadRequest(
        f'{prefix}no kind "{given.kind}" is registered for version "{given.api_version}" in scheme '
        f'"{_scheme(wanted.group)}"'
    )


def _is_other_version(given: GroupVersionKind, group: str) -> bool:
    """Whether kube-apiserver decodes `given` as a kind of this group."""
    if given.group == "extensions":
        return given.version == "v1beta1" and _EXTENSIONS_KINDS.get(given.kind) == group
    if given.group != group or given.kind in _ABSENT_KINDS.get((group, given.version), ()):
        return False
    return resource_of_kind(given) is not None or given.version in _RETIRED_VERSIONS.get(group, ())


def _is_registered(gvk: GroupVersionKind) -> bool:
    """Whether the kind, or the kind of the items of a list, exists."""
    if resource_of_kind(gvk) is not None or gvk == ("", "v1", "List"):
        return True
    item = gvk._replace(kind=gvk.kind.removesuffix("List"))
    return item != gvk and resource_of_kind(item) is not None


def _scheme(group: str) -> str:
    return _SCHEMES.get(group, "pkg/api/legacyscheme/scheme.go:30")
