"""Defaults and validation of the spec of a Job, also in the template of a CronJob."""

from __future__ import annotations

from typing import Any

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.core.podspec.defaults import default_template
from kubewright.controlplane.kinds.defaults import Defaults, IfEmpty
from kubewright.controlplane.kinds.validation import (
    NOT_NEGATIVE,
    QUALIFIED_NAME,
    Check,
    Entry,
    Enum,
    Errors,
    Maximum,
    MaxItems,
    Required,
    Rules,
    Table,
    When,
)
from kubewright.controlplane.kinds.validation.formats import MAX_INT32, choice, dns_subdomain, non_negative
from kubewright.schema import field_errors as fe

from .job_status import IndexesError, index_intervals

_MAX_INDEXES_LENGTH = 64 * 1024
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")

FAILURE_POLICY_DEFAULTS = Defaults({"podFailurePolicy.rules[*].onPodConditions[*].status": IfEmpty("True")})


def default_job_spec(spec: Object) -> None:
    """Apply the defaults of a Job."""
    default_template(spec.setdefault("template", {}))
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else MAX_INT32)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    replacement = "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed"
    spec.setdefault("podReplacementPolicy", replacement)
    spec.setdefault("manualSelector", False)
    FAILURE_POLICY_DEFAULTS(spec)


