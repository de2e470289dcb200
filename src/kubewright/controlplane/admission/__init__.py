"""The admission plug-ins of Kubernetes, one per module: their order, and which are enabled.

The order is that of Kubernetes: defaults before policies, policies before webhooks, and quota last, because
nothing may reject the request after it was charged. Plug-ins read other objects from in-process informers, so
a policy or quota takes effect as soon as it is stored. A new plug-in is a module and a line of `PLUGINS`.

- `always`: plug-ins that are independent of the object: AlwaysAdmit, AlwaysDeny, DenyServiceExternalIPs
- `certificates`: permission to approve, sign and attest certificates, and restrictions of their subjects
- `claims`: PersistentVolumeClaimResize: claims can grow only if their storage class allows expansion
- `defaults`: plug-ins that set defaults: tolerations, default classes, protection finalizers, taints
- `namespaces`: plug-ins that check or create the namespace of a request
- `node_restriction`: NodeRestriction: limits what kubelets can write
- `owners`: OwnerReferencesPermissionEnforcement: changing owner references requires permission to delete the
  object
- `pods`: admission plug-ins for pods
- `policies`: admission policies in CEL
- `quotas`: admission plug-ins that limit resources: quotas and limit ranges
- `rejection`: errors of admission plug-ins
- `sources`: what admission plug-ins read: objects of the cluster whose policies they apply
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Collection, Iterable
from importlib import import_module
from typing import Any

from kubewright.api.kubernetes_version import NEWEST, KubernetesVersion, version_table
from kubewright.apiserver.admission import AdmissionPlugin

logger = logging.getLogger("kubewright.controlplane")

PLUGINS = {
    "AlwaysAdmit": ".always:AlwaysAdmit",
    "NamespaceAutoProvision": ".namespaces:NamespaceAutoProvision",
    "NamespaceLifecycle": ".namespaces:NamespaceLifecycle",
    "NamespaceExists": ".namespaces:NamespaceExists",
    "LimitPodHardAntiAffinityTopology": ".pods.pod_restrictions:LimitPodHardAntiAffinityTopology",
    "LimitRanger": ".quotas.limits:LimitRanger",
    "ServiceAccount": ".pods.service_accounts:ServiceAccounts",
    "NodeRestriction": ".node_restriction:NodeRestriction",
    "TaintNodesByCondition": ".defaults:TaintNodesByCondition",
    "AlwaysPullImages": ".pods.pod_restrictions:AlwaysPullImages",
    "PodSecurity": ".pods.pod_security:PodSecurity",
    "PodNodeSelector": ".pods.pod_restrictions:PodNodeSelector",
    "Priority": ".pods.priority:Priority",
    "DefaultTolerationSeconds": ".defaults:DefaultTolerationSeconds",
    "PodTolerationRestriction": ".pods.pod_restrictions:PodTolerationRestriction",
    "ExtendedResourceToleration": ".pods.pod_restrictions:ExtendedResourceToleration",
    "DefaultStorageClass": ".defaults:DefaultStorageClass",
    "StorageObjectInUseProtection": ".defaults:StorageObjectInUseProtection",
    "OwnerReferencesPermissionEnforcement": ".owners:OwnerReferences",
    "PersistentVolumeClaimResize": ".claims:ClaimResize",
    "RuntimeClass": ".pods.runtime_classes:RuntimeClasses",
    "CertificateApproval": ".certificates:CertificateApproval",
    "CertificateSigning": ".certificates:CertificateSigning",
    "ClusterTrustBundleAttest": ".certificates:ClusterTrustBundleAttest",
    "CertificateSubjectRestriction": ".certificates:CertificateSubjectRestriction",
    "DefaultIngressClass": ".defaults:DefaultIngressClass",
    "DenyServiceExternalIPs": ".always:DenyServiceExternalIPs",
    "PodTopologyLabels": ".pods.topology_labels:TopologyLabels",
    "NodeDeclaredFeatureValidator": ".pods.node_limits:DeclaredFeatures",
    "PodResizeValidator": ".pods.node_limits:PodResize",
    "MutatingAdmissionPolicy": ".policies.mutating_policies:MutatingPolicies",
    "MutatingAdmissionWebhook": "kubewright.controlplane.webhooks:MutatingWebhooks",
    "ValidatingAdmissionPolicy": ".policies.validating_policies:ValidatingPolicies",
    "ValidatingAdmissionWebhook": "kubewright.controlplane.webhooks:ValidatingWebhooks",
    "ResourceQuota": ".quotas.quotas:ResourceQuotas",
    "AlwaysDeny": ".always:AlwaysDeny",
}
"""Module and class of each plug-in, in order. Plug-ins of others run before the policies."""

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
    known = {*PLUGINS, *WITHOUT_EFFECT}
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
    absent = {*PLUGINS} - _names(version)
    place = {name: position for position, name in enumerate(PLUGINS)}
    others = place["MutatingAdmissionPolicy"] - 0.5
    wanted = [plugin for plugin in plugins if _is_enabled(plugin.name, enable, disable, absent)]
    return sorted(wanted, key=lambda plugin: place.get(plugin.name, others))


def _is_enabled(
    name: str, enable: Collection[str], disable: Collection[str], absent: Collection[str]
) -> bool:
    return name not in disable and name not in absent and (name not in OFF_BY_DEFAULT or name in enable)


def create_plugins(
    *,
    enable: Collection[str] = (),
    disable: Collection[str] = (),
    version: KubernetesVersion = NEWEST,
    **arguments: Any,
) -> list[AdmissionPlugin]:
    """Create the enabled plug-ins of a version in order.

    Each gets those of the arguments that its constructor has: `server`, `informers`, `client` (of webhooks),
    and the seconds that pods tolerate nodes that are `not_ready` and `unreachable`.
    """
    absent, created = {*PLUGINS} - _names(version), []
    for name, target in PLUGINS.items():
        if _is_enabled(name, enable, disable, absent):
            module, _, plugin = target.partition(":")
            create = getattr(import_module(module, __name__), plugin)
            accepted = inspect.signature(create).parameters
            created.append(create(**{key: arguments[key] for key in accepted if key in arguments}))
    return created
