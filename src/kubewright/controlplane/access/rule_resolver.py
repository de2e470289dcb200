"""RBAC rules of a user, from the informers of Roles and Bindings.

Bindings are indexed by subject. The rules of a user in a namespace are resolved once and cached until any of
the objects changes, so a request costs one lookup and a walk over the few rules of its user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.authorization import AuthorizationAttributes, AuthorizationResult, Decision
from kubewright.apiserver.authorization.rbac import RBAC_GROUP, PolicyRule
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.stored_objects import UndecodableObject

if TYPE_CHECKING:
    from kubewright.cache.informers.informer import Informer
    from kubewright.cache.stores.store import ObjectChange, ObjectKey
    from kubewright.controlplane.informers import Informers

_SERVICE_ACCOUNT = "system:serviceaccount:"
_RESOURCES = ("clusterroles", "roles", "clusterrolebindings", "rolebindings")
_MAX_USERS = 4096


class ResolvedRules(NamedTuple):
    """The rules of a user in a namespace."""

    rules: tuple[tuple[PolicyRule, str, Object], ...]
    """Each rule with the reason shown when it allows a request, and as it is stored."""
    errors: tuple[str, ...]
    """Bindings whose role does not exist."""


class RuleResolver:
    """Resolves the RBAC rules that are in force."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._synced: tuple[Informer, ...] = ()
        self._bindings: dict[str, dict[tuple[str, str], dict[str, Object]]] = {}
        """Bindings by namespace, subject and name."""
        self._subjects: dict[ObjectKey, list[tuple[str, str]]] = {}
        """The subjects under which each binding is indexed."""
        self._known: dict[tuple[str, tuple[str, ...], str], ResolvedRules] = {}
        for plural in ("clusterrolebindings", "rolebindings"):
            informers.add_handler(RBAC_GROUP, plural, self._binding_changed)
        for plural in ("clusterroles", "roles"):
            informers.add_handler(RBAC_GROUP, plural, self._role_changed)

    async def rules_for(self, user: User, namespace: str, *, allow_outdated: bool = False) -> ResolvedRules:
        """Return the user's rules cluster-wide and, if a namespace is given, there.

        Raises `ServiceUnavailable` if the rules may be out of date and that is not allowed.
        """
        if not allow_outdated or self._is_connected or not self._synced:
            await self._wait_until_current()
        key = (user.name, user.groups, namespace)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MAX_USERS:
                self._known.clear()
            found = self._known[key] = self._resolve(user, namespace)
        return found

    async def role(self, reference: Object, namespace: str) -> Object | None:
        """Return the role that a binding refers to."""
        await self._wait_until_current()
        return self._role(reference, namespace)

    @property
    def _is_connected(self) -> bool:
        return self._informers.dispatcher.connected and all(each.is_current for each in self._synced)

    async def _wait_until_current(self) -> None:
        """Wait for acknowledged writes and, after an interruption, until no change in storage is missing.

        A permission that was revoked while storage was unreachable must not be granted afterwards.
        """
        informers = self._informers
        if informers.dispatcher.connected and self._synced:
            for each in self._synced:
                if not each.is_fresh:
                    break
            else:
                return
        await informers.wait_until_current()
        found = [await informers.informer(RBAC_GROUP, plural) for plural in _RESOURCES]
        self._synced = tuple(each for each in found if each is not None)

    def _role_changed(self, change: ObjectChange) -> None:
        self._known.clear()

    def _binding_changed(self, change: ObjectChange) -> None:
        self._known.clear()
        by_subject = self._bindings.setdefault(change.namespace, {})
        for subject in self._subjects.pop(change.key, ()):
            bindings = by_subject.get(subject, {})
            bindings.pop(change.name, None)
            if not bindings:
                by_subject.pop(subject, None)
        if change.type != "DELETED":
            subjects = _subjects(change.entry.object, change.namespace)
            self._subjects[change.key] = subjects
            for subject in subjects:
                by_subject.setdefault(subject, {})[change.name] = change.entry.object
        if not by_subject:
            del self._bindings[change.namespace]

    def _role(self, reference: Object, namespace: str) -> Object | None:
        name = reference.get("name") or ""
        cluster_roles, roles = self._synced[:2]
        if reference.get("kind") == "ClusterRole":
            return cluster_roles.get(name)
        return roles.get(name, namespace=namespace) if namespace else None

    def _resolve(self, user: User, namespace: str) -> ResolvedRules:
        subjects = [("User", user.name), *(("Group", group) for group in user.groups)]
        if user.name.startswith(_SERVICE_ACCOUNT):
            subjects.append(("ServiceAccount", user.name.removeprefix(_SERVICE_ACCOUNT)))
        rules: list[tuple[PolicyRule, str, Object]] = []
        errors: list[str] = []
        for where in ("", namespace) if namespace else ("",):
            by_subject = self._bindings.get(where)
            if not by_subject:
                continue
            matched: dict[str, tuple[Object, tuple[str, str]]] = {}
            for subject in subjects:
                for name, binding in by_subject.get(subject, {}).items():
                    matched.setdefault(name, (binding, subject))
            for name in sorted(matched):
                binding, subject = matched[name]
                reference = binding.get("roleRef") or {}
                try:
                    role = self._role(reference, where)
                except UndecodableObject as error:
                    errors.append(error.message)  # it grants nothing
                    continue
                if role is None:
                    kind = str(reference.get("kind", "")).lower()
                    errors.append(f'{kind}.{RBAC_GROUP} "{reference.get("name", "")}" not found')
                    continue
                reason = _granted_by(name, where, reference, subject)
                for written in role.get("rules") or ():
                    rule = PolicyRule.parse(written)
                    if where and rule.paths:
                        rule = rule._replace(paths=frozenset())
                    rules.append((rule, reason, written))
        return ResolvedRules(tuple(rules), tuple(errors))


def _subjects(binding: Object, namespace: str) -> list[tuple[str, str]]:
    found = []
    for subject in binding.get("subjects") or ():
        kind, name = subject.get("kind"), subject.get("name", "")
        if kind == "ServiceAccount":
            found.append((kind, f"{subject.get('namespace') or namespace}:{name}"))
        else:
            found.append((kind, name))
    return found


def _granted_by(name: str, namespace: str, reference: Object, subject: tuple[str, str]) -> str:
    kind, who = subject
    if kind == "ServiceAccount":
        where, _, account = who.partition(":")
        who = f"{account}/{where}"
    binding, place = ("RoleBinding", f"{name}/{namespace}") if namespace else ("ClusterRoleBinding", name)
    return (
        f'RBAC: allowed by {binding} "{place}" of {reference.get("kind")} "{reference.get("name")}" '
        f'to {kind} "{who}"'
    )


class RBACAuthorizer:
    """Allows requests by RBAC rules, or has no opinion."""

    def __init__(self, rules: RuleResolver) -> None:
        self.rules = rules

    async def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationResult:
        """Allow if any rule does; otherwise report roles that do not exist as the reason."""
        # Health checks and discovery must work while storage is unreachable.
        outdated = not attributes.resource
        resolved = await self.rules.rules_for(attributes.user, attributes.namespace, allow_outdated=outdated)
        for rule, reason, _ in resolved.rules:
            if rule.allows(attributes):
                return Decision.ALLOW, reason
        if not resolved.errors:
            return Decision.NO_OPINION, ""
        errors = list(dict.fromkeys(resolved.errors))
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        return Decision.NO_OPINION, f"RBAC: {text}"