def _backoff_errors(spec: Object, path: str) -> Errors:
    if spec.get("maxFailedIndexes") is None or spec.get("backoffLimitPerIndex") is not None:
        return []
    return [fe.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")]


def _manager_errors(name: str, path: str) -> Errors:
    if not name:
        return [fe.required(path, "")]
    domain, slash, rest = name.partition("/")
    if not slash or not domain or not rest:
        return [fe.invalid(path, name, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = dns_subdomain(domain, path)
    return [*errors, fe.too_long(path, 63)] if len(name) > 63 else errors


def _requires_indexed(value: int, path: str) -> Errors:
    return [fe.invalid(path, value, "requires indexed completion mode")]


def _failed_indexes_errors(spec: Object, path: str) -> Errors:
    failed, completions = spec.get("maxFailedIndexes"), spec.get("completions")
    if failed is None or completions is None or failed <= completions:
        return []
    return [fe.invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions")]


def _is_large(spec: Object) -> bool:
    return (spec.get("completions") or 0) > 100_000 and spec.get("backoffLimitPerIndex") is not None


_LARGE_LIMIT = Maximum(
    10_000,
    "must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per"
    " index",
)
_INDEXED: Entry = [
    {
        "completions": Required("when completion mode is Indexed", pointer=True),
        "parallelism": Maximum(
            100_000, "must be less than or equal to 100000 when completion mode is Indexed"
        ),
    },
    _failed_indexes_errors,
    {"maxFailedIndexes": Maximum(100_000)},
    When(
        _is_large,
        {
            "maxFailedIndexes": [
                Required("must be specified when completions is above 100000", pointer=True),
                _LARGE_LIMIT,
            ],
            "parallelism": _LARGE_LIMIT,
        },
    ),
]


# Pod failure policy


def _action_errors(action: str, path: str, spec: Object) -> Errors:
    if not action:
        listed = " ".join(f'"{one}"' for one in _ACTIONS)
        return [fe.required(path, f"valid values: [{listed}]")]
    if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        return [fe.invalid(path, action, "requires the backoffLimitPerIndex to be set")]
    return [] if action in _ACTIONS else [fe.not_supported(path, action, _ACTIONS)]


def _container_name_errors(name: str, path: str, spec: Object) -> Errors:
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = (*(pod.get("containers") or ()), *(pod.get("initContainers") or ()))
    if any(container.get("name") == name for container in containers):
        return []
    text = "must be one of the container or initContainer names in the pod template"
    return [fe.invalid(path, name, text)]


def _exit_code_errors(codes: Object, path: str) -> Errors:
    values, path = codes.get("values") or [], f"{path}.values"
    errors: Errors = []
    if not values:
        errors.append(fe.invalid(path, values, "at least one value is required"))
    elif len(values) > 255:
        errors.append(fe.too_many(path, len(values), 255))
    for index, value in enumerate(values):
        if codes.get("operator") == "In" and value == 0:
            errors.append(fe.invalid(f"{path}[{index}]", value, "must not be 0 for the In operator"))
        if value in values[:index]:
            errors.append(fe.duplicate(f"{path}[{index}]", value))
    if values != sorted(values):
        errors.append(fe.invalid(path, values, "must be ordered"))
    return errors


def _requirement_errors(rule: Object, path: str) -> Errors:
    has_codes, has_conditions = rule.get("onExitCodes") is not None, bool(rule.get("onPodConditions"))
    if has_codes and has_conditions:
        text = "specifying both OnExitCodes and OnPodConditions is not supported"
        return [fe.invalid(path, fe.OMIT, text)]
    if has_codes or has_conditions:
        return []
    return [fe.invalid(path, fe.OMIT, "specifying one of OnExitCodes and OnPodConditions is required")]


_FAILURE_RULE: Table = {
    "action": Check(_action_errors, absent="", context=True),
    "onExitCodes?": [
        {
            "operator": [Required(), Enum("In", "NotIn")],
            "containerName": Check(_container_name_errors, context=True),
        },
        _exit_code_errors,
    ],
    "onPodConditions[*].type": QUALIFIED_NAME,
    "onPodConditions[*].status": [Required(), Enum("False", "True", "Unknown")],
    "": _requirement_errors,
}


# Success policy


def _success_policy_errors(spec: Object, path: str) -> Errors:
    policy, completions, path = spec.get("successPolicy"), spec.get("completions"), f"{path}.successPolicy"
    if policy is None:
        return []
    if spec.get("completionMode") != "Indexed":
        return [fe.invalid(path, success_policy_value(policy), "requires indexed completion mode")]
    if completions is None:
        return []
    rules, path = policy.get("rules") or [], f"{path}.rules"
    errors: Errors = []
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        errors.append(fe.required(path, text))
    if len(rules) > 20:
        errors.append(fe.too_many(path, len(rules), 20))
    for index, rule in enumerate(rules):
        errors += _success_rule_errors(rule, completions, f"{path}[{index}]")
    return errors


def _success_rule_errors(rule: Object, completions: int, path: str) -> Errors:
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    errors: Errors = []
    if indexes is None and count is None:
        text = "at least one of succeededCount or succeededIndexes must be specified"
        errors.append(fe.required(path, text))
    total = 0
    if indexes is not None:
        if len(indexes) > _MAX_INDEXES_LENGTH:
            errors.append(fe.too_long(f"{path}.succeededIndexes", _MAX_INDEXES_LENGTH))
        try:
            total = sum(last - first + 1 for first, last in index_intervals(indexes, completions))
        except IndexesError as error:
            text = f"error parsing succeededIndexes: {error}"
            errors.append(fe.invalid(f"{path}.succeededIndexes", indexes, text))
    if count is None:
        return errors
    path = f"{path}.succeededCount"
    errors += non_negative(count, path)
    if count > completions:
        text = f"must be less than or equal to {completions} (the number of specified completions)"
        errors.append(fe.invalid(path, count, text))
    if indexes is not None and count > total:
        text = (
            f"must be less than or equal to {total} (the number of indexes in the specified "
            "succeededIndexes field)"
        )
        errors.append(fe.invalid(path, count, text))
    return errors


# Pods


def _replacement_errors(spec: Object, path: str) -> Errors:
    policy = spec.get("podReplacementPolicy")
    if policy is None:
        return []
    allowed = ("Failed", "TerminatingOrFailed") if spec.get("podFailurePolicy") is None else ("Failed",)
    return choice(policy, allowed, f"{path}.podReplacementPolicy")


def _template_errors(spec: Object, path: str) -> Errors:
    from kubewright.controlplane.kinds.core.podspec.template import template_errors

    template, path = spec.get("template") or {}, f"{path}.template"
    errors = template_errors(template, path)
    restart, path = (template.get("spec") or {}).get("restartPolicy"), f"{path}.spec.restartPolicy"
    if restart in ("Always", "", None):
        errors.append(fe.required(path, 'valid values: "OnFailure", "Never"'))
    elif restart not in ("OnFailure", "Never"):
        errors.append(fe.not_supported(path, restart, ("OnFailure", "Never")))
    elif spec.get("podFailurePolicy") is not None and restart != "Never":
        text = 'only "Never" is supported when podFailurePolicy is specified'
        errors.append(fe.invalid(path, restart, text))
    return errors


JOB_SPEC_RULES = Rules(
    {
        "": [
            {
                "parallelism": NOT_NEGATIVE,
                "completions": NOT_NEGATIVE,
                "activeDeadlineSeconds": NOT_NEGATIVE,
                "backoffLimit": NOT_NEGATIVE,
                "ttlSecondsAfterFinished": NOT_NEGATIVE,
                "backoffLimitPerIndex": NOT_NEGATIVE,
                "maxFailedIndexes": NOT_NEGATIVE,
            },
            _backoff_errors,
            {"managedBy": _manager_errors, "completionMode": Enum("NonIndexed", "Indexed")},
            When(lambda spec: spec.get("completionMode") == "Indexed", _INDEXED),
            When(
                lambda spec: spec.get("completionMode") in (None, "NonIndexed"),
                {"backoffLimitPerIndex": _requires_indexed, "maxFailedIndexes": _requires_indexed},
            ),
            {
                "podFailurePolicy.rules": MaxItems(20),
                "podFailurePolicy.rules[*]": _FAILURE_RULE,
            },
            _success_policy_errors,
            _replacement_errors,
            _template_errors,
        ]
    },
    context=lambda spec: spec,
)
"""Everything except the selector."""


# Values in messages


def success_policy_value(policy: Object | None) -> Any:
    """Return a success policy as Go formats it."""
    return policy and fe.GoStruct(
        Rules=[
            fe.GoStruct(
                SucceededIndexes=rule.get("succeededIndexes"), SucceededCount=rule.get("succeededCount")
            )
            for rule in policy.get("rules") or ()
        ]
    )


def failure_policy_value(policy: Object | None) -> Any:
    """Return a pod failure policy as Go formats it."""
    if policy is None:
        return None
    return fe.GoStruct(Rules=[_failure_rule_value(rule) for rule in policy.get("rules") or ()])


def _failure_rule_value(rule: Object) -> fe.GoStruct:
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
    return fe.GoStruct(
        Action=rule.get("action") or "",
        OnExitCodes=codes
        and fe.GoStruct(
            ContainerName=codes.get("containerName"),
            Operator=codes.get("operator"),
            Values=codes.get("values"),
        ),
        OnPodConditions=conditions
        and [fe.GoStruct(Type=one.get("type") or "", Status=one.get("status") or "") for one in conditions],
    )
