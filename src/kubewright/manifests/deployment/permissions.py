"""ServiceAccount, roles and bindings of a deployment.

The manager gets what the program declares, and what leader election and protected metrics require. The roles
`<kind>-admin`, `-editor` and `-viewer` are not used by the manager: administrators bind them to users.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from kubewright.api.declaring.declarations import Rbac
from kubewright.manifests.rbac import DEFAULT_ROLE, build_roles
from kubewright.schema.generation.errors import Problem

from .names import DeploymentNames, Manifest

API_GROUP: Final = "rbac.authorization.k8s.io"
SYSTEM: Final = "system"
"""Namespace of declarations that stands for the namespace of the operator."""
_HELPERS: Final = {
    "admin": ["*"],
    "editor": ["create", "delete", "get", "list", "patch", "update", "watch"],
    "viewer": ["get", "list", "watch"],
}


def service_account(names: DeploymentNames) -> Manifest:
    """Return the ServiceAccount of the manager."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": names.metadata(names.manager)}


def manager_roles(rules: Iterable[Rbac], names: DeploymentNames, problems: list[Problem]) -> list[Manifest]:
    """Return the roles that the program requires, each followed by its binding to the ServiceAccount."""
    placed = [
        replace(
            rule,
            namespace=names.namespace if rule.namespace == SYSTEM else rule.namespace,
            role=names.prefixed(rule.role or DEFAULT_ROLE),
        )
        for rule in rules
    ]
    objects: list[Manifest] = []
    for role in build_roles(placed, names.prefixed(DEFAULT_ROLE), problems):
        role["metadata"]["labels"] = {"app.kubernetes.io/name": names.project}
        objects += [role, bind(role, names)]
    return objects


def metrics_roles(names: DeploymentNames) -> list[Manifest]:
    """Return the role to authenticate and authorize clients of `/metrics`, and the role for these clients."""
    authorization = [
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    ]
    authorizer = _cluster_role(names, f"{names.project}-metrics-auth-role", authorization)
    reader = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    return [
        authorizer,
        bind(authorizer, names),
        _cluster_role(names, f"{names.project}-metrics-reader", reader),
    ]


def helper_roles(definitions: Iterable[Manifest], names: DeploymentNames) -> list[Manifest]:
    """Return the admin, editor and viewer roles of each kind."""
    roles: list[Manifest] = []
    for definition in definitions:
        spec = definition["spec"]
        group, plural = [spec["group"]], spec["names"]["plural"]
        kind = spec["names"]["singular"]
        has_status = any("status" in (each.get("subresources") or {}) for each in spec["versions"])
        for suffix, verbs in _HELPERS.items():
            rules = [{"apiGroups": group, "resources": [plural], "verbs": verbs}]
            if has_status:
                rules.append({"apiGroups": group, "resources": [f"{plural}/status"], "verbs": ["get"]})
            roles.append(_cluster_role(names, f"{names.project}-{kind}-{suffix}-role", rules))
    return roles


def _cluster_role(names: DeploymentNames, name: str, rules: list[Manifest]) -> Manifest:
    return {
        "apiVersion": f"{API_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": names.metadata(name, namespaced=False),
        "rules": rules,
    }


def bind(role: Manifest, names: DeploymentNames) -> Manifest:
    """Return the binding of a role to the ServiceAccount of the manager."""
    metadata, kind = role["metadata"], role["kind"]
    name = f"{metadata['name'].removesuffix('-role')}-rolebinding"
    return {
        "apiVersion": f"{API_GROUP}/v1",
        "kind": f"{kind}Binding",
        "metadata": {**metadata, "name": name},
        "roleRef": {"apiGroup": API_GROUP, "kind": kind, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": names.manager, "namespace": names.namespace}],
    }
