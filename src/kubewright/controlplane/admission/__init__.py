"""The admission plug-ins of Kubernetes, one per module.

`default_plugins` creates them, `arranged` returns the enabled ones in their order. Plug-ins read other
objects from in-process informers, so a policy or quota takes effect as soon as it is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .live import Live
from .namespaces import NamespaceLifecycle
from .notice import NoticeWrites
from .order import OFF_BY_DEFAULT, ORDER, arranged, check_names

if TYPE_CHECKING:
    from kubewright.apiserver.admission import AdmissionPlugin
    from kubewright.apiserver.server import APIServer


def default_plugins(server: APIServer, live: Live | None = None) -> list[AdmissionPlugin]:
    """Return the plug-ins that need only the server, which excludes webhooks."""
    from .certificates import (
        CertificateApproval,
        CertificateSigning,
        CertificateSubjectRestriction,
        ClusterTrustBundleAttest,
    )
    from .claims import ClaimResize
    from .defaults import (
        DefaultIngressClass,
        DefaultStorageClass,
        DefaultTolerationSeconds,
        StorageObjectInUseProtection,
        TaintNodesByCondition,
    )
    from .limits import LimitRanger
    from .mutating_policies import MutatingPolicies
    from .node_limits import DeclaredFeatures, PodResize
    from .owners import OwnerReferences
    from .pod_security import PodSecurity
    from .priority import Priority
    from .quotas import ResourceQuotas
    from .runtime_classes import RuntimeClasses
    from .service_accounts import ServiceAccounts
    from .topology_labels import TopologyLabels
    from .validating_policies import ValidatingPolicies

    live = live or Live(server)
    return [
        NoticeWrites(live),
        NamespaceLifecycle(live),
        LimitRanger(live),
        ServiceAccounts(live),
        TaintNodesByCondition(),
        PodSecurity(live),
        Priority(live),
        DefaultTolerationSeconds(),
        DefaultStorageClass(live),
        StorageObjectInUseProtection(),
        OwnerReferences(server),
        ClaimResize(live),
        RuntimeClasses(live),
        CertificateApproval(server),
        CertificateSigning(server),
        ClusterTrustBundleAttest(server),
        CertificateSubjectRestriction(server),
        DefaultIngressClass(live),
        TopologyLabels(live),
        DeclaredFeatures(live),
        PodResize(live),
        MutatingPolicies(server, live),
        ValidatingPolicies(server, live),
        ResourceQuotas(server, live),
    ]


__all__ = [
    "OFF_BY_DEFAULT",
    "ORDER",
    "Live",
    "NamespaceLifecycle",
    "arranged",
    "check_names",
    "default_plugins",
]
