"""Webhook configurations, admission policies and their bindings: `admissionregistration.k8s.io`."""

from __future__ import annotations

from kubewright.api.names import check_dns_1035_label, check_dns_subdomain
from kubewright.apiserver.objects import Object
from kubewright.controlplane.kinds.core.podspec.scheduling import selector_errors
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, column, counted
from kubewright.controlplane.kinds.validation.formats import Errors, named
from kubewright.schema import field_errors as fe
from kubewright.schema.crd.conversion import webhook_service_errors, webhook_url_errors

from .policies import POLICY_KINDS
from .resource_rules import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    REINVOCATION_POLICIES,
    default_rules,
    default_selectors,
    match_condition_errors,
    one_of,
    rule_errors,
)

SIDE_EFFECTS = ("None", "NoneOnDryRun")
_ANY_SIDE_EFFECTS = ("None", "NoneOnDryRun", "Some", "Unknown")
REVIEW_VERSIONS = ("v1", "v1beta1")


def _default_hook(hook: Object) -> None:
    if hook.get("failurePolicy") is None:
        hook["failurePolicy"] = "Fail"
    default_selectors(hook)
    if hook.get("timeoutSeconds") is None:
        hook["timeoutSeconds"] = 10
    default_rules(hook.get("rules"))
    service = (hook.get("clientConfig") or {}).get("service")
    if service is not None and service.get("port") is None:
        service["port"] = 443


def _default_validating(configuration: Object) -> None:
    for hook in configuration.get("webhooks") or ():
        _default_hook(hook)


def _default_mutating(configuration: Object) -> None:
    for hook in configuration.get("webhooks") or ():
        _default_hook(hook)
        if hook.get("reinvocationPolicy") is None:
            hook["reinvocationPolicy"] = "Never"


def _errors(configuration: Object, old: Object | None = None) -> Errors:
    hooks, before = configuration.get("webhooks") or [], (old or {}).get("webhooks") or []
    lenient = _Leniency(hooks, before if old is not None else None)
    errors: Errors = []
    seen: set[str] = set()
    for position, hook in enumerate(hooks):
        path, name = f"webhooks[{position}]", hook.get("name") or ""
        errors += _hook_errors(hook, lenient, path)
        errors += _version_errors(
            hook.get("admissionReviewVersions") or [], lenient, f"{path}.admissionReviewVersions"
        )
        if name and name in seen and not lenient.repeated_names:
            errors.append(fe.duplicate(f"{path}.name", name))
        seen.add(name)
    return errors


class _Leniency:
    """Mistakes that a configuration has had before it may keep."""

    def __init__(self, hooks: list[Object], before: list[Object] | None) -> None:
        self.side_effects = self.repeated_names = self.review_versions = self.conditions = False
        if before is None:
            return
        names = [hook.get("name") for hook in before]
        self.repeated_names = len(set(names)) < len(names)
        self.side_effects = any(hook.get("sideEffects") not in SIDE_EFFECTS for hook in before)
        self.review_versions = any(
            hook.get("admissionReviewVersions")
            and not set(hook["admissionReviewVersions"]) & set(REVIEW_VERSIONS)
            for hook in before
        )
        self.conditions = [hook.get("matchConditions") for hook in hooks] == [
            hook.get("matchConditions") for hook in before
        ]


def _hook_errors(hook: Object, lenient: _Leniency, path: str) -> Errors:
    errors = _qualified_errors(hook.get("name") or "", f"{path}.name")
    for position, rule in enumerate(hook.get("rules") or ()):
        errors += rule_errors(rule, f"{path}.rules[{position}]")
    errors += one_of(hook.get("failurePolicy"), FAILURE_POLICIES, f"{path}.failurePolicy")
    errors += one_of(hook.get("matchPolicy"), MATCH_POLICIES, f"{path}.matchPolicy")
    effects, allowed = hook.get("sideEffects"), _ANY_SIDE_EFFECTS if lenient.side_effects else SIDE_EFFECTS
    if effects is None:
        errors.append(fe.required(f"{path}.sideEffects", f"must specify one of {', '.join(allowed)}"))
    errors += one_of(effects, allowed, f"{path}.sideEffects")
    timeout = hook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        errors.append(fe.invalid(f"{path}.timeoutSeconds", timeout, text))
    for name in ("namespaceSelector", "objectSelector"):
        errors += selector_errors(hook.get(name), f"{path}.{name}")
    errors += one_of(hook.get("reinvocationPolicy"), REINVOCATION_POLICIES, f"{path}.reinvocationPolicy")
    errors += _client_errors(hook.get("clientConfig") or {}, f"{path}.clientConfig")
    if not lenient.conditions:
        where = f"{path}.matchConditions"
        errors += match_condition_errors(hook.get("matchConditions") or [], False, where)
    return errors


def _qualified_errors(name: str, path: str) -> Errors:
    if not name:
        return [fe.required(path, "")]
    wrong = check_dns_subdomain(name)
    if wrong:
        return [fe.invalid(path, name, ",".join(wrong))]
    if name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        return [fe.invalid(path, name, text)]
    return []


def _version_errors(versions: list[str], lenient: _Leniency, path: str) -> Errors:
    if not versions:
        return [fe.required(path, f"must specify one of {', '.join(REVIEW_VERSIONS)}")]
    errors: Errors = []
    seen: set[str] = set()
    for position, version in enumerate(versions):
        where = f"{path}[{position}]"
        if version in seen:
            errors.append(fe.invalid(where, version, "duplicate version"))
            continue
        seen.add(version)
        errors += named(check_dns_1035_label, version, where)
    if not lenient.review_versions and not seen & set(REVIEW_VERSIONS):
        text = f"must include at least one of {', '.join(REVIEW_VERSIONS)}"
        errors.append(fe.invalid(path, versions, text))
    return errors


def _client_errors(client: Object, path: str) -> Errors:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [fe.required(path, "exactly one of url or service is required")]
    if url is not None:
        return webhook_url_errors(f"{path}.url", url)
    return webhook_service_errors(f"{path}.service", service or {})


_COLUMNS = (
    column("Webhooks", counted("webhooks"), type="integer", description="How many webhooks there are."),
    AGE,
)

KINDS = {
    "validatingwebhookconfigurations": Kind(
        default=_default_validating,
        validate=_errors,
        validate_update=_errors,
        generation_fields=("webhooks",),
        allow_unconditional_update=False,
        columns=_COLUMNS,
        any_finalizer=True,
    ),
    "mutatingwebhookconfigurations": Kind(
        default=_default_mutating,
        validate=_errors,
        validate_update=_errors,
        generation_fields=("webhooks",),
        allow_unconditional_update=False,
        columns=_COLUMNS,
        any_finalizer=True,
    ),
    **POLICY_KINDS,
}
