"""The webhooks of a server, each parsed once: rules, selectors and address.

`matching(request)` returns whether the rules match a request, and in which version the webhook is called.
With matchPolicy Equivalent, rules for other versions and groups of the same resource match, too.
`HookIndex` derives the webhooks from the informers of their configurations: a configuration is in force for
the first request after its write was acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.selectors.label_selectors import Selector
from kubewright.apiserver.admission import AdmissionAttributes
from kubewright.controlplane.admission.policies.equivalents import Match
from kubewright.controlplane.admission.policies.matching import Rule, label_selector, match_rules

from .client import Target

if TYPE_CHECKING:
    from kubewright.apiserver.resources.objects import Object
    from kubewright.controlplane.admission.sources import ObjectInformer, ObjectSource

_GROUP: Final = "admissionregistration.k8s.io"


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
    conditions: tuple[str, ...]
    """CEL expressions that decide whether it is called."""
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
        return cls(
            key=f"{configuration}/{hook['name']}/{position}",
            name=hook["name"],
            configuration=configuration,
            rules=tuple(Rule.of(rule) for rule in hook.get("rules") or ()),
            equivalent=hook.get("matchPolicy") != "Exact",
            namespaces=label_selector(hook.get("namespaceSelector")),
            objects=label_selector(hook.get("objectSelector")),
            conditions=tuple(each.get("expression") or "" for each in hook.get("matchConditions") or ()),
            target=Target.of(hook.get("clientConfig") or {}),
            ignores_failure=hook.get("failurePolicy") == "Ignore",
            timeout=float(hook.get("timeoutSeconds") or 10),
            dry_runs=hook.get("sideEffects") in ("None", "NoneOnDryRun"),
            review_versions=tuple(hook.get("admissionReviewVersions") or ()),
            reinvocable=hook.get("reinvocationPolicy") == "IfNeeded",
        )

    def matching(self, request: AdmissionAttributes) -> Match | None:
        """Return the form in which the rules match a request, or `None`."""
        return match_rules(request, self.rules, equivalent=self.equivalent)


class HookIndex:
    """Every webhook of one configuration resource, in the order in which they are called."""

    def __init__(self, informers: ObjectSource, plural: str) -> None:
        self._informers = informers
        self._plural = plural
        self._informer: ObjectInformer | None = None
        self._generation = -1
        self._hooks: Sequence[Hook] = ()
        self._parsed: dict[str, tuple[str, Sequence[Hook]]] = {}
        """Webhooks by configuration name, with the resourceVersion they were read from."""

    @property
    def is_empty(self) -> bool:
        """Whether there is certainly no webhook."""
        informer = self._informer
        return (
            not self._hooks
            and informer is not None
            and informer.generation == self._generation
            and informer.is_fresh
        )

    async def hooks(self) -> Sequence[Hook]:
        """Return all webhooks, by the name of their configuration and their position in it."""
        informer = self._informer = await self._informers.informer(_GROUP, self._plural)
        if informer is None:
            return ()
        if informer.generation != self._generation:
            parsed = {}
            for configuration in informer.list():
                metadata = configuration["metadata"]
                known = self._parsed.get(metadata["name"])
                if known is None or known[0] != metadata["resourceVersion"]:
                    known = (metadata["resourceVersion"], _hooks_of(configuration))
                parsed[metadata["name"]] = known
            self._parsed = parsed
            self._hooks = [hook for _, hooks in parsed.values() for hook in hooks]
            self._generation = informer.generation
        return self._hooks


def _hooks_of(configuration: Object) -> list[Hook]:
    name = configuration["metadata"]["name"]
    counts: dict[str, int] = {}
    hooks = []
    for declared in configuration.get("webhooks") or ():
        position = counts.get(declared["name"], 0)
        counts[declared["name"]] = position + 1
        hooks.append(Hook.of(declared, name, position))
    return hooks
