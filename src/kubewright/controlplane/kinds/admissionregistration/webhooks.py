"""ValidatingWebhookConfiguration and MutatingWebhookConfiguration."""

from __future__ import annotations

from typing import Any

from kubewright.api.values.names import check_dns_1035_label, check_dns_subdomain
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.core.podspec.scheduling import selector_errors
from kubewright.controlplane.kinds.defaults import Defaults
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, column, counted
from kubewright.controlplane.kinds.validation import (
    Check,
    Entry,
    Enum,
    Errors,
    Range,
    Required,
    Rules,
    Unique,
)
from kubewright.controlplane.kinds.validation.formats import named
from kubewright.schema import field_errors as fe
from kubewright.schema.crd.conversion import webhook_service_errors, webhook_url_errors

from .matching import (
    FAILURE_POLICY,
    MATCH_CONDITIONS,
    MATCH_POLICY,
    REINVOCATION_POLICY,
    RULE,
    match_defaults,
    reserve_static_names,
)

SIDE_EFFECTS = Enum("None", "NoneOnDryRun")
_ALL_SIDE_EFFECTS = Enum("None", "NoneOnDryRun", "Some", "Unknown")
REVIEW_VERSIONS = ("v1", "v1beta1")

DEFAULTS = {
    "webhooks[*].failurePolicy": "Fail",
    **match_defaults("webhooks[*]", "rules"),
    "webhooks[*].timeoutSeconds": 10,
    "webhooks[*].clientConfig.service.port": 443,
}


class _Tolerance:
    """Errors that the old configuration already has, which an update does not report."""

    def __init__(self, hooks: list[Object], before: list[Object] | None) -> None:
        self.side_effects = self.repeated_names = self.review_versions = self.conditions = False
        if before is None:
            return
        names = [hook.get("name") for hook in before]
        self.repeated_names = len(set(names)) < len(names)
        self.side_effects = any(hook.get("sideEffects") not in SIDE_EFFECTS.values for hook in before)
        self.review_versions = any(
            hook.get("admissionReviewVersions")
            and not set(hook["admissionReviewVersions"]) & set(REVIEW_VERSIONS)
            for hook in before
        )
        self.conditions = [hook.get("matchConditions") for hook in hooks] == [
            hook.get("matchConditions") for hook in before
        ]


def _name_errors(name: str, path: str) -> Errors:
    messages = check_dns_subdomain(name)
    if messages:
        return [fe.invalid(path, name, ",".join(messages))]
    if name.count(".") < 2:
        return [fe.invalid(path, name, "should be a domain with at least three segments separated by dots")]
    return []


def _side_effects_errors(hook: Object, path: str, tolerance: _Tolerance) -> Errors:
    allowed = _ALL_SIDE_EFFECTS if tolerance.side_effects else SIDE_EFFECTS
    value, path = hook.get("sideEffects"), f"{path}.sideEffects"
    if value is None:
        return [fe.required(path, f"must specify one of {', '.join(allowed.values)}")]
    return [] if value in allowed.values else allowed.errors(value, path)


def _client_errors(client: Object, path: str) -> Errors:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [fe.required(path, "exactly one of url or service is required")]
    if url is not None:
        return webhook_url_errors(f"{path}.url", url)
    return webhook_service_errors(f"{path}.service", service or {})


def _condition_errors(conditions: list[Object], path: str, tolerance: _Tolerance) -> Errors:
    return [] if tolerance.conditions else MATCH_CONDITIONS(conditions, path, context=False)


def _version_errors(versions: list[str], path: str, tolerance: _Tolerance) -> Errors:
    if not versions:
        return [fe.required(path, f"must specify one of {', '.join(REVIEW_VERSIONS)}")]
    errors: Errors = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            errors.append(fe.invalid(f"{path}[{index}]", version, "duplicate version"))
        else:
            errors += named(check_dns_1035_label, version, f"{path}[{index}]")
    if not tolerance.review_versions and not set(versions) & set(REVIEW_VERSIONS):
        text = f"must include at least one of {', '.join(REVIEW_VERSIONS)}"
        errors.append(fe.invalid(path, versions, text))
    return errors


_WEBHOOK: Entry = [
    {
        "name": [Required(), _name_errors],
        "rules[*]": RULE,
        "failurePolicy": FAILURE_POLICY,
        "matchPolicy": MATCH_POLICY,
    },
    Check(_side_effects_errors, context=True),
    {
        "timeoutSeconds": Range(1, 30, "the timeout value must be between 1 and 30 seconds"),
        "namespaceSelector": selector_errors,
        "objectSelector": selector_errors,
        "reinvocationPolicy": REINVOCATION_POLICY,
        "clientConfig": Check(_client_errors, absent={}),
        "matchConditions": Check(_condition_errors, context=True),
        "admissionReviewVersions": Check(_version_errors, absent=[], context=True),
    },
]
RULES = Rules({"webhooks[*]": [_WEBHOOK, Unique("name", ignore_empty=True)]})
RULES_WITH_REPEATED_NAMES = Rules({"webhooks[*]": _WEBHOOK})


def _validate(obj: Object, old: Object | None = None) -> Errors:
    before = None if old is None else old.get("webhooks") or []
    tolerance = _Tolerance(obj.get("webhooks") or [], before)
    rules = RULES_WITH_REPEATED_NAMES if tolerance.repeated_names else RULES
    return rules(obj, context=tolerance)


def _kind(defaults: dict[str, Any]) -> Kind:
    return reserve_static_names(
        Kind(
            default=Defaults(defaults),
            validate=_validate,
            validate_update=_validate,
            generation_fields=("webhooks",),
            allow_unconditional_update=False,
            any_finalizer=True,
            columns=(
                column("Webhooks", counted("webhooks"), type="integer", description="Number of webhooks."),
                AGE,
            ),
        )
    )


KINDS = {
    "validatingwebhookconfigurations": _kind(DEFAULTS),
    "mutatingwebhookconfigurations": _kind({**DEFAULTS, "webhooks[*].reinvocationPolicy": "Never"}),
}
