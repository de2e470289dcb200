"""Order of the admission plug-ins, and which are enabled.

The order is that of Kubernetes: defaults before policies, policies before webhooks, and quota last, because
nothing may reject the request after it was charged.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from kubewright.api.kubernetes_version import NEWEST, KubernetesVersion, version_table
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


GATES = {
    "MutatingAdmissionPolicy": "MutatingAdmissionPolicy",
    "PodTopologyLabels": "PodTopologyLabelsAdmission",
}
"""Plug-ins that do nothing in versions in which their feature gate is disabled by default."""


def _names(version: KubernetesVersion) -> set[str]:
    """Return the plug-ins of a version of Kubernetes."""
    known = {*ORDER, *WITHOUT_EFFECT}
    if version.is_newest:
        return known
    versions, gates = version_table()["plugins"], version.gates()
    return {
        name
        for name in known
        if version.includes(versions.get(name, ""))
        and (name not in GATES or (GATES[name] in gates and gates[GATES[name]].enabled))
    }


def check_names(
    *, enable: Collection[str], disable: Collection[str], version: KubernetesVersion = NEWEST
) -> None:
    """Raise `ValueError` for names that are unknown, or both enabled and disabled.

    Plug-ins without effect are accepted; a warning is logged for those that are enabled.
    """
    known = _names(version) | GATES.keys()
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
    plugins: Iterable[AdmissionPlugin],
    *,
    enable: Collection[str] = (),
    disable: Collection[str] = (),
    version: KubernetesVersion = NEWEST,
) -> list[AdmissionPlugin]:
    """Return the enabled plug-ins of a version in order."""
    absent = {*ORDER} - _names(version)
    place = {name: position for position, name in enumerate(ORDER)}
    others = place["MutatingAdmissionPolicy"] - 0.5
    wanted = [
        plugin
        for plugin in plugins
        if plugin.name not in disable
        and plugin.name not in absent
        and (plugin.name not in OFF_BY_DEFAULT or plugin.name in enable)
    ]
    return sorted(wanted, key=lambda plugin: place.get(plugin.name, others))
