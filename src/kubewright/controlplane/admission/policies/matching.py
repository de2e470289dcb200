"""Matching of requests by policies and webhooks: rules, object selectors and namespace selectors.

A rule names operations, groups, versions, resources (`pods`, `pods/status`, `pods/*`, `*/scale`, `*`,
`*/*`) and a scope. With the match policy `Equivalent` a rule for one version of a resource also matches
requests for its other versions; the object is then shown in the version that the rule names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kubewright.api.errors import not_found
from kubewright.api.gvk import GroupResource, GroupVersionResource
from kubewright.api.meta import LabelSelector
from kubewright.api.selectors.label_selectors import Selector, selector_of
from kubewright.apiserver.admission import AdmissionAttributes
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.admission.policies.request_value import is_namespace
from kubewright.controlplane.admission.sources import ObjectSource

from .equivalents import Match, equivalents


def label_selector(value: Any) -> Selector:
    """Parse a LabelSelector; raise `SelectorError`. An empty selector matches everything."""
    return selector_of(msgspec.convert(value, LabelSelector)) if value else _EVERYTHING


_EVERYTHING = selector_of(LabelSelector())


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


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule; every list may contain `*`."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    scope: str
    names: Sequence[str]

    @classmethod
    def of(cls, rule: Mapping[str, Any]) -> Rule:
        """Parse a rule of a webhook or a policy."""
        parts = (name.partition("/") for name in rule.get("resources") or ())
        return cls(
            frozenset(rule.get("operations") or ()),
            frozenset(rule.get("apiGroups") or ()),
            frozenset(rule.get("apiVersions") or ()),
            tuple((resource, subresource) for resource, _, subresource in parts),
            rule.get("scope") or "*",
            rule.get("resourceNames") or (),
        )

    def matches(self, request: AdmissionAttributes, resource: GroupVersionResource) -> bool:
        """Return whether the rule matches a request as if it were for `resource`."""
        return (
            _among(request.operation, self.operations)
            and _among(resource.group, self.groups)
            and _among(resource.version, self.versions)
            and self._in_scope(request, resource)
            and any(
                name in ("*", resource.resource) and part in ("*", request.subresource)
                for name, part in self.resources
            )
            and (not self.names or request.name in self.names)
        )

    def _in_scope(self, request: AdmissionAttributes, resource: GroupVersionResource) -> bool:
        if self.scope == "*":
            return True
        namespaced = bool(request.namespace) and not is_namespace(resource)
        return namespaced == (self.scope == "Namespaced")


def _among(value: str, wanted: frozenset[str]) -> bool:
    return value in wanted or "*" in wanted


def match_rules(request: AdmissionAttributes, rules: Sequence[Rule], *, equivalent: bool) -> Match | None:
    """Return the form in which rules match a request, or `None`."""
    for rule in rules:
        if rule.matches(request, request.resource):
            return Match(request.resource, request.kind)
    others = equivalents(request) if equivalent and rules else ()
    for rule in rules if others else ():
        for other in others:
            if rule.matches(request, other.resource):
                return other
    return None


async def matches(
    informers: ObjectSource, request: AdmissionAttributes, constraints: Mapping[str, Any]
) -> Match | None:
    """Return how `matchConstraints` or `matchResources` match a request, or `None`."""
    if not await selects_namespace(
        label_selector(constraints.get("namespaceSelector")), request, informers
    ) or not selects_object(label_selector(constraints.get("objectSelector")), request):
        return None
    equivalent = constraints.get("matchPolicy") != "Exact"
    excluded = [Rule.of(rule) for rule in constraints.get("excludeResourceRules") or ()]
    if match_rules(request, excluded, equivalent=equivalent) is not None:
        return None
    rules = [Rule.of(rule) for rule in constraints.get("resourceRules") or ()]
    if not rules:
        return Match(request.resource, request.kind)
    return match_rules(request, rules, equivalent=equivalent)


async def selects_namespace(
    selector: Selector, request: AdmissionAttributes, informers: ObjectSource
) -> bool:
    """Return whether a namespaceSelector matches the namespace of a request; raises `NotFound`."""
    if selector.empty:
        return True
    if is_namespace(request.resource):
        if not request.subresource and request.operation in ("CREATE", "UPDATE"):
            return selector.matches(_labels(request.object))
        name = request.name
    elif request.namespace:
        name = request.namespace
    else:
        return True
    namespace = await informers.namespace(name)
    if namespace is None:
        raise not_found(GroupResource("", "namespaces"), name)
    return selector.matches(_labels(namespace))


def selects_object(selector: Selector, request: AdmissionAttributes) -> bool:
    """Return whether an objectSelector matches the object or the old object of a request."""
    if selector.empty:
        return True
    return any(
        obj is not None and selector.matches(_labels(obj)) for obj in (request.object, request.old_object)
    )


def _labels(obj: Object | None) -> dict[str, str]:
    return ((obj or {}).get("metadata") or {}).get("labels") or {}
