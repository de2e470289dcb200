"""The order in which the objects of a set are applied, so that each finds what it depends on.

Namespaces are first, then CRDs, permissions, configuration, services, workloads and custom resources; objects
that make the API server call a workload (webhook configurations, APIServices) are last. Deletion uses the
reverse order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

_PHASES: Final[tuple[frozenset[str], ...]] = (
    frozenset(("Namespace",)),
    frozenset(("CustomResourceDefinition",)),
    frozenset(
        (
            *("PriorityClass", "RuntimeClass", "StorageClass", "IngressClass", "DeviceClass"),
            *("ResourceQuota", "LimitRange", "NetworkPolicy", "ServiceAccount"),
            *("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"),
        )
    ),
    frozenset(("Secret", "ConfigMap", "PersistentVolume", "PersistentVolumeClaim")),
    frozenset(("Service",)),
    frozenset(
        (
            *("Pod", "ReplicationController", "ReplicaSet", "Deployment", "StatefulSet", "DaemonSet"),
            *("Job", "CronJob", "HorizontalPodAutoscaler", "PodDisruptionBudget"),
        )
    ),
    frozenset(),
    frozenset(
        (
            *("APIService", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
            *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
            *("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"),
        )
    ),
)
_BY_KIND: Final = {kind: number for number, kinds in enumerate(_PHASES) for kind in kinds}
_BUILT_IN_SUFFIX: Final = ".k8s.io"
_OTHER: Final = 6
NAMESPACES: Final = 0


def phase_of(api_version: str, kind: str) -> int:
    """Return the phase of a kind; kinds of groups that Kubernetes does not define are in the last but one."""
    group = api_version.rpartition("/")[0]
    if group and "." in group and not group.endswith(_BUILT_IN_SUFFIX):
        return _OTHER
    return _BY_KIND.get(kind, _OTHER)


def in_apply_order(objects: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return objects by phase; within a phase the order stays."""
    return sorted(objects, key=lambda each: phase_of(each["apiVersion"], each["kind"]))
