"""RBAC: the graph of subjects, bindings and roles, and the rules that allow or deny a request.

Rules are evaluated with the RBAC authorizer of `kubewright.apiserver`. The result of the cluster's own
SubjectAccessReview takes precedence, because a cluster can have other authorizers.

A user who is not allowed to read roles or bindings still gets a decision for its own requests (with a
SelfSubjectAccessReview) and its own rules (with a SelfSubjectRulesReview). What is not readable is named in
`unreadable`; what would depend on it is unknown, not denied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.encoding.codec import loads
from kubewright.api.errors import APIError
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.unstructured import Unstructured
from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.authorization import AuthorizationAttributes
from kubewright.apiserver.authorization.rbac import RBAC_GROUP, PolicyRule, subject_matches
from kubewright.client.errors import NoKindMatch

from .responses import RequestError

if TYPE_CHECKING:
    from kubewright.client import Client

MAX_NEAREST: Final = 10
_RULE_FIELDS: Final = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
_AUTHENTICATED: Final = "system:authenticated"
_UNAUTHENTICATED: Final = "system:unauthenticated"


class AccessRules:
    """The roles and bindings of a cluster at one moment."""

    def __init__(
        self,
        roles: Iterable[dict[str, Any]],
        bindings: Iterable[dict[str, Any]],
        unreadable: Iterable[str] = (),
    ) -> None:
        self._roles = {_id(each): each for each in roles}
        self._bindings = list(bindings)
        self.unreadable = list(unreadable)
        """Kinds that the user of the client is not allowed to list."""

    @classmethod
    async def read(cls, client: Client) -> AccessRules:
        """Read roles and bindings, as far as the user of the client is allowed to."""
        kinds = ("ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding")
        lists = await asyncio.gather(*(_list(client, kind) for kind in kinds))
        unreadable = [kind for kind, found in zip(kinds, lists, strict=True) if found is None]
        roles, more_roles, bindings, more_bindings = (each or [] for each in lists)
        return cls([*roles, *more_roles], [*bindings, *more_bindings], unreadable)

    def graph(self, *, namespace: str = "", subject: str = "", system: bool = False) -> dict[str, Any]:
        """Return subjects, bindings and the bound roles, optionally of one namespace or subject."""
        subjects: dict[str, dict[str, Any]] = {}
        bindings: list[dict[str, Any]] = []
        roles: dict[str, dict[str, Any]] = {}
        for binding in self._bindings:
            space, name = _namespace(binding), binding["metadata"]["name"]
            if namespace and space not in ("", namespace):
                continue
            if not system and name.startswith("system:"):
                continue
            found = [_subject(each, space) for each in binding.get("subjects") or ()]
            if not system:
                found = [each for each in found if not each["name"].startswith("system:")]
            if subject:
                found = [each for each in found if subject in (each["id"], each["name"])]
            if not found:
                continue
            subjects.update({each["id"]: each for each in found})
            role = _role_id(binding)
            roles[role] = self._describe_role(role)
            bindings.append(
                {
                    "id": _id(binding),
                    "kind": binding["kind"],
                    "namespace": space,
                    "name": name,
                    "subjects": [each["id"] for each in found],
                    "role": role,
                }
            )
        return {"subjects": list(subjects.values()), "bindings": bindings, "roles": list(roles.values())}

    def _describe_role(self, identifier: str) -> dict[str, Any]:
        role = self._roles.get(identifier)
        kind, _, rest = identifier.partition("/")
        namespace, _, name = rest.rpartition("/") if kind == "Role" else ("", "", rest)
        rules = (role.get("rules") or []) if role is not None else []
        return {
            "id": identifier,
            "kind": kind,
            "namespace": namespace,
            "name": name,
            "rules": [_rule(each) for each in rules],
            "missing": role is None and kind not in self.unreadable,
            "unreadable": role is None and kind in self.unreadable,
            "aggregated": bool(role and role.get("aggregationRule")),
        }

    def explain(self, attributes: AuthorizationAttributes) -> dict[str, Any]:
        """Return the rules that allow a request, the closest other rules, and the bindings of the user."""
        allowed: list[dict[str, Any]] = []
        nearest: list[dict[str, Any]] = []
        applicable: list[str] = []
        for binding in self._bindings_of(attributes.user, attributes.namespace):
            role = _role_id(binding)
            applicable.append(_id(binding))
            found = self._roles.get(role)
            for index, rule in enumerate((found or {}).get("rules") or ()):
                parsed = PolicyRule.parse(rule)
                if _namespace(binding):
                    parsed = parsed._replace(paths=frozenset())
                where = {"binding": _id(binding), "role": role, "index": index, "rule": _rule(rule)}
                if parsed.allows(attributes):
                    allowed.append(where)
                elif differs := _differences(parsed, attributes):
                    nearest.append({**where, "differs": differs})
        nearest.sort(key=lambda each: len(each["differs"]))
        return {"rules": allowed, "nearest": nearest[:MAX_NEAREST], "bindings": applicable}

    def _bindings_of(self, user: User, namespace: str) -> Iterator[dict[str, Any]]:
        for binding in self._bindings:
            space = _namespace(binding)
            if space and space != namespace:
                continue
            if any(subject_matches(each, user, space) for each in binding.get("subjects") or ()):
                yield binding


async def explain_access(client: Client, question: Any) -> dict[str, Any]:
    """Return whether a user may send a request, and why.

    `allowed` is `None` if it is unknown: the cluster was not willing to review the request, and not all
    rules are readable.
    """
    attributes = parse_question(question)
    rules = await AccessRules.read(client)
    explanation = rules.explain(attributes)
    review = await _review(client, attributes) or await _review_own(client, attributes)
    allowed: bool | None = bool(explanation["rules"]) or (None if rules.unreadable else False)
    reason = ""
    if review is not None:
        allowed = bool(review["allowed"])
        reason = str(review.get("reason") or review.get("evaluationError") or "")
    if not reason and allowed:
        reason = _reason(explanation)
    if not reason and not allowed:
        reason = "no RBAC rule of the user allows the request"
        if rules.unreadable:
            reason = f"the user of the dashboard is not allowed to list {', '.join(rules.unreadable)}"
    return {
        "allowed": allowed,
        "reason": reason,
        "source": "rbac" if review is None else "cluster",
        "unreadable": rules.unreadable,
        **explanation,
        "advice": _advice(attributes, explanation) if allowed is False else "",
    }


async def own_rules(client: Client, namespace: str) -> dict[str, Any]:
    """Return what the user of the client is allowed to do in a namespace, as its API server reports it."""
    spec = {"namespace": namespace or client.options.namespace or "default"}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": spec}
    review = await client.create(Unstructured(body))
    status: dict[str, Any] = review.raw.get("status") or {}
    found = [*(status.get("resourceRules") or ()), *(status.get("nonResourceRules") or ())]
    return {
        "namespace": spec["namespace"],
        "rules": [_rule(each) for each in found],
        "incomplete": bool(status.get("incomplete")),
        "error": status.get("evaluationError") or "",
    }


def parse_question(question: Any) -> AuthorizationAttributes:
    """Return the attributes of a question; raises `RequestError` if it is incomplete."""
    if not isinstance(question, dict):
        raise RequestError(400, "expected a JSON object with user, verb and resource or path")
    texts = ("user", "verb", "group", "resource", "subresource", "namespace", "name", "path")
    values = {name: question.get(name) or "" for name in texts}
    groups = question.get("groups") or []
    wrong = [name for name, value in values.items() if not isinstance(value, str)]
    if wrong or not isinstance(groups, list) or not all(isinstance(each, str) for each in groups):
        raise RequestError(400, f"expected text in {', '.join(wrong) or 'groups'}")
    if not values["user"] or not values["verb"] or not (values["resource"] or values["path"]):
        raise RequestError(400, "user, verb and resource or path are required")
    return AuthorizationAttributes(
        user=User(values["user"], _groups(values["user"], groups)),
        verb=values["verb"].lower() if values["verb"] != "*" else "*",
        group=values["group"],
        resource=values["resource"],
        subresource=values["subresource"],
        namespace=values["namespace"],
        name=values["name"],
        path=values["path"],
    )


def _groups(user: str, groups: Iterable[str]) -> tuple[str, ...]:
    """Add the groups that an API server adds to an authenticated user."""
    added = [_UNAUTHENTICATED if user == "system:anonymous" else _AUTHENTICATED]
    parts = user.split(":")
    if user.startswith("system:serviceaccount:") and len(parts) == 4:
        added += ["system:serviceaccounts", f"system:serviceaccounts:{parts[2]}"]
    return tuple(dict.fromkeys([*groups, *added]))


async def _review(client: Client, attributes: AuthorizationAttributes) -> dict[str, Any] | None:
    """Return the status of a SubjectAccessReview, or `None` if this user may not create one."""
    spec = {
        "user": attributes.user.name,
        "groups": list(attributes.user.groups),
        **_attributes(attributes),
    }
    return await _create_review(client, "SubjectAccessReview", spec)


async def _review_own(client: Client, attributes: AuthorizationAttributes) -> dict[str, Any] | None:
    """Return the status of a SelfSubjectAccessReview if the question is about the user of the client."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        review = await client.create(Unstructured(body))
    except (APIError, NoKindMatch):
        return None
    user = (review.raw.get("status") or {}).get("userInfo") or {}
    if user.get("username") != attributes.user.name:
        return None
    return await _create_review(client, "SelfSubjectAccessReview", _attributes(attributes))


