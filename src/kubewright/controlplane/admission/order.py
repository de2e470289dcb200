"""Order of the admission plug-ins, and which are enabled.

The order is that of Kubernetes: defaults before policies, policies before webhooks, and quota last, because
nothing may reject the request after it was charged.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from kubewright.apiserver.admission import AdmissionPlugin

logger = logging.getLogger("kubewright.controlplane")

ORDER = (
    "AlwaysAdmit",
    "NamespaceAutoProvision",
    "NamespaceLifecycle",
    "NamespaceExists",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "ServiceAccount",
    "NodeRestriction",
    "TaintNodesByCondition",
    "AlwaysPullImages",
    "PodSecurity",
    "PodNodeSelector",
    "Priority",
    "DefaultTolerationSeconds",
    "PodTolerationRestriction",
    "ExtendedResourceToleration",
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
    "DenyServiceExternalIPs",
    "PodTopologyLabels",
    "NodeDeclaredFeatureValidator",
    "PodResizeValidator",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
    "AlwaysDeny",
)
"""All plug-ins in order. Unlisted plug-ins run before the policies."""

OFF_BY_DEFAULT = frozenset(
    (
        "AlwaysAdmit",
        "AlwaysDeny",
        "AlwaysPullImages",
        "DenyServiceExternalIPs",
        "ExtendedResourceToleration",
        "LimitPodHardAntiAffinityTopology",
        "NamespaceAutoProvision",
        "NamespaceExists",
        "NodeRestriction",
        "OwnerReferencesPermissionEnforcement",
        "PodNodeSelector",
        "PodTolerationRestriction",
    )
)

WITHOUT_EFFECT = {
    "EventRateLimit": "it needs a configuration file, which is not supported",
    "ImagePolicyWebhook": "it needs a configuration file, which is not supported",
    "JobValidation": "the feature gate WorkloadWithJob is disabled",
    "PodGroupProtection": "the feature gate GenericWorkload is disabled",
    "PodGroupWorkloadExists": "the feature gate GenericWorkload is disabled",
}
"""Plug-ins of Kubernetes that can be enabled but do nothing here, with the reason."""


def check_names(*, enable: Collection[str], disable: Collection[str]) -> None:
    """Raise `ValueError` for names that are unknown, or both enabled and disabled.

    Plug-ins without effect are accepted; a warning is logged for those that are enabled.
    """
    known = {*ORDER, *WITHOUT_EFFECT}
    problems = [f'enable-admission-plugins plugin "{name}" is unknown' for name in sorted({*enable} - known)]
    problems += [
        f'disable-admission-plugins plugin "{name}" is unknown' for name in sorted({*disable} - known)
    ]
    if problems:
        problems.append(f"known are {', '.join(sorted(known))}")
    both = sorted({*enable} & {*disable})
    if both:
        problems.append(
            f"[{' '.join(both)}] in enable-admission-plugins and disable-admission-plugins overlapped"
        )
    if problems:
        raise ValueError("; ".join(problems))
    for name in sorted({*enable} & {*WITHOUT_EFFECT}):
        logger.warning(
            "admission plug-in has no effect", extra={"plugin": name, "reason": WITHOUT_EFFECT[name]}
        )


def arranged(
    plugins: Iterable[AdmissionPlugin], *, enable: Collection[str] = (), disable: Collection[str] = ()
) -> list[AdmissionPlugin]:
    """Return the enabled plug-ins in order."""
    place = {name: position for position, name in enumerate(ORDER)}
    others = place["MutatingAdmissionPolicy"] - 0.5
    wanted = [
        plugin
        for plugin in plugins
        if plugin.name not in disable and (plugin.name not in OFF_BY_DEFAULT or plugin.name in enable)
    ]
    return sorted(wanted, key=lambda plugin: place.get(plugin.name, others))
