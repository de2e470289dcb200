"""ValidatingAdmissionPolicyBinding and MutatingAdmissionPolicyBinding."""

from __future__ import annotations

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.core.podspec.scheduling import selector_errors
from kubewright.controlplane.kinds.defaults import Defaults
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, UNSET, column, field, shown
from kubewright.controlplane.kinds.validation import (
    DNS_SUBDOMAIN,
    PATH_SEGMENT,
    Check,
    Entry,
    Enum,
    Errors,
    Required,
    Rules,
    Table,
    Unique,
)
from kubewright.schema import field_errors as fe

from .matching import MATCH_RESOURCES, match_defaults, reserve_static_names
from .policies import mutating_operation_errors

_EXCLUSIVE = "name and selector are mutually exclusive"


def _exclusive_name(ref: Object, path: str) -> Errors:
    both = ref.get("name") and ref.get("selector") is not None
    return [fe.forbidden(f"{path}.name", _EXCLUSIVE)] if both else []


def _exclusive_selector(ref: Object, path: str) -> Errors:
    both = ref.get("name") and ref.get("selector") is not None
    return [fe.forbidden(f"{path}.selector", _EXCLUSIVE)] if both else []


def _name_or_selector(ref: Object, path: str) -> Errors:
    if ref.get("name") or ref.get("selector") is not None:
        return []
    return [fe.required(path, "one of name or selector must be specified")]


_PARAM_REF: Entry = [
    {"name": PATH_SEGMENT},
    _exclusive_name,
    {"selector": selector_errors},
    _exclusive_selector,
    _name_or_selector,
    {"parameterNotFoundAction": [Required(), Enum("Deny", "Allow")]},
]
_BINDING: Table = {
    "policyName": [Required(), DNS_SUBDOMAIN],
    "paramRef?": _PARAM_REF,
    "matchResources": MATCH_RESOURCES,
}


def _action_errors(actions: list[str], path: str) -> Errors:
    if not actions:
        return [fe.required(path, "at least one validation action is required")]
    if not {"Deny", "Warn"} <= set(actions):
        return []
    text = (
        "must not contain both Deny and Warn (repeating the same validation failure information in the"
        " API response and headers serves no purpose)"
    )
    return [fe.invalid(path, actions, text)]


VALIDATING_RULES = Rules(
    {
        "spec": {
            **_BINDING,
            "validationActions[*]": [Enum("Audit", "Deny", "Warn"), Unique()],
            "validationActions": Check(_action_errors, absent=[]),
        }
    }
)
MUTATING_RULES = Rules({"spec": [_BINDING, {"matchResources": mutating_operation_errors}]})


def _param_ref_text(obj: Object) -> str:
    ref = field(obj, "spec.paramRef", {})
    if ref.get("name"):
        return f"{ref.get('namespace') or '*'}/{ref['name']}"
    selector = ref.get("selector")
    return UNSET if selector is None else _selector_text(selector)


def _selector_text(selector: Object) -> str:
    """Format a label selector as Go formats the struct."""
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    expressions = "".join(
        "LabelSelectorRequirement{"
        f"Key:{one.get('key', '')},Operator:{one.get('operator', '')},"
        f"Values:[{' '.join(one.get('values') or ())}],}},"
        for one in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def _kind(rules: Rules, former_hashed_version: str = "") -> Kind:
    return reserve_static_names(
        Kind(
            default=Defaults(match_defaults("spec.matchResources", "resourceRules", "excludeResourceRules")),
            validate=rules,
            generation_fields=("spec",),
            allow_unconditional_update=False,
            any_finalizer=True,
            former={"-1.36": {"hashed_group_version": former_hashed_version}},
            columns=(
                column("PolicyName", shown("spec.policyName"), description="Name of the policy."),
                column("ParamRef", _param_ref_text, description="Parameters of the policy."),
                AGE,
            ),
        )
    )


KINDS = {
    "validatingadmissionpolicybindings": _kind(VALIDATING_RULES),
    "mutatingadmissionpolicybindings": _kind(MUTATING_RULES, "admissionregistration.k8s.io/v1beta1"),
}