def _attributes(attributes: AuthorizationAttributes) -> dict[str, Any]:
    if not attributes.resource:
        return {"nonResourceAttributes": {"verb": attributes.verb, "path": attributes.path}}
    return {
        "resourceAttributes": {
            "verb": attributes.verb,
            "group": attributes.group,
            "resource": attributes.resource,
            "subresource": attributes.subresource,
            "namespace": attributes.namespace,
            "name": attributes.name,
        }
    }


async def _create_review(client: Client, kind: str, spec: dict[str, Any]) -> dict[str, Any] | None:
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    try:
        review = await client.create(Unstructured(body))
    except APIError as error:
        if error.status_code in (403, 404, 405):
            return None
        raise
    status: dict[str, Any] = review.raw.get("status") or {}
    return {"allowed": False, **status}


def _differences(rule: PolicyRule, attributes: AuthorizationAttributes) -> list[str]:
    """Return what a rule would have to include; empty if nothing of it matches."""
    verb = attributes.verb in rule.verbs or "*" in rule.verbs
    if not attributes.resource:
        return ["verb"] if not verb and _allows(rule, attributes) else []
    group = attributes.group in rule.groups or "*" in rule.groups
    wanted = attributes.resource + (f"/{attributes.subresource}" if attributes.subresource else "")
    resource = wanted in rule.resources or "*" in rule.resources
    name = not rule.names or attributes.name in rule.names
    parts = (("verb", verb), ("group", group), ("resource", resource), ("name", name))
    differs = [part for part, matches in parts if not matches]
    concerns = (group and resource) or (group and verb and attributes.resource in rule.resources)
    return differs if concerns else []


