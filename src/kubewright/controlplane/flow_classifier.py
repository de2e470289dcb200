"""Classification of requests by FlowSchemas, for the headers of priority and fairness.

kube-apiserver tells clients which FlowSchema and priority level a request was assigned to:
`X-Kubernetes-PF-FlowSchema-UID` and `X-Kubernetes-PF-PriorityLevel-UID`. Here the assignment has no other
effect: requests in flight are limited per user (`kubewright.apiserver.limits`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kubewright.apiserver.authentication.user import User
    from kubewright.apiserver.http.request_info import RequestInfo

    from .informers import Informers, ResourceEvent

Object = dict[str, Any]

GROUP: Final = "flowcontrol.apiserver.k8s.io"
FLOW_SCHEMA_HEADER: Final = "X-Kubernetes-PF-FlowSchema-UID"
PRIORITY_LEVEL_HEADER: Final = "X-Kubernetes-PF-PriorityLevel-UID"
_ACCOUNT: Final = "system:serviceaccount:"
_MAX_CACHED: Final = 4096


class FlowClassifier:
    """Finds the FlowSchema of requests; it watches FlowSchemas and PriorityLevelConfigurations."""

    def __init__(self, informers: Informers) -> None:
        self._schemas: dict[str, Object] = {}
        self._levels: dict[str, str] = {}
        self._sorted: list[Object] | None = None
        self._cached: dict[tuple[Any, ...], dict[str, str]] = {}
        informers.add_handler(GROUP, "flowschemas", self._schema_changed)
        informers.add_handler(GROUP, "prioritylevelconfigurations", self._level_changed)

    def _schema_changed(self, event: ResourceEvent) -> None:
        if event.type == "DELETED":
            self._schemas.pop(event.name, None)
        else:
            self._schemas[event.name] = event.object
        self._sorted = None
        self._cached.clear()

    def _level_changed(self, event: ResourceEvent) -> None:
        if event.type == "DELETED":
            self._levels.pop(event.name, None)
        else:
            self._levels[event.name] = event.metadata.uid
        self._sorted = None
        self._cached.clear()

    def headers(self, user: User, info: RequestInfo) -> dict[str, str]:
        """Return the headers of a response; empty while no FlowSchema matches."""
        target = (info.group, info.resource, info.subresource, info.namespace) if info.resource else info.path
        key = (user.name, user.groups, info.verb, target)
        found = self._cached.get(key)
        if found is None:
            if len(self._cached) >= _MAX_CACHED:
                self._cached.clear()
            found = self._cached[key] = self._classify(user, info)
        return found

    def _classify(self, user: User, info: RequestInfo) -> dict[str, str]:
        if self._sorted is None:
            known = (each for each in self._schemas.values() if _level(each) in self._levels)
            self._sorted = by_precedence(known)
        schema = matching_schema(self._sorted, user, info)
        if schema is None:
            return {}
        uid = schema["metadata"].get("uid") or ""
        return {FLOW_SCHEMA_HEADER: uid, PRIORITY_LEVEL_HEADER: self._levels[_level(schema)]}


def by_precedence(schemas: Iterable[Object]) -> list[Object]:
    """Return FlowSchemas in the order in which they are matched."""
    return sorted(schemas, key=_precedence)


def matching_schema(schemas: Iterable[Object], user: User, info: RequestInfo) -> Object | None:
    """Return the first FlowSchema with a rule for a request."""
    for schema in schemas:
        if any(_rule_matches(rule, user, info) for rule in schema["spec"].get("rules") or ()):
            return schema
    return None


def _level(schema: Object) -> str:
    return (schema["spec"].get("priorityLevelConfiguration") or {}).get("name") or ""


def _precedence(schema: Object) -> tuple[int, str]:
    return schema["spec"].get("matchingPrecedence") or 1000, schema["metadata"]["name"]


def _rule_matches(rule: Object, user: User, info: RequestInfo) -> bool:
    if not any(_subject_matches(subject, user) for subject in rule.get("subjects") or ()):
        return False
    if info.resource:
        return any(_resource_matches(each, info) for each in rule.get("resourceRules") or ())
    return any(_path_matches(each, info) for each in rule.get("nonResourceRules") or ())


def _subject_matches(subject: Object, user: User) -> bool:
    kind = subject.get("kind")
    if kind == "User":
        return subject["user"]["name"] in ("*", user.name)
    if kind == "Group":
        name = subject["group"]["name"]
        return name == "*" or name in user.groups
    if kind == "ServiceAccount" and user.name.startswith(_ACCOUNT):
        namespace, _, name = user.name.removeprefix(_ACCOUNT).partition(":")
        account = subject["serviceAccount"]
        return account["namespace"] == namespace and account["name"] in ("*", name)
    return False


def _listed(value: str, listed: Iterable[str] | None) -> bool:
    return any(each in ("*", value) for each in listed or ())


def _resource_matches(rule: Object, info: RequestInfo) -> bool:
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    in_scope = _listed(info.namespace, rule.get("namespaces")) if info.namespace else rule.get("clusterScope")
    return (
        bool(in_scope)
        and _listed(info.verb, rule.get("verbs"))
        and _listed(info.group, rule.get("apiGroups"))
        and _listed(resource, rule.get("resources"))
    )


def _path_matches(rule: Object, info: RequestInfo) -> bool:
    return _listed(info.verb, rule.get("verbs")) and any(
        url in ("*", info.path) or (url.endswith("/*") and info.path.startswith(url[:-1]))
        for url in rule.get("nonResourceURLs") or ()
    )


__all__ = ["FlowClassifier", "by_precedence", "matching_schema"]
