"""RBAC rules that an extension API server requires, beside those to delegate authentication."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from kubewright.api.declaring.declarations import Rbac
from kubewright.api.meta import MetaObject
from kubewright.api.scheme import Scheme

READ = ("get", "list", "watch")
FLOW_RESOURCES = ("flowschemas", "prioritylevelconfigurations")
ADMISSION_RESOURCES = (
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
)


def rules(
    *,
    reads: Sequence[type[MetaObject]],
    api_services: Sequence[str],
    secret: str,
    cluster_admission: bool,
    priority: bool,
    managed_certificates: bool,
    registers: bool = False,
) -> Iterable[Rbac]:
    """Return the rules of a server. `reads`: kinds of the cluster that its functions read."""
    if cluster_admission:
        yield Rbac(groups=("core",), resources=("namespaces",), verbs=READ, where="")
        yield Rbac(
            groups=("admissionregistration.k8s.io",), resources=ADMISSION_RESOURCES, verbs=READ, where=""
        )
    if priority:
        yield Rbac(groups=("flowcontrol.apiserver.k8s.io",), resources=FLOW_RESOURCES, verbs=READ, where="")
    scheme = Scheme()
    for kind in reads:
        info = scheme.info_of(kind)
        yield Rbac(groups=(info.gvk.group or "core",), resources=(info.plural,), verbs=READ, where="")
    services = partial(Rbac, groups=("apiregistration.k8s.io",), resources=("apiservices",), where="")
    if registers:
        yield services(verbs=("create",))
    if managed_certificates or registers:
        yield services(verbs=("get", "patch"), resource_names=tuple(api_services))
    if managed_certificates:
        secrets = partial(Rbac, groups=("core",), resources=("secrets",), namespace="system", where="")
        yield secrets(verbs=("create",))
        yield secrets(verbs=("get", "update"), resource_names=(secret,))
