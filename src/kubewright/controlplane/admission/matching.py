"""Matching of requests by policies: rules, object selectors and namespace selectors.

A rule names operations, groups, versions, resources (`pods`, `pods/status`, `pods/*`, `*/scale`, `*`,
`*/*`) and a scope. With the match policy `Equivalent` a rule for one version of a resource also matches
requests for its other versions; the object is then shown in the version that the rule names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kubewright.api.gvk import GroupVersionResource
from kubewright.api.label_selectors import Selector, selector_of
from kubewright.api.meta import LabelSelector
from kubewright.apiserver.admission import AdmissionAttributes

from .equivalents import Match, equivalents
from .sources import ObjectSource

Object = dict[str, Any]


def label_selector(value: Any) -> Selector:
    """Parse a LabelSelector; raise `SelectorError`. An empty selector matches everything."""
    return selector_of(msgspec.convert(value or {}, LabelSelector))


_EXEMPT = {
    "admissionregistration.k8s.io": (
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    ),
    "authentication.k8s.io": ("selfsubjectreviews", "tokenreviews"),
    "authorization.k8s.io": (
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
    ),
}


def exempt(request: AdmissionAttributes) -> bool:
    """Return whether a request is for a policy, a binding, or an access or token review, which policies must
    not block."""
    return request.resource.resource in _EXEMPT.get(request.resource.group, ())


async def matches(
    informers: ObjectSource, request: AdmissionAttributes, constraints: Mapping[str, Any]
) -> Match | None:
    """Return how `matchConstraints` or `matchResources` match a request, or `None`."""
    if not await _namespace_selected(informers, request, constraints.get("namespaceSelector")):
        return None
    if not _object_selected(request, constraints.get("objectSelector")):
        return None
    policy = constraints.get("matchPolicy") or "Equivalent"
    if _by_rules(request, constraints.get("excludeResourceRules") or (), policy) is not None:
        return None
    rules = constraints.get("resourceRules")
    if not rules:
        return Match(request.resource, request.kind)
    return _by_rules(request, rules, policy)


async def _namespace_selected(informers: ObjectSource, request: AdmissionAttributes, selector: Any) -> bool:
    if not selector:
        return True
    chosen = label_selector(selector)
    if chosen.empty:
        return True
    is_namespace = request.resource.resource == "namespaces" and not request.resource.group
    if is_namespace:
        if request.subresource or request.operation == "DELETE":
            shown = request.old_object or await informers.namespace(request.name)
        else:
            shown = request.object
        return chosen.matches(_labels(shown))
    if not request.namespace:
        return True
    return chosen.matches(_labels(await informers.namespace(request.namespace)))


def _object_selected(request: AdmissionAttributes, selector: Any) -> bool:
    if not selector:
        return True
    chosen = label_selector(selector)
    if chosen.empty:
        return True
    return any(
        obj is not None and chosen.matches(_labels(obj)) for obj in (request.object, request.old_object)
    )


def _labels(obj: Object | None) -> dict[str, str]:
    return ((obj or {}).get("metadata") or {}).get("labels") or {}


def _by_rules(request: AdmissionAttributes, rules: Iterable[Object], policy: str) -> Match | None:
    rules = list(rules)
    for rule in rules:
        if _rule_matches(request, rule, request.resource):
            return Match(request.resource, request.kind)
    if policy != "Equivalent":
        return None
    others = equivalents(request)
    for rule in rules if others else ():
        for other in others:
            if _rule_matches(request, rule, other.resource):
                return other
    return None


def _rule_matches(request: AdmissionAttributes, rule: Object, resource: GroupVersionResource) -> bool:
    return (
        _listed(request.operation, rule.get("operations"))
        and _listed(resource.group, rule.get("apiGroups"))
        and _listed(resource.version, rule.get("apiVersions"))
        and resource_listed(resource.resource, request.subresource, rule.get("resources") or ())
        and _scope_matches(request, rule.get("scope") or "*")
        and (not rule.get("resourceNames") or request.name in rule["resourceNames"])
    )


def _listed(value: str, listed: Iterable[str] | None) -> bool:
    return listed is not None and any(each in ("*", value) for each in listed)


def resource_listed(resource: str, subresource: str, listed: Iterable[str]) -> bool:
    """Return whether the resources of a rule include this one."""
    for each in listed:
        name, _, sub = each.partition("/")
        if name in ("*", resource) and (sub == subresource or sub == "*"):
            return True
    return False


def _scope_matches(request: AdmissionAttributes, scope: str) -> bool:
    namespaced = bool(request.namespace) and not (
        request.resource.resource == "namespaces" and not request.resource.group
    )
    return scope == "*" or (scope == "Namespaced") == namespaced
