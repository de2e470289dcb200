"""Scheduling of pods: selectors, tolerations, affinity, topology spread."""

from __future__ import annotations

from typing import Any

from kubewright.api.values import names
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.validation import (
    LABEL_VALUE,
    POSITIVE,
    QUALIFIED_NAME,
    Check,
    Enum,
    Errors,
    Format,
    Range,
    ReportAt,
    Required,
    Rules,
)
from kubewright.controlplane.kinds.validation.formats import dns_subdomain, qualified_name
from kubewright.schema import field_errors as fe
from kubewright.schema.validation.metadata import label_errors

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED_TERMS = "preferredDuringSchedulingIgnoredDuringExecution"


def toleration_errors(tolerations: list[Object], path: str) -> Errors:
    """Check the tolerations of a pod."""
    errors: Errors = []
    for position, toleration in enumerate(tolerations):
        where = f"{path}[{position}]"
        key, operator = toleration.get("key") or "", toleration.get("operator") or ""
        value, effect = toleration.get("value") or "", toleration.get("effect") or ""
        if key:
            errors += qualified_name(key, f"{where}.key")
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(fe.invalid(f"{where}.operator", operator, text))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(fe.invalid(f"{where}.effect", effect, text))
        if operator in ("Equal", ""):
            wrong = names.check_label_value(value)
            if wrong:
                errors.append(fe.invalid(f"{where}.operator", value, ";".join(wrong)))
        elif operator == "Exists":
            if value:
                text = "value must be empty when `operator` is 'Exists'"
                errors.append(fe.invalid(f"{where}.operator", value, text))
        else:
            known = ("Equal", "Exists", *(("Lt", "Gt") if operator in ("Lt", "Gt") else ()))
            errors.append(fe.not_supported(f"{where}.operator", operator, known))
        if effect and effect not in EFFECTS:
            errors.append(fe.not_supported(f"{where}.effect", effect, EFFECTS))
    return errors


def format_selector(selector: Object | None) -> Any:
    """Format a label selector as Go does in error messages."""
    if selector is None:
        return None
    shown = fe.GoStruct()
    if selector.get("matchLabels"):
        shown["matchLabels"] = selector["matchLabels"]
    if selector.get("matchExpressions"):
        shown["matchExpressions"] = [
            fe.GoStruct({field: term[field] for field in ("key", "operator", "values") if term.get(field)})
            for term in selector["matchExpressions"]
        ]
    return shown


def selector_errors(selector: Object | None, path: str) -> Errors:
    """Check a label selector; `None` is valid."""
    return LABEL_SELECTOR(selector, path) if selector else []


def node_selector_errors(selector: Object, path: str) -> Errors:
    """Check a selector of nodes by labels and fields."""
    return _NODE_SELECTOR(selector, path)


def affinity_errors(affinity: Object | None, path: str) -> Errors:
    """Check the affinity of a pod; `None` is valid."""
    return _AFFINITY(affinity, path) if affinity else []


def _check_operator(term: Object, path: str) -> Errors:
    operator, values = term.get("operator") or "", term.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            return [fe.required(f"{path}.values", text)]
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            return [fe.forbidden(f"{path}.values", text)]
    else:
        return [fe.invalid(f"{path}.operator", operator, "not a valid selector operator")]
    return []


def _check_node_operator(term: Object, path: str) -> Errors:
    if term.get("operator") not in ("Gt", "Lt"):
        return _check_operator(term, path)
    if len(term.get("values") or ()) == 1:
        return []
    text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
    return [fe.required(f"{path}.values", text)]


