"""Default priority levels and flow schemas of API priority and fairness.

Objects that the server generates have the annotation `apf.kubernetes.io/autoupdate-spec: "true"`. As in
kube-apiserver, those that a version does not have are deleted at its start.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from kubewright.api.kubernetes_version import KubernetesVersion
from kubewright.apiserver.resources.objects import Object, current_timestamp

_AUTOUPDATE = "apf.kubernetes.io/autoupdate-spec"


def is_generated_flow(obj: Object) -> bool:
    """Whether the server generated a priority level or flow schema, and no user has changed that."""
    return (obj["metadata"].get("annotations") or {}).get(_AUTOUPDATE) == "true"


def _flow_metadata(name: str) -> Object:
    return {"name": name, "generation": 1, "annotations": {_AUTOUPDATE: "true"}}


_LEVELS = {
    "catch-all": (5, 0, None),
    "global-default": (20, 50, (128, 6)),
    "leader-election": (10, 0, (16, 4)),
    "node-high": (40, 25, (64, 6)),
    "system": (30, 33, (64, 6)),
    "workload-high": (40, 50, (128, 6)),
    "workload-low": (100, 90, (128, 6)),
}
"""Priority levels: shares, lendable percentage, and queues with hand size (none: reject)."""


def priority_levels() -> Iterable[Object]:
    """Return the priority levels."""
    exempt = {"nominalConcurrencyShares": 0, "lendablePercent": 0}
    yield {"metadata": _flow_metadata("exempt"), "spec": {"type": "Exempt", "exempt": exempt}, "status": {}}
    for name, (shares, lendable, queues) in _LEVELS.items():
        response: Object = {"type": "Reject"}
        if queues is not None:
            queuing = {"queues": queues[0], "handSize": queues[1], "queueLengthLimit": 50}
            response = {"type": "Queue", "queuing": queuing}
        limited = {"nominalConcurrencyShares": shares, "limitResponse": response, "lendablePercent": lendable}
        yield {
            "metadata": _flow_metadata(name),
            "spec": {"type": "Limited", "limited": limited},
            "status": {},
        }


_EVERYBODY = "g:system:unauthenticated g:system:authenticated"
_CONTROLLERS = "u:system:kube-controller-manager u:system:kube-scheduler s:kube-system/*"
_FlowRule = tuple[str, tuple[str, ...], tuple[str, ...], bool]
_Flow = tuple[str, int, str, str, str, tuple[_FlowRule, ...] | None]
_FLOWS: tuple[_Flow, ...] = (
    ("exempt", 1, "exempt", "", "g:system:masters", None),
    ("probes", 2, "exempt", "", _EVERYBODY, ()),
    (
        "system-leader-election",
        100,
        "leader-election",
        "ByUser",
        _CONTROLLERS,
        (("coordination.k8s.io", ("leases",), ("get", "create", "update"), False),),
    ),
    (
        "system-node-high",
        400,
        "node-high",
        "ByUser",
        "g:system:nodes",
        (
            ("", ("nodes", "nodes/status"), ("*",), True),
            ("coordination.k8s.io", ("leases",), ("*",), False),
        ),
    ),
    ("system-nodes", 500, "system", "ByUser", "g:system:nodes", None),
    (
        "kube-controller-manager",
        800,
        "workload-high",
        "ByNamespace",
        "u:system:kube-controller-manager",
        None,
    ),
    ("kube-scheduler", 800, "workload-high", "ByNamespace", "u:system:kube-scheduler", None),
    ("kube-system-service-accounts", 900, "workload-high", "ByNamespace", "s:kube-system/*", None),
    ("service-accounts", 9000, "workload-low", "ByUser", "g:system:serviceaccounts", None),
    ("global-default", 9900, "global-default", "ByUser", _EVERYBODY, None),
    ("catch-all", 10000, "catch-all", "ByUser", _EVERYBODY, None),
)
"""Flow schemas: name, precedence, level, flow distinguisher, subjects, resource rules (`None`: everything,
`()`: the health paths)."""

_ELECTION = ("get", "create", "update")
_FORMER_FLOWS: dict[str, tuple[_Flow, ...]] = {
    "-1.33": (
        (
            "endpoint-controller",
            150,
            "workload-high",
            "ByUser",
            "u:system:kube-controller-manager s:kube-system/endpoint-controller "
            "s:kube-system/endpointslicemirroring-controller",
            (("", ("endpoints",), _ELECTION, False),),
        ),
        (
            "workload-leader-election",
            200,
            "leader-election",
            "ByUser",
            "s:kube-system/*",
            (
                ("", ("endpoints", "configmaps"), _ELECTION, False),
                ("coordination.k8s.io", ("leases",), _ELECTION, False),
            ),
        ),
    )
}
"""Flow schemas that other versions have, by range of versions."""


def flow_schemas(version: KubernetesVersion) -> Iterable[Object]:
    """Return the flow schemas of a version, by precedence."""
    former = (
        flow for versions, flows in _FORMER_FLOWS.items() if version.includes(versions) for flow in flows
    )
    for name, precedence, level, method, subjects, rules in sorted((*_FLOWS, *former), key=itemgetter(1)):
        rule: Object = {"subjects": [_flow_subject(word) for word in subjects.split()]}
        if rules is None:
            rules = (("*", ("*",), ("*",), True),)
            rule["nonResourceRules"] = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
        elif not rules:
            rule["nonResourceRules"] = [
                {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}
            ]
        if rules:
            rule["resourceRules"] = [
                {
                    "verbs": list(verbs),
                    "apiGroups": [group],
                    "resources": list(resources),
                    **({"clusterScope": True} if cluster else {}),
                    "namespaces": ["*"],
                }
                for group, resources, verbs, cluster in rules
            ]
        spec: Object = {
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": precedence,
            **({"distinguisherMethod": {"type": method}} if method else {}),
            "rules": [rule],
        }
        condition = {
            "type": "Dangling",
            "status": "False",
            "lastTransitionTime": current_timestamp(),
            "reason": "Found",
            "message": f"This FlowSchema references the PriorityLevelConfiguration object named "
            f'"{level}" and it exists',
        }
        yield {"metadata": _flow_metadata(name), "spec": spec, "status": {"conditions": [condition]}}


def _flow_subject(word: str) -> Object:
    letter, _, name = word.partition(":")
    if letter == "s":
        namespace, _, account = name.partition("/")
        return {"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": account}}
    return (
        {"kind": "User", "user": {"name": name}}
        if letter == "u"
        else {"kind": "Group", "group": {"name": name}}
    )
