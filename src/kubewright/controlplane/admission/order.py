"""The order of the admission plug-ins, and which of them are on.

The order is that of Kubernetes. It matters: defaults come before webhooks, policies before webhooks, and
quota is charged last, when nothing can refuse any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kubewright.apiserver.admission import AdmissionPlugin

ORDER = (
    "NoticeWrites",
    "NamespaceLifecycle",
    "LimitRanger",
    "ServiceAccount",
    "TaintNodesByCondition",
    "PodSecurity",
    "Priority",
    "DefaultTolerationSeconds",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "PodTopologyLabels",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
)
"""Every plug-in by name. One that is not listed runs before the policies."""

OFF_BY_DEFAULT = frozenset(("OwnerReferencesPermissionEnforcement",))


def arranged(
    plugins: Iterable[AdmissionPlugin], *, enable: Collection[str] = (), disable: Collection[str] = ()
) -> list[AdmissionPlugin]:
    """Those plug-ins that are on, in their order."""
    place = {name: position for position, name in enumerate(ORDER)}
    others = place["MutatingAdmissionPolicy"] - 0.5
    wanted = [
        plugin
        for plugin in plugins
        if plugin.name not in disable and (plugin.name not in OFF_BY_DEFAULT or plugin.name in enable)
    ]
    return sorted(wanted, key=lambda plugin: place.get(plugin.name, others))
