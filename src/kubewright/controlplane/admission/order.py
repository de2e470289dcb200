"""Order of the admission plug-ins, and which are enabled.

The order is that of Kubernetes: defaults before policies, policies before webhooks, and quota last, because
nothing may reject the request after it was charged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kubewright.apiserver.admission import AdmissionPlugin

ORDER = (
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
    "NodeDeclaredFeatureValidator",
    "PodResizeValidator",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
)
"""All plug-ins in order. Unlisted plug-ins run before the policies."""

OFF_BY_DEFAULT = frozenset(("OwnerReferencesPermissionEnforcement",))

WITHOUT_EFFECT = frozenset(("PodGroupProtection",))
"""Enabled by default in Kubernetes, but without effect here because their kinds are not served."""

ABSENT = frozenset(
    (
        "AlwaysAdmit",
        "AlwaysDeny",
        "AlwaysPullImages",
        "DenyServiceExternalIPs",
        "EventRateLimit",
        "ExtendedResourceToleration",
        "ImagePolicyWebhook",
        "LimitPodHardAntiAffinityTopology",
        "NamespaceAutoProvision",
        "NamespaceExists",
        "NodeRestriction",
        "PodNodeSelector",
        "PodTolerationRestriction",
    )
)
"""Plug-ins that are disabled by default in Kubernetes and not implemented here."""


def check_names(*, enable: Collection[str], disable: Collection[str]) -> None:
    """Raise `ValueError` for names that are unknown, not available, or both enabled and disabled."""
    available = {*ORDER, *WITHOUT_EFFECT}
    problems = [
        f'enable-admission-plugins plugin "{name}" is {"not available here" if name in ABSENT else "unknown"}'
        for name in sorted({*enable} - available)
    ]
    problems += [
        f'disable-admission-plugins plugin "{name}" is unknown'
        for name in sorted({*disable} - available - ABSENT)
    ]
    if problems:
        problems.append(f"available are {', '.join(sorted(available))}")
    both = sorted({*enable} & {*disable})
    if both:
        problems.append(
            f"[{' '.join(both)}] in enable-admission-plugins and disable-admission-plugins overlapped"
        )
    if problems:
        raise ValueError("; ".join(problems))


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
