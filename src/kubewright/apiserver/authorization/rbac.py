"""RBAC authorizer.

`RBACAuthorizer` evaluates the rules that a `RuleResolver` returns for a user and a namespace.
`BindingRuleResolver` resolves them from Roles, ClusterRoles and their bindings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from kubewright.apiserver.authentication.user import User

from . import NO_OPINION, AuthorizationAttributes, AuthorizationResult, Decision

RBAC_GROUP = "rbac.authorization.k8s.io"


class PolicyRule(NamedTuple):
    """One `PolicyRule`, prepared for evaluation."""

    verbs: frozenset[str]
    groups: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, rule: Mapping[str, Any]) -> PolicyRule:
        """Parse a `PolicyRule` object."""
        return cls(
            frozenset(rule.get("verbs") or ()),
            frozenset(rule.get("apiGroups") or ()),
            frozenset(rule.get("resources") or ()),
            frozenset(rule.get("resourceNames") or ()),
            frozenset(rule.get("nonResourceURLs") or ()),
        )

    def allows(self, attributes: AuthorizationAttributes) -> bool:
        """Whether this rule alone allows the request."""
        if attributes.verb not in self.verbs and "*" not in self.verbs:
            return False
        if not attributes.resource:
            return any(path_matches(pattern, attributes.path) for pattern in self.paths)
        if attributes.group not in self.groups and "*" not in self.groups:
            return False
        resource, subresource = attributes.resource, attributes.subresource
        wanted = f"{resource}/{subresource}" if subresource else resource
        if (
            wanted not in self.resources
            and "*" not in self.resources
            and not (subresource and f"*/{subresource}" in self.resources)
        ):
            return False
        return not self.names or attributes.name in self.names


def path_matches(pattern: str, path: str) -> bool:
    """Whether a `nonResourceURLs` entry matches a path."""
    return pattern == "*" or pattern == path or (pattern.endswith("*") and path.startswith(pattern[:-1]))


class RuleResolver(Protocol):
    """Resolves the rules of a user."""

    def rules(self, user: User, namespace: str) -> Iterable[tuple[PolicyRule, str]]:
        """Return the rules of a user, cluster-wide and in a namespace, each with the reason for an allowed
        request."""


class RBACAuthorizer:
    """Allows requests that a rule of the user matches; otherwise no opinion."""

    def __init__(self, source: RuleResolver) -> None:
        self.source = source

    async def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationResult:
        """Allow if a rule matches."""
        for rule, granted in self.source.rules(attributes.user, attributes.namespace):
            if rule.allows(attributes):
                return Decision.ALLOW, granted
        return NO_OPINION


def subject_matches(subject: Mapping[str, Any], user: User, namespace: str = "") -> bool:
    """Whether a subject of a binding in `namespace` matches a user."""
    kind, name = subject.get("kind"), subject.get("name")
    if kind == "User":
        return name == user.name
    if kind == "Group":
        return name in user.groups
    if kind == "ServiceAccount":
        where = subject.get("namespace") or namespace
        return bool(where) and user.name == f"system:serviceaccount:{where}:{name}"
    return False


class RoleLister(Protocol):
    """Reads Roles, ClusterRoles and bindings as plain dicts."""

    def cluster_role(self, name: str) -> Mapping[str, Any] | None:
        """Return a ClusterRole."""

    def role(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return a Role."""

    def cluster_role_bindings(self) -> Iterable[Mapping[str, Any]]:
        """Return all ClusterRoleBindings."""

    def role_bindings(self, namespace: str) -> Iterable[Mapping[str, Any]]:
        """Return the RoleBindings of a namespace."""


class BindingRuleResolver:
    """Resolves rules from Roles, ClusterRoles and their bindings."""

    def __init__(self, objects: RoleLister) -> None:
        self.objects = objects

    def rules(self, user: User, namespace: str) -> Iterator[tuple[PolicyRule, str]]:
        """Return cluster-wide rules, then those of the namespace."""
        for binding in self.objects.cluster_role_bindings():
            subject = _first_match(binding, user, "")
            if subject is not None:
                for rule in self.role_rules(binding["roleRef"], ""):
                    yield PolicyRule.parse(rule), _granted("ClusterRoleBinding", binding, "", subject)
        if namespace:
            for binding in self.objects.role_bindings(namespace):
                subject = _first_match(binding, user, namespace)
                if subject is not None:
                    reason = _granted("RoleBinding", binding, namespace, subject)
                    for rule in self.role_rules(binding["roleRef"], namespace):
                        yield PolicyRule.parse(rule)._replace(paths=frozenset()), reason

    def role_rules(self, reference: Mapping[str, Any], namespace: str) -> Iterable[Mapping[str, Any]]:
        """Return the rules of the role of a binding; none if it does not exist."""
        name = reference.get("name") or ""
        role = (
            self.objects.cluster_role(name)
            if reference.get("kind") == "ClusterRole"
            else (self.objects.role(namespace, name) if namespace else None)
        )
        return (role.get("rules") or ()) if role is not None else ()


def _first_match(binding: Mapping[str, Any], user: User, namespace: str) -> Mapping[str, Any] | None:
    for subject in binding.get("subjects") or ():
        if subject_matches(subject, user, namespace):
            found: Mapping[str, Any] = subject
            return found
    return None


def _granted(kind: str, binding: Mapping[str, Any], namespace: str, subject: Mapping[str, Any]) -> str:
    name = binding["metadata"]["name"]
    where = f"{name}/{namespace}" if namespace else name
    reference = binding["roleRef"]
    who = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        who = f"{who}/{subject.get('namespace') or namespace}"
    return (
        f'RBAC: allowed by {kind} "{where}" of {reference.get("kind")} "{reference.get("name")}" '
        f'to {subject.get("kind")} "{who}"'
    )
