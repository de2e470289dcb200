"""The admission plug-ins of Kubernetes, one per module.

`default_plugins` creates them, `arranged` returns the enabled ones in their order. Plug-ins read other
objects from in-process informers, so a policy or quota takes effect as soon as it is stored.

- `always`: plug-ins that are independent of the object: AlwaysAdmit, AlwaysDeny, DenyServiceExternalIPs
- `certificates`: permission to approve, sign and attest certificates, and restrictions of their subjects
- `claims`: PersistentVolumeClaimResize: claims can grow only if their storage class allows expansion
- `defaults`: plug-ins that set defaults: tolerations, default classes, protection finalizers, taints
- `namespaces`: plug-ins that check or create the namespace of a request
- `node_restriction`: NodeRestriction: limits what kubelets can write
- `order`: order of the admission plug-ins, and which are enabled
- `owners`: OwnerReferencesPermissionEnforcement: changing owner references requires permission to delete the
  object
- `pods`: admission plug-ins for pods
- `policies`: admission policies in CEL
- `quotas`: admission plug-ins that limit resources: quotas and limit ranges
- `rejection`: errors of admission plug-ins
- `sources`: what admission plug-ins read: objects of the cluster whose policies they apply
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .namespaces import NamespaceLifecycle
from .order import OFF_BY_DEFAULT, ORDER, arranged, check_names

if TYPE_CHECKING:
    from kubewright.apiserver.admission import AdmissionPlugin
    from kubewright.apiserver.server import APIServer
    from kubewright.controlplane.informers import Informers


def default_plugins(
    server: APIServer, informers: Informers, *, toleration_seconds: tuple[int, int] = (300, 300)
) -> list[AdmissionPlugin]:
    """Return the plug-ins that need only the server and its informers, which excludes webhooks.

    `toleration_seconds` are those of pods for nodes that are not ready, and unreachable.
    """
    from .always import AlwaysAdmit, AlwaysDeny, DenyServiceExternalIPs
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
    from .namespaces import NamespaceAutoProvision, NamespaceExists
    from .node_restriction import NodeRestriction
    from .owners import OwnerReferences
    from .pods.node_limits import DeclaredFeatures, PodResize
    from .pods.pod_restrictions import (
        AlwaysPullImages,
        ExtendedResourceToleration,
        LimitPodHardAntiAffinityTopology,
        PodNodeSelector,
        PodTolerationRestriction,
    )
    from .pods.pod_security import PodSecurity
    from .pods.priority import Priority
    from .pods.runtime_classes import RuntimeClasses
    from .pods.service_accounts import ServiceAccounts
    from .pods.topology_labels import TopologyLabels
    from .policies.mutating_policies import MutatingPolicies
    from .policies.validating_policies import ValidatingPolicies
    from .quotas.limits import LimitRanger
    from .quotas.quotas import ResourceQuotas

    return [
        NamespaceLifecycle(informers),
        LimitRanger(informers),
        ServiceAccounts(informers),
        TaintNodesByCondition(),
        PodSecurity(informers),
        Priority(informers),
        DefaultTolerationSeconds(*toleration_seconds),
        DefaultStorageClass(informers),
        StorageObjectInUseProtection(),
        OwnerReferences(server),
        ClaimResize(informers),
        RuntimeClasses(informers),
        CertificateApproval(server),
        CertificateSigning(server),
        ClusterTrustBundleAttest(server),
        CertificateSubjectRestriction(server),
        DefaultIngressClass(informers),
        TopologyLabels(informers),
        DeclaredFeatures(informers),
        PodResize(informers),
        MutatingPolicies(server, informers),
        ValidatingPolicies(server, informers),
        ResourceQuotas(server, informers),
        AlwaysAdmit(),
        AlwaysDeny(),
        AlwaysPullImages(),
        DenyServiceExternalIPs(),
        ExtendedResourceToleration(),
        LimitPodHardAntiAffinityTopology(),
        NamespaceAutoProvision(server, informers),
        NamespaceExists(informers),
        NodeRestriction(server, informers),
        PodNodeSelector(informers),
        PodTolerationRestriction(informers),
    ]


__all__ = [
    "OFF_BY_DEFAULT",
    "ORDER",
    "NamespaceLifecycle",
    "arranged",
    "check_names",
    "default_plugins",
]
