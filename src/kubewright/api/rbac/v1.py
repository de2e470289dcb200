"""Types of `rbac.authorization.k8s.io/v1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import LabelSelector, MetaObject, ObjectList
from kubewright.api.objects import Struct, field


class AggregationRule(Struct):
    cluster_role_selectors: list[LabelSelector] | None = None


class PolicyRule(Struct):
    api_groups: list[str] | None = None
    non_resource_urls: list[str] | None = field(default=None, name="nonResourceURLs")
    resource_names: list[str] | None = None
    resources: list[str] | None = None
    verbs: list[str] | None = None


class ClusterRole(MetaObject):
    gvk = GroupVersionKind("rbac.authorization.k8s.io", "v1", "ClusterRole")

    aggregation_rule: AggregationRule | None = None
    rules: list[PolicyRule] | None = None


class RoleRef(Struct):
    api_group: str | None = None
    kind: str | None = None
    name: str | None = None


class Subject(Struct):
    api_group: str | None = None
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None


class ClusterRoleBinding(MetaObject):
    gvk = GroupVersionKind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding")

    role_ref: RoleRef | None = None
    subjects: list[Subject] | None = None


class ClusterRoleBindingList(ObjectList[ClusterRoleBinding]):
    gvk = GroupVersionKind("rbac.authorization.k8s.io", "v1", "ClusterRoleBindingList")


class ClusterRoleList(ObjectList[ClusterRole]):
    gvk = GroupVersionKind("rbac.authorization.k8s.io", "v1", "ClusterRoleList")


class Role(MetaObject):
    gvk = GroupVersionKind("rbac.authorization.k8s.io", "v1", "Role")

    rules: list[PolicyRule] | None = None


class RoleBinding(MetaObject):
    gvk = GroupVersionKind("rbac.authorization.k8s.io", "v1", "RoleBinding")

    role_ref: RoleRef | None = None
    subjects: list[Subject] | None = None


class RoleBindingList(ObjectList[RoleBinding]):
    gvk = GroupVersionKind("rbac.authorization.k8s.io", "v1", "RoleBindingList")


class RoleList(ObjectList[Role]):
    gvk = GroupVersionKind("rbac.authorization.k8s.io", "v1", "RoleList")


__all__ = [
    "AggregationRule",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "ClusterRoleList",
    "PolicyRule",
    "Role",
    "RoleBinding",
    "RoleBindingList",
    "RoleList",
    "RoleRef",
    "Subject",
]
