"""Role, ClusterRole, RoleBinding and ClusterRoleBinding."""

from __future__ import annotations

from typing import Any

from kubewright.api.values.names import check_path_segment
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.core.podspec.scheduling import selector_errors
from kubewright.controlplane.kinds.defaults import Defaults, IfEmpty
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, column
from kubewright.controlplane.kinds.validation import (
    DNS_SUBDOMAIN,
    PATH_SEGMENT,
    Enum,
    Errors,
    Immutable,
    Required,
    Rules,
    Switch,
    UpdateRules,
    When,
)
from kubewright.schema import field_errors as fe

RBAC_GROUP = "rbac.authorization.k8s.io"


def _both_kinds_of_rules(rule: Object, path: str) -> Errors:
    if not (rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames")):
        return []
    text = "rules cannot apply to both regular resources and non-resource URLs"
    return [fe.invalid(f"{path}.nonResourceURLs", rule["nonResourceURLs"], text)]


def _namespaced_url_rule(urls: list[str], path: str) -> Errors:
    return [fe.invalid(path, urls, "namespaced rules cannot apply to non-resource URLs")] if urls else []


RESOURCE_RULE = {
    "apiGroups": Required("resource rules must supply at least one api group"),
    "resources": Required("resource rules must supply at least one resource"),
}
POLICY_RULE = [
    When(lambda rule: rule.get("nonResourceURLs"), _both_kinds_of_rules),
    When(lambda rule: not rule.get("nonResourceURLs"), RESOURCE_RULE),
]
VERBS = Required("verbs must contain at least one value")
ROLE_RULES = Rules(
    {
        "rules[*].verbs": VERBS,
        "rules[*].nonResourceURLs": _namespaced_url_rule,
        "rules[*]": POLICY_RULE,
    }
)


def _role_selector_errors(selector: Object, path: str) -> Errors:
    errors = selector_errors(selector, path)
    return [*errors, fe.invalid(path, None, "invalid label selector.")] if errors else []


CLUSTER_ROLE_RULES = Rules(
    {
        "rules[*].verbs": VERBS,
        "rules[*]": POLICY_RULE,
        "aggregationRule?.clusterRoleSelectors": Required(
            "at least one clusterRoleSelector required if aggregationRule is non-nil"
        ),
        "aggregationRule?.clusterRoleSelectors[*]": _role_selector_errors,
    }
)


def _binding_rules(*role_kinds: str, namespaced: bool) -> Rules:
    account: dict[str, Any] = {"name": DNS_SUBDOMAIN, "apiGroup": Enum("")}
    user = {"apiGroup": Enum(RBAC_GROUP, absent="")}
    if not namespaced:
        account["namespace"] = Required()
    return Rules(
        {
            "roleRef.apiGroup": Enum(RBAC_GROUP, absent=""),
            "roleRef.kind": Enum(*role_kinds, absent=""),
            "roleRef.name": [Required(), PATH_SEGMENT],
            "subjects[*].name": Required(),
            "subjects[*]": Switch("kind", {"ServiceAccount": account, "User": user, "Group": user}),
            "subjects[*].kind": Enum("ServiceAccount", "User", "Group", absent=""),
        }
    )


ROLE_BINDING_RULES = _binding_rules("Role", "ClusterRole", namespaced=True)
CLUSTER_ROLE_BINDING_RULES = _binding_rules("ClusterRole", namespaced=False)


def _default_subject(subject: Object) -> None:
    if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
        subject["apiGroup"] = RBAC_GROUP


BINDING_DEFAULTS = Defaults({"roleRef.apiGroup": IfEmpty(RBAC_GROUP), "subjects[*]": _default_subject})


def _role_ref_value(ref: Object | None) -> fe.GoStruct:
    names = (("apiGroup", "APIGroup"), ("kind", "Kind"), ("name", "Name"))
    return fe.GoStruct((go_name, (ref or {}).get(name) or "") for name, go_name in names)


ROLE_REF_CHANGE = {"roleRef": Immutable("cannot change roleRef", show=_role_ref_value)}


def _role_text(binding: Object) -> str:
    ref = binding.get("roleRef") or {}
    return f"{ref.get('kind', '')}/{ref.get('name', '')}"


def _subjects(binding: Object, kind: str) -> str:
    subjects = [subject for subject in binding.get("subjects") or () if subject.get("kind") == kind]
    if kind == "ServiceAccount":
        return ", ".join(f"{one.get('namespace', '')}/{one.get('name', '')}" for one in subjects)
    return ", ".join(subject.get("name", "") for subject in subjects)


BINDING_COLUMNS = (
    column("Role", _role_text, description="Role that is granted."),
    AGE,
    column("Users", lambda obj: _subjects(obj, "User"), description="Users of the binding.", wide=True),
    column("Groups", lambda obj: _subjects(obj, "Group"), description="Groups of the binding.", wide=True),
    column(
        "ServiceAccounts",
        lambda obj: _subjects(obj, "ServiceAccount"),
        description="Service accounts of the binding.",
        wide=True,
    ),
)


def _kind(rules: Rules, **fields: Any) -> Kind:
    return Kind(
        validate=rules,
        validate_name=check_path_segment,
        allow_create_on_update=True,
        checks_whole_on_update=True,
        **fields,
    )


def _binding(rules: Rules) -> Kind:
    return _kind(
        rules,
        default=BINDING_DEFAULTS,
        validate_update=UpdateRules(rules, ROLE_REF_CHANGE),
        columns=BINDING_COLUMNS,
    )


KINDS = {
    "roles": _kind(ROLE_RULES),
    "clusterroles": _kind(CLUSTER_ROLE_RULES),
    "rolebindings": _binding(ROLE_BINDING_RULES),
    "clusterrolebindings": _binding(CLUSTER_ROLE_BINDING_RULES),
}