def _allows(rule: PolicyRule, attributes: AuthorizationAttributes) -> bool:
    return rule._replace(verbs=frozenset("*")).allows(attributes)


def _reason(explanation: dict[str, Any]) -> str:
    first = explanation["rules"][0] if explanation["rules"] else None
    return f"allowed by {first['binding']} of {first['role']}" if first is not None else ""


def _advice(attributes: AuthorizationAttributes, explanation: dict[str, Any]) -> str:
    if not attributes.resource:
        return f"bind a ClusterRole with verbs [{attributes.verb}] and nonResourceURLs [{attributes.path}]"
    what = attributes.resource + (f"/{attributes.subresource}" if attributes.subresource else "")
    rule = f'apiGroups ["{attributes.group}"], resources ["{what}"], verbs ["{attributes.verb}"]'
    role = f"a Role in {attributes.namespace}" if attributes.namespace else "a ClusterRole"
    if explanation["nearest"]:
        nearest = explanation["nearest"][0]
        return f"add to {nearest['role']}, or to {role} bound to the user: {rule}"
    return f"bind {role} to the user with a rule: {rule}"


async def _list(client: Client, kind: str) -> list[dict[str, Any]] | None:
    """Return the objects of a kind, or `None` if the user is not allowed to list them."""
    gvk = GroupVersionKind(RBAC_GROUP, "v1", kind)
    try:
        page = await client.list_raw(gvk)
    except APIError as error:
        if error.status_code == 403:
            return None
        raise
    return [{**loads(bytes(item)), "kind": kind} for item in page.items]


def _namespace(obj: Mapping[str, Any]) -> str:
    return obj["metadata"].get("namespace") or ""


def _id(obj: Mapping[str, Any]) -> str:
    parts = (obj["kind"], _namespace(obj), obj["metadata"]["name"])
    return "/".join(part for part in parts if part)


def _role_id(binding: Mapping[str, Any]) -> str:
    reference = binding.get("roleRef") or {}
    kind, name = reference.get("kind", ""), reference.get("name", "")
    return f"Role/{_namespace(binding)}/{name}" if kind == "Role" else f"{kind}/{name}"


def _subject(subject: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    kind, name = subject.get("kind") or "", subject.get("name") or ""
    space = (subject.get("namespace") or namespace) if kind == "ServiceAccount" else ""
    identifier = "/".join(part for part in (kind, space, name) if part)
    return {"id": identifier, "kind": kind, "namespace": space, "name": name}


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    return {field: list(rule.get(field) or ()) for field in _RULE_FIELDS}
