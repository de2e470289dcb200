"""Rules about where pods go: tolerations, affinity, spreading."""

from __future__ import annotations

from typing import Any

from kubewright.api import names
from kubewright.controlplane.kinds.validation.formats import Errors, choice, dns_label, label_name, positive
from kubewright.schema import field_errors as fe

Object = dict[str, Any]

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def toleration_errors(tolerations: list[Object], path: str) -> Errors:
    """Which taints a pod tolerates."""
    errors: Errors = []
    for position, toleration in enumerate(tolerations):
        where = f"{path}[{position}]"
        key, operator = toleration.get("key") or "", toleration.get("operator") or ""
        value, effect = toleration.get("value") or "", toleration.get("effect") or ""
        if key:
            errors += label_name(key, f"{where}.key")
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


def shown_selector(selector: Object | None) -> Any:
    """A selector as messages show it."""
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
    """A structured label selector."""
    errors: Errors = []
    if not selector:
        return errors
    from kubewright.schema.validation.metadata import label_errors

    errors += label_errors(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for position, term in enumerate(selector.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{position}]"
        operator, values = term.get("operator") or "", term.get("values") or []
        if operator in ("In", "NotIn"):
            if not values:
                text = "must be specified when `operator` is 'In' or 'NotIn'"
                errors.append(fe.required(f"{where}.values", text))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                errors.append(fe.forbidden(f"{where}.values", text))
        else:
            errors.append(fe.invalid(f"{where}.operator", operator, "not a valid selector operator"))
        errors += label_name(term.get("key") or "", f"{where}.key")
        for index, value in enumerate(values):
            errors += [
                fe.invalid(f"{where}.values[{index}]", value, text) for text in names.check_label_value(value)
            ]
    return errors


def affinity_errors(affinity: Object | None, path: str) -> Errors:
    """Nodes and pods that a pod wants to be near to, or far from."""
    errors: Errors = []
    affinity = affinity or {}
    nodes = affinity.get("nodeAffinity") or {}
    if nodes.get(_REQUIRED) is not None:
        errors += node_selector_errors(nodes[_REQUIRED], f"{path}.nodeAffinity.{_REQUIRED}")
    for position, term in enumerate(nodes.get(_PREFERRED) or ()):
        where = f"{path}.nodeAffinity.{_PREFERRED}[{position}]"
        errors += _weight(term, where)
        errors += _node_term(term.get("preference") or {}, f"{where}.preference", strict=False)
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        for position, term in enumerate(terms.get(_REQUIRED) or ()):
            errors += _pod_term(term, f"{path}.{kind}.{_REQUIRED}[{position}]")
        for position, weighted in enumerate(terms.get(_PREFERRED) or ()):
            where = f"{path}.{kind}.{_PREFERRED}[{position}]"
            errors += _weight(weighted, where)
            errors += _pod_term(weighted.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm")
    return errors


def _weight(term: Object, path: str) -> Errors:
    weight = term.get("weight") or 0
    return [] if 1 <= weight <= 100 else [fe.invalid(f"{path}.weight", weight, "must be in the range 1-100")]


def node_selector_errors(selector: Object, path: str) -> Errors:
    """A choice of nodes by labels and fields."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [fe.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    return [
        error
        for position, term in enumerate(terms)
        for error in _node_term(term, f"{path}.nodeSelectorTerms[{position}]", strict=True)
    ]


def _node_term(term: Object, path: str, *, strict: bool) -> Errors:
    errors: Errors = []
    for position, one in enumerate(term.get("matchExpressions") or ()):
        where, values = f"{path}.matchExpressions[{position}]", one.get("values") or []
        operator = one.get("operator") or ""
        if operator in ("In", "NotIn"):
            if not values:
                text = "must be specified when `operator` is 'In' or 'NotIn'"
                errors.append(fe.required(f"{where}.values", text))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                errors.append(fe.forbidden(f"{where}.values", text))
        elif operator in ("Gt", "Lt"):
            if len(values) != 1:
                text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                errors.append(fe.required(f"{where}.values", text))
        else:
            errors.append(fe.invalid(f"{where}.operator", operator, "not a valid selector operator"))
        errors += label_name(one.get("key") or "", f"{where}.key")
        if strict:
            for index, value in enumerate(values):
                errors += [
                    fe.invalid(f"{where}.values[{index}]", value, text)
                    for text in names.check_label_value(value)
                ]
    for position, one in enumerate(term.get("matchFields") or ()):
        errors += _node_field(one, f"{path}.matchFields[{position}]")
    return errors


def _node_field(one: Object, path: str) -> Errors:
    errors: Errors = []
    values = one.get("values") or []
    if one.get("operator") not in ("In", "NotIn"):
        errors.append(
            fe.invalid(f"{path}.operator", one.get("operator") or "", "not a valid selector operator")
        )
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(fe.required(f"{path}.values", text))
    if one.get("key") != "metadata.name":
        errors.append(fe.invalid(f"{path}.key", one.get("key") or "", "not a valid field selector key"))
    return errors


def _pod_term(term: Object, path: str) -> Errors:
    errors = selector_errors(term.get("labelSelector"), f"{path}.labelSelector")
    errors += selector_errors(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for namespace in term.get("namespaces") or ():
        errors += dns_label(namespace, f"{path}.namespace")
    errors += _label_key_errors(term, path)
    topology = term.get("topologyKey") or ""
    if not topology:
        errors.append(fe.required(f"{path}.topologyKey", "can not be empty"))
    return errors + label_name(topology, f"{path}.topologyKey")


def _label_keys(keys: list[str], selector: Object | None, path: str) -> Errors:
    if keys and selector is None:
        return [fe.forbidden(path, "must not be specified when labelSelector is not set")]
    return [error for position, key in enumerate(keys) for error in label_name(key, f"{path}[{position}]")]


def _label_key_errors(term: Object, path: str) -> Errors:
    selector, keys = term.get("labelSelector"), term.get("matchLabelKeys") or []
    others = term.get("mismatchLabelKeys") or []
    errors = _label_keys(keys, selector, f"{path}.matchLabelKeys")
    errors += _label_keys(others, selector, f"{path}.mismatchLabelKeys")
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
    """How pods spread over parts of a cluster."""
    errors: Errors = []
    for position, constraint in enumerate(constraints):
        where = f"{path}[{position}]"
        topology, unsatisfiable = (
            constraint.get("topologyKey") or "",
            constraint.get("whenUnsatisfiable") or "",
        )
        errors += positive(constraint.get("maxSkew"), f"{where}.maxSkew")
        if not topology:
            errors.append(fe.required(f"{where}.topologyKey", "can not be empty"))
        if unsatisfiable not in ("DoNotSchedule", "ScheduleAnyway"):
            allowed = ("DoNotSchedule", "ScheduleAnyway")
            errors.append(fe.not_supported(f"{where}.whenUnsatisfiable", unsatisfiable, allowed))
        for other in constraints[position + 1 :]:
            if (other.get("topologyKey") or "", other.get("whenUnsatisfiable") or "") == (
                topology,
                unsatisfiable,
            ):
                at = f"{where}.{{topologyKey, whenUnsatisfiable}}"
                errors.append(fe.duplicate(at, f"{{{topology}, {unsatisfiable}}}"))
                break
        least = constraint.get("minDomains")
        if least is not None:
            errors += positive(least, f"{where}.minDomains")
            if unsatisfiable != "DoNotSchedule":
                text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {unsatisfiable}"
                errors.append(fe.invalid(f"{where}.minDomains", least, text))
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if constraint.get(field) is not None:
                errors += choice(constraint[field], ("Honor", "Ignore"), f"{where}.{field}")
        errors += _label_key_errors(constraint, where)
        errors += selector_errors(constraint.get("labelSelector"), f"{where}.labelSelector")
    return errors