def _check_node_field(term: Object, path: str) -> Errors:
    errors: Errors = []
    if term.get("operator") not in ("In", "NotIn"):
        operator = term.get("operator") or ""
        errors.append(fe.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(term.get("values") or ()) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(fe.required(f"{path}.values", text))
    if term.get("key") != "metadata.name":
        errors.append(fe.invalid(f"{path}.key", term.get("key") or "", "not a valid field selector key"))
        return errors
    for position, value in enumerate(term.get("values") or ()):
        errors += dns_subdomain(value, f"{path}.values[{position}]")
    return errors


def _check_topology_key(key: str, path: str) -> Errors:
    return ([] if key else [fe.required(path, "can not be empty")]) + qualified_name(key, path)


def _check_key_list(keys: list[str], selector: Object | None, path: str) -> Errors:
    if keys and selector is None:
        return [fe.forbidden(path, "must not be specified when labelSelector is not set")]
    return [
        error for position, key in enumerate(keys) for error in qualified_name(key, f"{path}[{position}]")
    ]


def _check_label_keys(term: Object, path: str) -> Errors:
    selector, keys = term.get("labelSelector"), term.get("matchLabelKeys") or []
    others = term.get("mismatchLabelKeys") or []
    errors = _check_key_list(keys, selector, f"{path}.matchLabelKeys")
    errors += _check_key_list(others, selector, f"{path}.mismatchLabelKeys")
    seen = set((selector or {}).get("matchLabels") or ())
    for one in (selector or {}).get("matchExpressions") or ():
        key = one.get("key") or ""
        if key in keys and key in seen:
            text = "exists in both matchLabelKeys and labelSelector"
            errors.append(fe.invalid(f"{path}[{keys.index(key)}]", key, text))
        seen.add(key)
    return errors + [
        fe.invalid(
            f"{path}.matchLabelKeys[{position}]", key, "exists in both matchLabelKeys and mismatchLabelKeys"
        )
        for position, key in enumerate(keys)
        if key in others
    ]


def spread_errors(constraints: list[Object], path: str) -> Errors:
    """Check the topology spread constraints of a pod."""
    errors: Errors = []
    for index, constraint in enumerate(constraints):
        where = f"{path}[{index}]"
        pair = constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""
        errors += _SPREAD(constraint, where)
        for other in constraints[index + 1 :]:
            if (other.get("topologyKey") or "", other.get("whenUnsatisfiable") or "") == pair:
                at = f"{where}.{{topologyKey, whenUnsatisfiable}}"
                errors.append(fe.duplicate(at, f"{{{pair[0]}, {pair[1]}}}"))
                break
        errors += _SPREAD_OPTIONS(constraint, where)
    return errors


def _check_min_domains(constraint: Object, path: str) -> Errors:
    domains, unsatisfiable = constraint.get("minDomains"), constraint.get("whenUnsatisfiable") or ""
    if domains is None or unsatisfiable == "DoNotSchedule":
        return []
    text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {unsatisfiable}"
    return [fe.invalid(f"{path}.minDomains", domains, text)]


LABEL_SELECTOR = Rules(
    {
        "matchLabels": label_errors,
        "matchExpressions[*]": [_check_operator, {"key": QUALIFIED_NAME, "values[*]": LABEL_VALUE}],
    }
)
_NODE_TERM: dict[str, Any] = {
    "matchExpressions[*]": [_check_node_operator, {"key": QUALIFIED_NAME}],
    "matchFields[*]": _check_node_field,
}
_NODE_SELECTOR = Rules(
    {
        "nodeSelectorTerms": Required("must have at least one node selector term"),
        "nodeSelectorTerms[*]": {
            "matchExpressions[*]": [_check_node_operator, {"key": QUALIFIED_NAME, "values[*]": LABEL_VALUE}],
            "matchFields[*]": _check_node_field,
        },
    }
)
_POD_TERM = Rules(
    [
        {
            "labelSelector": selector_errors,
            "namespaceSelector": selector_errors,
            "namespaces[*]": ReportAt("namespace", Format(names.check_dns_label, absent="")),
        },
        _check_label_keys,
        {"topologyKey": Check(_check_topology_key, absent="")},
    ]
)
_WEIGHT = Range(1, 100, detail="must be in the range 1-100", absent=0)
_POD_AFFINITY: dict[str, Any] = {
    f"{_REQUIRED_TERMS}[*]": _POD_TERM,
    f"{_PREFERRED_TERMS}[*]": {"weight": _WEIGHT, "podAffinityTerm": _POD_TERM},
}
_AFFINITY = Rules(
    {
        f"nodeAffinity.{_REQUIRED_TERMS}": node_selector_errors,
        f"nodeAffinity.{_PREFERRED_TERMS}[*]": {"weight": _WEIGHT, "preference": _NODE_TERM},
        "podAffinity": _POD_AFFINITY,
        "podAntiAffinity": _POD_AFFINITY,
    }
)
_SPREAD = Rules(
    {
        "maxSkew": POSITIVE,
        "topologyKey": Required("can not be empty"),
        "whenUnsatisfiable": Enum("DoNotSchedule", "ScheduleAnyway", absent=""),
    }
)
_SPREAD_OPTIONS = Rules(
    [
        {"minDomains": Range(1, 1 << 31, detail="must be greater than zero")},
        _check_min_domains,
        {"nodeAffinityPolicy": Enum("Honor", "Ignore"), "nodeTaintsPolicy": Enum("Honor", "Ignore")},
        _check_label_keys,
        {"labelSelector": selector_errors},
    ]
)
