"""ResourceQuota."""

from __future__ import annotations

from typing import Any

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.kind import STATUS, Kind
from kubewright.controlplane.kinds.printing import AGE, NAME, age_of, column, name_of
from kubewright.controlplane.kinds.validation import Errors, Rules, UpdateRules
from kubewright.schema import field_errors as fe

from .podspec.defaults import round_quantities
from .podspec.resources import STANDARD_QUOTA, quantity_errors, quota_resource_errors

_SCOPES = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)
_COMPUTE_RESOURCES = (
    "pods",
    "cpu",
    "memory",
    "requests.cpu",
    "requests.memory",
    "limits.cpu",
    "limits.memory",
)
_SCOPES_WITHOUT_VALUES = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "CrossNamespacePodAffinity",
)
_EXCLUSIVE_SCOPES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})


def _default(obj: Object) -> None:
    round_quantities((obj.get("spec") or {}).get("hard"))
    for field in ("hard", "used"):
        round_quantities((obj.get("status") or {}).get(field))


def _check_amounts(amounts: Object, path: str) -> Errors:
    errors: Errors = []
    for name in sorted(amounts):
        where = f"{path}[{name}]"
        errors += quota_resource_errors(name, where) + quantity_errors(name, amounts[name], where)
    return errors


def _supports(scope: str, resource: str) -> bool:
    if scope == "BestEffort":
        return resource == "pods"
    if scope == "VolumeAttributesClass":
        return resource in ("persistentvolumeclaims", "requests.storage")
    if scope not in _SCOPES:
        return True
    return resource in _COMPUTE_RESOURCES or resource.startswith(("hugepages-", "requests.hugepages-"))


def _check_scopes(spec: Object, path: str) -> Errors:
    errors: Errors = []
    resources = [name for name in sorted(spec.get("hard") or {}) if name in STANDARD_QUOTA]
    scopes, where = spec.get("scopes") or [], f"{path}.scopes"
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(fe.invalid(where, scopes, "unsupported scope"))
        errors += [
            fe.invalid(where, scopes, "unsupported scope applied to resource")
            for name in resources
            if not _supports(scope, name)
        ]
    if any(pair <= set(scopes) for pair in _EXCLUSIVE_SCOPES):
        errors.append(fe.invalid(where, scopes, "conflicting scopes"))
    selector, where = spec.get("scopeSelector") or {}, f"{path}.scopeSelector.matchExpressions"
    for term in selector.get("matchExpressions") or ():
        errors += _check_term(term, where)
        errors += [
            fe.invalid(where, _shown_scopes(selector), "unsupported scope applied to resource")
            for name in resources
            if not _supports(term.get("scopeName") or "", name)
        ]
    return errors


def _shown_scopes(selector: Object) -> Object:
    """Format a scope selector as Go does in error messages."""
    return {
        "MatchExpressions": [
            fe.GoStruct(
                {
                    "ScopeName": term.get("scopeName") or "",
                    "Operator": term.get("operator") or "",
                    "Values": term.get("values"),
                }
            )
            for term in selector.get("matchExpressions") or ()
        ]
    }


def _check_term(term: Object, path: str) -> Errors:
    errors: Errors = []
    scope, operator, values = (
        term.get("scopeName") or "",
        term.get("operator") or "",
        term.get("values") or [],
    )
    if scope not in _SCOPES:
        errors.append(fe.invalid(f"{path}.scopeName", scope, "unsupported scope"))
    if scope in _SCOPES_WITHOUT_VALUES and operator != "Exists":
        text = (
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
            "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort "
            "or ResourceQuotaScopeCrossNamespacePodAffinity"
        )
        errors.append(fe.invalid(f"{path}.operator", operator, text))
    if operator in ("In", "NotIn"):
        if not values:
            text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            errors.append(fe.required(f"{path}.values", text))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            errors.append(fe.invalid(f"{path}.values", values, text))
    else:
        errors.append(fe.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    return errors


def _immutable_scopes(new: list[str] | None, old: list[str] | None, path: str) -> Errors:
    if set(new or ()) == set(old or ()):
        return []
    return [fe.invalid(path, new, "field is immutable")]


def _cells(obj: Object) -> list[Any]:
    status = obj.get("status") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name, hard in sorted((status.get("hard") or {}).items()):
        used = (status.get("used") or {}).get(name) or "0"
        (limits if name.startswith("limits.") else requests).append(f"{name}: {used}/{hard}")
    return [name_of(obj), ", ".join(requests), ", ".join(limits), age_of(obj)]


RULES = Rules({"spec": [{"hard": _check_amounts}, _check_scopes]})
KINDS = {
    "resourcequotas": Kind(
        default=_default,
        validate=RULES,
        validate_update=UpdateRules(RULES, {"spec.scopes": _immutable_scopes}),
        validate_status=UpdateRules(Rules({"status": {"hard": _check_amounts, "used": _check_amounts}})),
        returns_deleted_object=True,
        columns=(
            NAME,
            column(
                "Request",
                description="Request represents a minimum amount of cpu/memory that a container may consume.",
            ),
            column(
                "Limit",
                description="Limits control the maximum amount of cpu/memory that a container may use "
                "independent of contention on the node.",
            ),
            AGE,
        ),
        cells=_cells,
        subresources={"status": STATUS},
    )
}
