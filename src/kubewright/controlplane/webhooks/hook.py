"""One webhook of a configuration, parsed once: rules, selectors and address.

`matching(request)` returns whether the rules match a request, and in which version the webhook is called.
With matchPolicy Equivalent, rules for other versions and groups of the same resource match, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubewright.api.codec import from_plain
from kubewright.api.gvk import GroupVersionResource
from kubewright.api.label_selectors import Selector, selector_of
from kubewright.api.meta import LabelSelector
from kubewright.apiserver.admission import AdmissionAttributes
from kubewright.controlplane.admission.equivalents import Match, equivalents
from kubewright.controlplane.admission.request_value import is_namespace

from .client import Target
from .conditions import MatchConditions


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule; every list may contain `*`."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    scope: str

    @classmethod
    def of(cls, rule: Mapping[str, Any]) -> Rule:
        """Parse a rule of a webhook or a policy."""
        resources = tuple(
            (parts[0], parts[2]) for parts in ((name.partition("/")) for name in rule.get("resources") or ())
        )
        return cls(
            frozenset(rule.get("operations") or ()),
            frozenset(rule.get("apiGroups") or ()),
            frozenset(rule.get("apiVersions") or ()),
            resources,
            rule.get("scope") or "*",
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
        )

    def _in_scope(self, request: AdmissionAttributes, resource: GroupVersionResource) -> bool:
        if self.scope == "*":
            return True
        namespaced = bool(request.namespace) and not is_namespace(resource)
        return namespaced == (self.scope == "Namespaced")


def _among(value: str, wanted: frozenset[str]) -> bool:
    return value in wanted or "*" in wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A webhook."""

    key: str
    name: str
    configuration: str
    rules: tuple[Rule, ...]
    equivalent: bool
    namespaces: Selector
    objects: Selector
    conditions: MatchConditions | None
    target: Target
    ignores_failure: bool
    timeout: float
    dry_runs: bool
    """Whether the webhook supports dry run."""
    review_versions: Sequence[str]
    reinvocable: bool

    @classmethod
    def of(cls, hook: Mapping[str, Any], configuration: str, position: int) -> Hook:
        """Parse a webhook of a configuration."""
        conditions = hook.get("matchConditions")
        return cls(
            key=f"{configuration}/{hook['name']}/{position}",
            name=hook["name"],
            configuration=configuration,
            rules=tuple(Rule.of(rule) for rule in hook.get("rules") or ()),
            equivalent=hook.get("matchPolicy") != "Exact",
            namespaces=selector_of(from_plain(hook.get("namespaceSelector") or {}, LabelSelector)),
            objects=selector_of(from_plain(hook.get("objectSelector") or {}, LabelSelector)),
            conditions=MatchConditions(conditions) if conditions else None,
            target=Target.of(hook.get("clientConfig") or {}),
            ignores_failure=hook.get("failurePolicy") == "Ignore",
            timeout=float(hook.get("timeoutSeconds") or 10),
            dry_runs=hook.get("sideEffects") in ("None", "NoneOnDryRun"),
            review_versions=tuple(hook.get("admissionReviewVersions") or ()),
            reinvocable=hook.get("reinvocationPolicy") == "IfNeeded",
        )

    def matching(self, request: AdmissionAttributes) -> Match | None:
        """Return the form in which the rules match a request, or `None`."""
        for rule in self.rules:
            if rule.matches(request, request.resource):
                return Match(request.resource, request.kind)
        if not self.equivalent:
            return None
        others = equivalents(request)
        for rule in self.rules if others else ():
            for other in others:
                if rule.matches(request, other.resource):
                    return other
        return None

    def selects_object(self, request: AdmissionAttributes) -> bool:
        """Return whether the objectSelector matches the object or the old object."""
        if self.objects.empty:
            return True
        return any(
            obj is not None and self.objects.matches((obj.get("metadata") or {}).get("labels"))
            for obj in (request.object, request.old_object)
        )
