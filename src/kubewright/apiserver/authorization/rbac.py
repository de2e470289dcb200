"""RBAC: which requests a rule allows, and which users a subject of a binding stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kubewright.apiserver.authentication.user import User

from . import AuthorizationAttributes

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
