"""Roles and bindings: `rbac.authorization.k8s.io`.

Names only have to be usable in a URL (`system:basic-user`). What a binding refers to never changes.
"""

from __future__ import annotations

from kubewright.api.names import check_path_segment
from kubewright.apiserver.resource import Object
from kubewright.controlplane.kinds.core.podspec.scheduling import selector_errors
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, column
from kubewright.controlplane.kinds.validation.formats import Errors, dns_subdomain, named
from kubewright.schema import field_errors as fe

GROUP = "rbac.authorization.k8s.io"


def _rule_errors(rule: Object, namespaced: bool, path: str) -> Errors:
    errors: Errors = []
    if not rule.get("verbs"):
        errors.append(fe.required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        where = f"{path}.nonResourceURLs"
        if namespaced:
            errors.append(fe.invalid(where, urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(fe.invalid(where, urls, text))
        return errors
    if not rule.get("apiGroups"):
        errors.append(fe.required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(fe.required(f"{path}.resources", "resource rules must supply at least one resource"))
    return errors


def _role_errors(role: Object) -> Errors:
    return [
        error
        for position, rule in enumerate(role.get("rules") or ())
        for error in _rule_errors(rule, True, f"rules[{position}]")
    ]


def _cluster_role_errors(role: Object) -> Errors:
    errors = [
        error
        for position, rule in enumerate(role.get("rules") or ())
        for error in _rule_errors(rule, False, f"rules[{position}]")
    ]
    aggregation = role.get("aggregationRule")
    if aggregation is not None:
        path = "aggregationRule.clusterRoleSelectors"
        selectors = aggregation.get("clusterRoleSelectors") or []
        if not selectors:
            text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            errors.append(fe.required(path, text))
        for position, selector in enumerate(selectors):
            wrong = selector_errors(selector, f"{path}[{position}]")
            errors += wrong
            if wrong:
                errors.append(fe.invalid(f"{path}[{position}]", None, "invalid label selector."))
    return errors


def _default_binding(binding: Object) -> None:
    reference = binding.get("roleRef")
    if isinstance(reference, dict) and not reference.get("apiGroup"):
        reference["apiGroup"] = GROUP
    for subject in binding.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = GROUP


def _binding_errors(binding: Object, kinds: tuple[str, ...], namespaced: bool) -> Errors:
    errors: Errors = []
    reference = binding.get("roleRef") or {}
    group, kind, name = (reference.get(each) or "" for each in ("apiGroup", "kind", "name"))
    if group != GROUP:
        errors.append(fe.not_supported("roleRef.apiGroup", group, (GROUP,)))
    if kind not in kinds:
        errors.append(fe.not_supported("roleRef.kind", kind, kinds))
    if not name:
        errors.append(fe.required("roleRef.name", ""))
    else:
        errors += named(check_path_segment, name, "roleRef.name")
    for position, subject in enumerate(binding.get("subjects") or ()):
        errors += _subject_errors(subject, namespaced, f"subjects[{position}]")
    return errors


def _subject_errors(subject: Object, namespaced: bool, path: str) -> Errors:
    errors: Errors = []
    kind, name, group = (subject.get(each) or "" for each in ("kind", "name", "apiGroup"))
    if not name:
        errors.append(fe.required(f"{path}.name", ""))
    if kind == "ServiceAccount":
        if name:
            errors += dns_subdomain(name, f"{path}.name")
        if group:
            errors.append(fe.not_supported(f"{path}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            errors.append(fe.required(f"{path}.namespace", ""))
    elif kind in ("User", "Group"):
        if group != GROUP:
            errors.append(fe.not_supported(f"{path}.apiGroup", group, (GROUP,)))
    else:
        errors.append(fe.not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group")))
    return errors


def _role_binding_errors(binding: Object) -> Errors:
    return _binding_errors(binding, ("Role", "ClusterRole"), True)


def _cluster_role_binding_errors(binding: Object) -> Errors:
    return _binding_errors(binding, ("ClusterRole",), False)


def _reference_change(new: Object, old: Object) -> Errors:
    reference = new.get("roleRef") or {}
    if reference == old.get("roleRef"):
        return []
    shape = fe.GoStruct(
        APIGroup=reference.get("apiGroup") or "",
        Kind=reference.get("kind") or "",
        Name=reference.get("name") or "",
    )
    return [fe.invalid("roleRef", shape, "cannot change roleRef")]


def _role_text(binding: Object) -> str:
    reference = binding.get("roleRef") or {}
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _subjects(binding: Object, kind: str) -> str:
    of_kind = [each for each in binding.get("subjects") or () if each.get("kind") == kind]
    if kind == "ServiceAccount":
        return ", ".join(f"{each.get('namespace', '')}/{each.get('name', '')}" for each in of_kind)
    return ", ".join(each.get("name", "") for each in of_kind)


_BINDING_COLUMNS = (
    column("Role", _role_text, description="The role whose permissions are given."),
    AGE,
    column("Users", lambda obj: _subjects(obj, "User"), description="Users who get them.", wide=True),
    column("Groups", lambda obj: _subjects(obj, "Group"), description="Groups that get them.", wide=True),
    column(
        "ServiceAccounts",
        lambda obj: _subjects(obj, "ServiceAccount"),
        description="Service accounts that get them.",
        wide=True,
    ),
)

KINDS = {
    "roles": Kind(
        validate=_role_errors,
        validate_name=check_path_segment,
        allow_create_on_update=True,
        checks_whole_on_update=True,
    ),
    "clusterroles": Kind(
        validate=_cluster_role_errors,
        validate_name=check_path_segment,
        allow_create_on_update=True,
        checks_whole_on_update=True,
    ),
    "rolebindings": Kind(
        default=_default_binding,
        validate=_role_binding_errors,
        validate_update=lambda new, old: _role_binding_errors(new) + _reference_change(new, old),
        validate_name=check_path_segment,
        allow_create_on_update=True,
        columns=_BINDING_COLUMNS,
        checks_whole_on_update=True,
    ),
    "clusterrolebindings": Kind(
        default=_default_binding,
        validate=_cluster_role_binding_errors,
        validate_update=lambda new, old: _cluster_role_binding_errors(new) + _reference_change(new, old),
        validate_name=check_path_segment,
        allow_create_on_update=True,
        columns=_BINDING_COLUMNS,
        checks_whole_on_update=True,
    ),
}
