"""Generate roles from declared permissions.

Rules of a role are merged without granting more: verbs of equal targets first, then resources, groups and
URLs of equal verbs. Everything is sorted, so the result does not depend on the order of declarations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from kubewright.api.declaring.declarations import Rbac
from kubewright.schema.generation.errors import DeclarationError, Problem

Manifest = dict[str, Any]
DEFAULT_ROLE = "manager-role"


@dataclass(frozen=True)
class _Rule:
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    names: tuple[str, ...]
    urls: tuple[str, ...]
    verbs: tuple[str, ...]


def roles(rules: Iterable[Rbac], name: str = DEFAULT_ROLE) -> list[Manifest]:
    """Return a ClusterRole and Roles for the rules; raise `DeclarationError` with all problems."""
    problems: list[Problem] = []
    built = build_roles(rules, name, problems)
    if problems:
        raise DeclarationError(problems)
    return built


def build_roles(rules: Iterable[Rbac], name: str, problems: list[Problem]) -> list[Manifest]:
    """Return roles sorted by namespace and name; errors are added to `problems`."""
    by_role: dict[tuple[str, str], list[_Rule]] = {}
    for rule in rules:
        problems.extend(Problem(rule.where, "Rbac", text) for text in _rule_errors(rule))
        groups = _sorted("" if group == "core" else group for group in rule.groups)
        verbs, names, urls = _sorted(rule.verbs), _sorted(rule.resource_names), _sorted(rule.urls)
        single: list[tuple[str, ...]] = [(resource,) for resource in rule.resources] or [()]
        by_role.setdefault((rule.namespace, rule.role or name), []).extend(
            _Rule(groups, resources, names, urls, verbs) for resources in single
        )
    return [_role(namespace, role, by_role[namespace, role]) for namespace, role in sorted(by_role)]


def build_bindings(rules: Iterable[Rbac], name: str) -> list[Manifest]:
    """Return RoleBindings of the Roles of rules with a service account, sorted by namespace and name."""
    accounts: dict[tuple[str, str], list[str]] = {}
    for rule in rules:
        if rule.namespace and rule.service_account:
            accounts.setdefault((rule.namespace, rule.role or name), []).append(rule.service_account)
    return [
        _binding(namespace, role, list(dict.fromkeys(found)))
        for (namespace, role), found in sorted(accounts.items())
    ]


def _binding(namespace: str, role: str, accounts: list[str]) -> Manifest:
    subjects = [account.partition("/") for account in accounts]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": role, "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
        "subjects": [
            {"kind": "ServiceAccount", "name": account, "namespace": home} for home, _, account in subjects
        ],
    }


def _rule_errors(rule: Rbac) -> Iterable[str]:
    for field in ("groups", "resources", "verbs", "resource_names", "urls"):
        if isinstance(getattr(rule, field), str):
            yield f'{field} is a string; write a tuple, {field}=("{getattr(rule, field)}",)'
    if not rule.verbs:
        yield 'has no verbs; write verbs=("get", "list", "watch")'
    if not rule.resources and not rule.urls:
        yield "has no resources and no URLs; write groups= and resources=, or urls="
    if rule.resources and not rule.groups:
        yield 'has resources but no groups; write groups=("core",) for the core group'
    if rule.urls and rule.namespace:
        yield "URLs cannot be part of a Role; remove namespace= or urls="
    if rule.service_account and not rule.namespace:
        yield "service_account= is for Roles; write namespace= as well"
    if rule.service_account and not re.fullmatch("[^/]+/[^/]+", rule.service_account):
        yield f"service_account {rule.service_account!r} is not of the form namespace/name"
    if rule.resource_names and "create" in rule.verbs:
        yield "create cannot be restricted by resource_names; split the rule"


def _sorted(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(words)))


def _role(namespace: str, name: str, rules: list[_Rule]) -> Manifest:
    for joined in ("verbs", "resources", "groups", "urls"):
        rules = _join(rules, joined)
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role" if namespace else "ClusterRole",
        "metadata": metadata,
        "rules": [_policy_rule(rule) for rule in sorted(rules, key=_order)],
    }


def _join(rules: list[_Rule], field: str) -> list[_Rule]:
    """Merge rules that differ only in `field`."""
    merged: dict[_Rule, set[str]] = {}
    for rule in rules:
        merged.setdefault(replace(rule, **{field: ()}), set()).update(getattr(rule, field))
    return [replace(rule, **{field: tuple(sorted(words))}) for rule, words in merged.items()]


def _order(rule: _Rule) -> str:
    parts = (rule.groups, rule.resources, rule.names, rule.urls, rule.verbs)
    return " + ".join("&".join(words) for words in parts)


def _policy_rule(rule: _Rule) -> Manifest:
    policy: Manifest = {}
    for field, words in (
        ("apiGroups", rule.groups),
        ("nonResourceURLs", rule.urls),
        ("resourceNames", rule.names),
        ("resources", rule.resources),
        ("verbs", ("*",) if "*" in rule.verbs else rule.verbs),
    ):
        if words:
            policy[field] = list(words)
    return policy
