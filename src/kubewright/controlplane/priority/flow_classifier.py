"""Priority and fairness from stored objects: FlowSchemas and PriorityLevelConfigurations.

A request is assigned to the first FlowSchema that matches, by precedence, and so to a priority level and a
flow. The level gets seats in the ratio of its shares; `apiserver.priority.flow_control` gives them to
requests. Responses name the FlowSchema and the level in their headers, as those of kube-apiserver do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kubewright.apiserver.priority.flow_control import EXEMPT, Flow, FlowControl, PriorityLevel
from kubewright.apiserver.resources.objects import Object
from kubewright.text_cache import SHORT

if TYPE_CHECKING:
    from kubewright.apiserver.authentication.user import User
    from kubewright.apiserver.http.request_info import RequestInfo
    from kubewright.cache.stores.store import ObjectChange
    from kubewright.controlplane.informers import Informers


GROUP: Final = "flowcontrol.apiserver.k8s.io"
FLOW_SCHEMA_HEADER: Final = "X-Kubernetes-PF-FlowSchema-UID"
PRIORITY_LEVEL_HEADER: Final = "X-Kubernetes-PF-PriorityLevel-UID"
_ACCOUNT: Final = "system:serviceaccount:"
_MAX_CACHED: Final = 1024


class Classification(NamedTuple):
    """The level and flow of a request, and the headers of its response."""

    flow: Flow
    headers: Mapping[str, str]


_UNCLASSIFIED: Final = Classification(Flow("", ""), {})


class FlowClassifier:
    """Assigns requests; it watches FlowSchemas and PriorityLevelConfigurations."""

    def __init__(self, informers: Informers, seats: int) -> None:
        """`seats` is the number of requests that are processed at the same time."""
        self._total = seats
        self._schemas: dict[str, Object] = {}
        self._levels: dict[str, Object] = {}
        self._sorted: list[Object] | None = None
        self._cached: dict[tuple[Any, ...], Classification] = {}
        self.control = FlowControl({}, lambda user, info: self._classification(user, info).flow)
        """The seats of the levels."""
        informers.add_handler(GROUP, "flowschemas", self._schema_changed)
        informers.add_handler(GROUP, "prioritylevelconfigurations", self._level_changed)

    def _schema_changed(self, change: ObjectChange) -> None:
        if change.type == "DELETED":
            self._schemas.pop(change.name, None)
        else:
            self._schemas[change.name] = change.entry.object
        self._sorted = None
        self._cached.clear()

    def _level_changed(self, change: ObjectChange) -> None:
        if change.type == "DELETED":
            self._levels.pop(change.name, None)
        else:
            self._levels[change.name] = change.entry.object
        self.control.set_levels(priority_levels(list(self._levels.values()), self._total))
        self._sorted = None
        self._cached.clear()

    def headers(self, user: User, info: RequestInfo) -> Mapping[str, str]:
        """Return the headers of a response; empty while no FlowSchema matches."""
        return self._classification(user, info).headers

    def _classification(self, user: User, info: RequestInfo) -> Classification:
        target = (info.group, info.resource, info.subresource, info.namespace) if info.resource else info.path
        key = (user.name, user.groups, info.verb, target)
        found = self._cached.get(key)
        if found is None and len(info.path) > SHORT:
            return self._classify(user, info)
        if found is None:
            if len(self._cached) >= _MAX_CACHED:
                self._cached.clear()
            found = self._cached[key] = self._classify(user, info)
        return found

    def _classify(self, user: User, info: RequestInfo) -> Classification:
        if self._sorted is None:
            known = (each for each in self._schemas.values() if _level(each) in self._levels)
            self._sorted = by_precedence(known)
        schema = matching_schema(self._sorted, user, info)
        if schema is None:
            return _UNCLASSIFIED
        headers = {
            FLOW_SCHEMA_HEADER: schema["metadata"].get("uid") or "",
            PRIORITY_LEVEL_HEADER: self._levels[_level(schema)]["metadata"].get("uid") or "",
        }
        return Classification(flow_of(schema, user, info), headers)


def flow_of(schema: Object, user: User, info: RequestInfo) -> Flow:
    """Return the level and flow of a request that a FlowSchema matches."""
    method = (schema["spec"].get("distinguisherMethod") or {}).get("type")
    flow = {"ByUser": user.name, "ByNamespace": info.namespace}.get(method or "", "")
    name = schema["metadata"]["name"]
    return Flow(_level(schema), f"{name}/{flow}", name)


def priority_levels(objects: Sequence[Object], seats: int) -> dict[str, PriorityLevel]:
    """Return the levels of PriorityLevelConfigurations, with their parts of the seats, rounded up."""
    limits = {
        each["metadata"]["name"]: each["spec"].get("limited") or {}
        for each in objects
        if each["spec"].get("type") == "Limited"
    }
    shares = {name: _number(limit, "nominalConcurrencyShares", 30) for name, limit in limits.items()}
    total = sum(shares.values()) or 1
    levels = {each["metadata"]["name"]: EXEMPT for each in objects if each["spec"].get("type") == "Exempt"}
    for name, limit in limits.items():
        own = -(-seats * shares[name] // total)
        borrowable = limit.get("borrowingLimitPercent")
        levels[name] = PriorityLevel(
            seats=own,
            max_seats=_max_seats(own, limit.get("limitResponse") or {}),
            queue_length=_queue_length(limit.get("limitResponse") or {}),
            lendable=round(own * _number(limit, "lendablePercent", 0) / 100),
            borrowable=None if borrowable is None else round(own * int(borrowable) / 100),
        )
    return levels


def _queue_length(response: Object) -> int:
    """Return the number of requests of one flow that can wait: the queues of a hand together."""
    if response.get("type") != "Queue":
        return 0
    queuing = response.get("queuing") or {}
    return _number(queuing, "queueLengthLimit", 50) * _number(queuing, "handSize", 8)


def _max_seats(seats: int, response: Object) -> int:
    """Return the seats that one request can occupy at most; 0 without a queue, as in kube-apiserver."""
    if response.get("type") != "Queue":
        return 0
    hand = _number(response.get("queuing") or {}, "handSize", 8)
    return max(1, min(-(-seats * 15 // 100), seats // hand))


def _number(fields: Object, name: str, default: int) -> int:
    value = fields.get(name)
    return default if value is None else int(value)


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
