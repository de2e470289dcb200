"""Privilege escalation prevention: users can grant only permissions that they have.

To write a Role, a user needs every permission in it, or the verb `escalate`. To write a Binding, a user needs
every permission of the role it refers to, or the verb `bind` on that role. `system:masters` is exempt. Rules
are split into single groups, resources, verbs and names for the comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from kubewright.api.errors import APIError, forbidden, not_found
from kubewright.api.gvk import GroupResource
from kubewright.api.values.go_format import quote
from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin, AdmissionRule
from kubewright.apiserver.authentication.user import MASTERS, User
from kubewright.apiserver.authorization import AuthorizationAttributes, Authorizer, Decision
from kubewright.apiserver.authorization.rbac import RBAC_GROUP, PolicyRule, path_matches
from kubewright.apiserver.resources.objects import Object

from .rule_resolver import RuleResolver

_FULL = (
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
)


class EscalationCheck(AdmissionPlugin):
    """Rejects roles and bindings that grant permissions that the user does not have."""

    name = "RBACEscalation"
    mutating = True
    rules = (AdmissionRule(("CREATE", "UPDATE"), RBAC_GROUP, ("*",)),)

    def __init__(self, rules: RuleResolver, authorizer: Authorizer) -> None:
        self._rules = rules
        self._authorizer = authorizer

    def handles(self, request: AdmissionAttributes) -> bool:
        """Handle writes of all users except system:masters."""
        return MASTERS not in request.user.groups

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Check the object; runs after the other mutating plug-ins, as in kube-apiserver."""
        obj, old = request.object, request.old_object
        assert obj is not None
        if old is not None and _only_for_collection(obj, old):
            return False
        if request.resource.resource.endswith("bindings"):
            await self._check_binding(request, obj)
        else:
            await self._check_role(request, obj, old)
        return False

    async def _allowed(
        self, request: AdmissionAttributes, verb: str, group: str, resource: str, name: str
    ) -> bool:
        attributes = AuthorizationAttributes(
            request.user, verb, group, "*", resource, "", request.namespace, name, path=""
        )
        decision, _ = await self._authorizer.authorize(attributes)
        return decision is Decision.ALLOW

    async def _check_role(self, request: AdmissionAttributes, obj: Object, old: Object | None) -> None:
        resource = request.resource.resource
        name = request.name if old is not None else ""
        if await self._allowed(request, "escalate", RBAC_GROUP, resource, name):
            return
        await self._confirm(request, obj, obj.get("rules") or ())
        aggregated = (obj.get("aggregationRule") or {}).get("clusterRoleSelectors")
        if old is not None:
            aggregated = aggregated or (old.get("aggregationRule") or {}).get("clusterRoleSelectors")
        if aggregated and await self._missing(request.user, request.namespace, _FULL):
            raise self._forbidden(
                request, obj, "must have cluster-admin privileges to use the aggregationRule"
            )

    async def _check_binding(self, request: AdmissionAttributes, obj: Object) -> None:
        reference = obj.get("roleRef") or {}
        name, kind = reference.get("name", ""), reference.get("kind", "")
        plural = {"ClusterRole": "clusterroles", "Role": "roles"}.get(kind)
        group = reference.get("apiGroup", "")
        if plural is not None and await self._allowed(request, "bind", group, plural, name):
            return
        if plural is None:
            raise APIError(f"unsupported role reference kind: {quote(kind)}", code=500)
        role = await self._rules.role(reference, request.namespace)
        if role is None:
            raise not_found(GroupResource(RBAC_GROUP, request.resource.resource), name)
        await self._confirm(request, obj, role.get("rules") or ())

    async def _confirm(self, request: AdmissionAttributes, obj: Object, wanted: Iterable[Object]) -> None:
        missing = await self._missing(request.user, request.namespace, wanted)
        if missing:
            groups = " ".join(quote(group) for group in request.user.groups)
            listed = "\n".join(sorted({_compact(rule) for rule in _combined(missing)}))
            raise self._forbidden(
                request,
                obj,
                f"user {quote(request.user.name)} (groups=[{groups}]) is attempting to grant RBAC "
                f"permissions not currently held:\n{listed}",
            )

    async def _missing(self, user: User, namespace: str, wanted: Iterable[Object]) -> list[Object]:
        owned = [rule for rule, _, _ in (await self._rules.rules_for(user, namespace)).rules]
        pieces = [piece for rule in wanted for piece in _pieces(rule)]
        return [piece for piece in pieces if not any(covers(rule, piece) for rule in owned)]

    def _forbidden(self, request: AdmissionAttributes, obj: Object, why: str) -> APIError:
        name = (obj.get("metadata") or {}).get("name") or ""
        return forbidden(GroupResource(RBAC_GROUP, request.resource.resource), name, why)


def _only_for_collection(obj: Object, old: Object) -> bool:
    """Whether only owner references and finalizers differ, which the garbage collector changes."""

    def rest(value: Object) -> Object:
        metadata = {
            key: item
            for key, item in value["metadata"].items()
            if key not in ("ownerReferences", "finalizers", "managedFields", "resourceVersion")
        }
        return {**value, "metadata": metadata}

    return rest(obj) == rest(old)


def _pieces(rule: Object) -> Iterator[Object]:
    names = rule.get("resourceNames") or ()
    for group, resource, verb in product(
        rule.get("apiGroups") or (), rule.get("resources") or (), rule.get("verbs") or ()
    ):
        piece = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        if not names:
            yield piece
        for name in names:
            yield {**piece, "resourceNames": [name]}
    for path, verb in product(rule.get("nonResourceURLs") or (), rule.get("verbs") or ()):
        yield {"nonResourceURLs": [path], "verbs": [verb]}


def covers(owned: PolicyRule, piece: Object) -> bool:
    """Whether a rule grants everything that a single-verb rule grants."""
    if piece["verbs"][0] not in owned.verbs and "*" not in owned.verbs:
        return False
    path = piece.get("nonResourceURLs")
    if path:
        return any(path_matches(pattern, path[0]) for pattern in owned.paths)
    if piece["apiGroups"][0] not in owned.groups and "*" not in owned.groups:
        return False
    resource = piece["resources"][0]
    _, slash, subresource = resource.partition("/")
    if (
        resource not in owned.resources
        and "*" not in owned.resources
        and not (slash and f"*/{subresource}" in owned.resources)
    ):
        return False
    names = piece.get("resourceNames")
    return not owned.names or (names is not None and names[0] in owned.names)


def _combined(pieces: list[Object]) -> Iterator[Object]:
    """Combine rules that differ only by verb."""
    found: dict[tuple[str, str, str | None], Object] = {}
    for piece in pieces:
        if "nonResourceURLs" in piece:
            yield piece
            continue
        names = piece.get("resourceNames")
        key = (piece["apiGroups"][0], piece["resources"][0], names[0] if names else None)
        if key in found:
            found[key]["verbs"].append(piece["verbs"][0])
        else:
            found[key] = {**piece, "verbs": list(piece["verbs"])}
    yield from found.values()


_SHOWN = (
    ("APIGroups", "apiGroups"),
    ("Resources", "resources"),
    ("NonResourceURLs", "nonResourceURLs"),
    ("ResourceNames", "resourceNames"),
    ("Verbs", "verbs"),
)


def _compact(rule: Object) -> str:
    parts = [
        f"{title}:[{' '.join(quote(value) for value in rule[field])}]"
        for title, field in _SHOWN
        if rule.get(field)
    ]
    return "{" + ", ".join(parts) + "}"
