"""RBAC rules of a user, from the stored Roles and Bindings.

The four kinds are read once, at the first question, and then followed through their hubs. Bindings are
indexed by subject; the rules of a user in a namespace are worked out once and kept until any of the objects
changes, so a request costs one look-up and a walk over the few rules that concern its user.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import msgspec

from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.authorization import AuthorizationAttributes, AuthorizationResult, Decision
from kubewright.apiserver.authorization.rbac import RBAC_GROUP, PolicyRule, path_matches
from kubewright.apiserver.server import APIServer
from kubewright.apiserver.watch.cache import WatchCacheEvent
from kubewright.storage.local import LocalStorage

Object = dict[str, Any]
_SERVICE_ACCOUNT = "system:serviceaccount:"
_KINDS = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
_MAX_USERS = 4096
_decode = msgspec.json.decode


class ResolvedRules(NamedTuple):
    """Everything that applies to a user in a namespace."""

    rules: tuple[tuple[PolicyRule, str, Object], ...]
    """Each rule with the reason shown when it allows a request, and as it is stored."""
    errors: tuple[str, ...]
    """Bindings whose role does not exist."""


class RuleResolver:
    """The rules that are in force."""

    def __init__(self, server: APIServer) -> None:
        self._server = server
        self._objects: dict[str, dict[tuple[str, str], Object]] | None = None
        self._bindings: dict[str, dict[tuple[str, str], dict[str, Object]]] = {}
        self._known: dict[tuple[str, tuple[str, ...], str], ResolvedRules] = {}
        self._local = isinstance(server.storage, LocalStorage)

    async def rules_for(self, user: User, namespace: str) -> ResolvedRules:
        """The user's rules cluster-wide and, if a namespace is given, there."""
        if self._objects is None:
            await self._load()
        elif self._local and await self._server.storage.revision() > self._server.dispatcher.revision:
            # What was written just now is on its way through the feed.
            await asyncio.sleep(0)
        key = (user.name, user.groups, namespace)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MAX_USERS:
                self._known.clear()
            found = self._known[key] = self._work_out(user, namespace)
        return found

    async def role(self, reference: Object, namespace: str) -> Object | None:
        """The role that a binding refers to."""
        if self._objects is None:
            await self._load()
        return self._role(reference, namespace)

    async def _load(self) -> None:
        objects: dict[str, dict[tuple[str, str], Object]] = {}
        for plural in _KINDS:
            store = self._server.store(RBAC_GROUP, plural)
            assert store is not None
            found = objects[plural] = {}
            page = await store.storage.list(store.prefix)
            for item in page.items:
                namespace, _, name = item.key[len(store.prefix) :].rpartition("/")
                found[namespace, name] = _decode(item.value)
            follow = self._follower(plural)
            if follow not in store.watch_cache.listeners:
                store.watch_cache.listeners.append(follow)
        self._objects = objects
        self._bindings = {}
        for plural in ("clusterrolebindings", "rolebindings"):
            for (namespace, name), binding in objects[plural].items():
                self._index(namespace, name, binding)

    def _follower(self, plural: str) -> Any:
        def follow(change: WatchCacheEvent) -> None:
            if self._objects is None:
                return
            key = (change.namespace, change.name)
            objects = self._objects[plural]
            if plural.endswith("bindings"):
                old = objects.get(key)
                if old is not None:
                    for subject in _subjects(old, change.namespace):
                        self._bindings.get(change.namespace, {}).get(subject, {}).pop(change.name, None)
            if change.event.value is None:
                objects.pop(key, None)
            else:
                objects[key] = _decode(change.event.value)
                if plural.endswith("bindings"):
                    self._index(change.namespace, change.name, objects[key])
            self._known.clear()

        return follow

    def _index(self, namespace: str, name: str, binding: Object) -> None:
        by_subject = self._bindings.setdefault(namespace, {})
        for subject in _subjects(binding, namespace):
            by_subject.setdefault(subject, {})[name] = binding

    def _role(self, reference: Object, namespace: str) -> Object | None:
        assert self._objects is not None
        name = reference.get("name") or ""
        if reference.get("kind") == "ClusterRole":
            return self._objects["clusterroles"].get(("", name))
        return self._objects["roles"].get((namespace, name)) if namespace else None

    def _work_out(self, user: User, namespace: str) -> ResolvedRules:
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
                role = self._role(reference, where)
                if role is None:
                    kind = str(reference.get("kind", "")).lower()
                    errors.append(f'{kind}.{RBAC_GROUP} "{reference.get("name", "")}" not found')
                    continue
                words = _granted_by(name, where, reference, subject)
                for written in role.get("rules") or ():
                    rule = PolicyRule.parse(written)
                    if where and rule.paths:
                        rule = rule._replace(paths=frozenset())
                    rules.append((rule, words, written))
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
    """RBAC: allows, or has no opinion."""

    def __init__(self, rules: RuleResolver) -> None:
        self.rules = rules

    async def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationResult:
        """Allow if any rule does; a role that is missing is the reason why not."""
        resolved = await self.rules.rules_for(attributes.user, attributes.namespace)
        for rule, words, _ in resolved.rules:
            if rule.allows(attributes):
                return Decision.ALLOW, words
        if not resolved.errors:
            return Decision.NO_OPINION, ""
        errors = list(dict.fromkeys(resolved.errors))
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        return Decision.NO_OPINION, f"RBAC: {text}"


__all__ = ["RBACAuthorizer", "ResolvedRules", "RuleResolver", "path_matches"]
