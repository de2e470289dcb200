"""`KindSelection`: which resources of a cluster are read.

An operator is rehearsed with the objects of the kinds that it watches, owns or refers to, which are those of
its RBAC rules, and with what decides about its requests: CRDs, webhooks, policies, quotas and RBAC. Workloads
are read with the objects that their controllers create, so that the rehearsal does not create these again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kubewright.api.gvk import GroupResource

if TYPE_CHECKING:
    from kubewright.api.declaring.declarations import Rbac
    from kubewright.client.discovery.api_resource import APIResource

CONTEXT: Final = frozenset(
    GroupResource(group, resource)
    for group, resources in {
        "": (
            "limitranges",
            "namespaces",
            "nodes",
            "resourcequotas",
            "serviceaccounts",
        ),
        "admissionregistration.k8s.io": (
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            "mutatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "validatingwebhookconfigurations",
        ),
        "apiextensions.k8s.io": ("customresourcedefinitions",),
        "node.k8s.io": ("runtimeclasses",),
        "rbac.authorization.k8s.io": ("clusterrolebindings", "clusterroles", "rolebindings", "roles"),
        "scheduling.k8s.io": ("priorityclasses",),
        "storage.k8s.io": ("storageclasses",),
    }.items()
    for resource in resources
)
"""What decides about the requests of any operator."""
_PODS: Final = GroupResource("", "pods")
CREATED: Final = {
    GroupResource("apps", "deployments"): (GroupResource("apps", "replicasets"), _PODS),
    GroupResource("apps", "replicasets"): (_PODS,),
    GroupResource("apps", "statefulsets"): (
        GroupResource("apps", "controllerrevisions"),
        GroupResource("", "persistentvolumeclaims"),
        _PODS,
    ),
    GroupResource("apps", "daemonsets"): (GroupResource("apps", "controllerrevisions"), _PODS),
    GroupResource("batch", "cronjobs"): (GroupResource("batch", "jobs"), _PODS),
    GroupResource("batch", "jobs"): (_PODS,),
}
"""What the controllers of workloads create."""
LEFT_OUT: Final = frozenset(
    (
        GroupResource("", "events"),
        GroupResource("events.k8s.io", "events"),
        GroupResource("", "componentstatuses"),
        GroupResource("coordination.k8s.io", "leases"),
        GroupResource("coordination.k8s.io", "leasecandidates"),
        GroupResource("metrics.k8s.io", "nodes"),
        GroupResource("metrics.k8s.io", "pods"),
    )
)
"""Resources without state that a rehearsal needs."""
_ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class KindSelection:
    """The resources to read."""

    groups: frozenset[tuple[str, str]] | None = None
    """Group and plural, each of them possibly `*`; `None` selects everything."""

    @classmethod
    def of_rules(cls, rules: Iterable[Rbac], extra: Iterable[GroupResource] = ()) -> KindSelection:
        """Return the resources for which rules grant something, with `CONTEXT`."""
        found = {*CONTEXT, *extra}
        for rule in rules:
            for group in rule.groups:
                for resource in rule.resources:
                    name = "" if group == "core" else group
                    found.add(GroupResource(name, resource.partition("/")[0]))
        for each in list(found):
            found.update(CREATED.get(each, ()))
        return cls(frozenset((each.group, each.resource) for each in found))

    @classmethod
    def of_names(cls, names: Iterable[str], served: Iterable[APIResource]) -> KindSelection:
        """Return the resources with these names, as on a command line, with `CONTEXT`."""
        resources = list(served)
        found = set(CONTEXT)
        for name in names:
            matching = [each for each in resources if each.matches(name)]
            if not matching:
                raise ValueError(f"the cluster does not serve {name!r}; see kubectl api-resources")
            found.update(GroupResource(each.gvr.group, each.gvr.resource) for each in matching)
        for each in list(found):
            found.update(CREATED.get(each, ()))
        return cls(frozenset((each.group, each.resource) for each in found))

    def includes(self, group: str, resource: str) -> bool:
        """Whether the objects of a resource are read."""
        if GroupResource(group, resource) in LEFT_OUT:
            return False
        if self.groups is None:
            return True
        return any((one, other) in self.groups for one in (group, _ANY) for other in (resource, _ANY))
