"""The identity of an operator in a plan, and the requests that were denied to it.

The operator sends its requests as a ServiceAccount. Its rules are those that its manifests generate, which a
deployment of this version would create; with `from_cluster` they are those that the source grants already.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubewright.api.declaring.declarations import Rbac
from kubewright.apiserver.authentication.user import AUTHENTICATED, User
from kubewright.explore.runs.trace import TraceEvent
from kubewright.manifests.rbac import build_roles
from kubewright.schema.generation.errors import Problem

from .model import MissingPermission

ROLE = "kubewright-plan"
"""Name of the roles and bindings that are created in the rehearsal."""
_FORBIDDEN = 403


def service_account_user(name: str) -> User:
    """Return the user of `namespace/name`."""
    namespace, _, account = name.partition("/")
    return User(
        f"system:serviceaccount:{namespace}:{account}",
        ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED),
    )


def role_objects(rules: Iterable[Rbac], service_account: str) -> list[dict[str, Any]]:
    """Return the roles of rules, bound to a ServiceAccount."""
    problems: list[Problem] = []
    namespace, _, account = service_account.partition("/")
    objects: list[dict[str, Any]] = []
    for role in build_roles(rules, ROLE, problems):
        metadata = dict(role["metadata"])
        # A placeholder of manifests: the namespace of the operator.
        if metadata.get("namespace") == "system":
            metadata["namespace"] = namespace
        role = {**role, "metadata": {**metadata, "name": f"{ROLE}-{metadata['name']}"}}
        kind = role["kind"]
        objects += [
            role,
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": f"{kind}Binding",
                "metadata": role["metadata"],
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": kind,
                    "name": role["metadata"]["name"],
                },
                "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
            },
        ]
    return objects


def denied_requests(events: Iterable[TraceEvent]) -> list[MissingPermission]:
    """Return the requests of the operator that were denied, each once."""
    found: dict[tuple[str, str], tuple[str, int]] = {}
    for event in events:
        if event.status == _FORBIDDEN and event.kind in ("write", "read", "watch", "event", "lease"):
            verb, _, rest = event.text.partition(" ")
            resource, _, name = rest.partition(" ")
            first, count = found.get((verb, resource), (name, 0))
            found[verb, resource] = first, count + 1
    return [
        MissingPermission(verb=verb, resource=resource, object=name, count=count)
        for (verb, resource), (name, count) in found.items()
    ]
