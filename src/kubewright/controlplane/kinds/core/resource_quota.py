"""Limits per namespace: resource quotas and limit ranges."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubewright.api import names
from kubewright.api.field_errors import FieldError
from kubewright.api.quantity import Quantity
from kubewright.apiserver.objects import Object
from kubewright.apiserver.resource import Version
from kubewright.apiserver.strategy import Operation
from kubewright.controlplane.kinds.kind import KindStrategy
from kubewright.controlplane.kinds.printing import AGE, NAME, age_of, column, name_of
from kubewright.controlplane.kinds.validation.formats import Errors
from kubewright.schema import field_errors as fe

from .podspec.defaults import round_quantities
from .podspec.resources import (
    STANDARD_QUOTA,
    container_resource_errors,
    may_overcommit,
    quantity_errors,
    quota_resource_errors,
    resource_name_errors,
)

_SCOPES = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)
_COMPUTE = ("pods", "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
_WITHOUT_VALUES = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "CrossNamespacePodAffinity",
)
_EXCLUSIVE = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})


class ResourceQuotaStrategy(KindStrategy):
    """Resource quotas."""

    returns_deleted_object = True

    def default(self, version: Version, obj: Object) -> None:
        """Amounts are rounded."""
        round_quantities((obj.get("spec") or {}).get("hard"))
        for field in ("hard", "used"):
            round_quantities((obj.get("status") or {}).get(field))

    def validate(self, op: Operation, obj: Object) -> Iterable[FieldError]:
        """A new quota."""
        return _quota_errors(obj.get("spec") or {})

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Iterable[FieldError]:
        """Scopes never change."""
        if op.subresource == "status":
            status = obj.get("status") or {}
            return [
                error
                for field in ("hard", "used")
                for name, text in (status.get(field) or {}).items()
                for error in _amount_errors(name, text, f"status.{field}[{name}]")
            ]
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        errors = _quota_errors(spec)
        if set(spec.get("scopes") or ()) != set(before.get("scopes") or ()):
            errors.append(fe.invalid("spec.scopes", spec.get("scopes"), "field is immutable"))
        return errors


def _amount_errors(name: str, text: str, path: str) -> Errors:
    return quota_resource_errors(name, path) + quantity_errors(name, text, path)


def _allowed_in(scope: str, resource: str) -> bool:
    if scope == "BestEffort":
        return resource == "pods"
    if scope == "VolumeAttributesClass":
        return resource in ("persistentvolumeclaims", "requests.storage")
    if scope not in _SCOPES:
        return True
    return resource in _COMPUTE or resource.startswith(("hugepages-", "requests.hugepages-"))


def _quota_errors(spec: Object) -> Errors:
    errors: Errors = []
    hard = spec.get("hard") or {}
    for name in sorted(hard):
        errors += _amount_errors(name, hard[name], f"spec.hard[{name}]")
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(fe.invalid("spec.scopes", scopes, "unsupported scope"))
        errors += [
            fe.invalid("spec.scopes", scopes, "unsupported scope applied to resource")
            for name in sorted(hard)
            if name in STANDARD_QUOTA and not _allowed_in(scope, name)
        ]
    if any(pair <= set(scopes) for pair in _EXCLUSIVE):
        errors.append(fe.invalid("spec.scopes", scopes, "conflicting scopes"))
    path = "spec.scopeSelector.matchExpressions"
    for term in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        errors += _scope_term_errors(term, path)
        for name in sorted(hard):
            if name in STANDARD_QUOTA and not _allowed_in(term.get("scopeName") or "", name):
                text = "unsupported scope applied to resource"
                errors.append(fe.invalid(path, _shown_scopes(spec["scopeSelector"]), text))
    return errors


def _shown_scopes(selector: Object) -> Object:
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


def _scope_term_errors(term: Object, path: str) -> Errors:
    errors: Errors = []
    scope, operator, values = (
        term.get("scopeName") or "",
        term.get("operator") or "",
        term.get("values") or [],
    )
    if scope not in _SCOPES:
        errors.append(fe.invalid(f"{path}.scopeName", scope, "unsupported scope"))
    if scope in _WITHOUT_VALUES and operator != "Exists":
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


class LimitRangeStrategy(KindStrategy):
    """Limit ranges."""

    allow_create_on_update = True

    def default(self, version: Version, obj: Object) -> None:
        """Containers: limits follow from the maximum, requests from limits or the minimum."""
        for item in (obj.get("spec") or {}).get("limits") or ():
            for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
                round_quantities(item.get(field))
            if item.get("type") != "Container":
                continue
            default = {**(item.get("max") or {}), **(item.get("default") or {})}
            request = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
            if default:
                item["default"] = default
            if request:
                item["defaultRequest"] = request

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """One without a name is given one."""
        if not obj["metadata"].get("name"):
            import uuid

            obj["metadata"]["name"] = op.name = str(uuid.uuid4())

    def validate(self, op: Operation, obj: Object) -> Iterable[FieldError]:
        """Kinds, names and amounts that fit together."""
        errors: Errors = []
        seen: set[str] = set()
        for position, item in enumerate((obj.get("spec") or {}).get("limits") or ()):
            where, kind = f"spec.limits[{position}]", item.get("type") or ""
            errors += _limit_type_errors(kind, f"{where}.type")
            if kind in seen:
                errors.append(fe.duplicate(f"{where}.type", kind))
            seen.add(kind)
            errors += _limit_item_errors(item, kind, where)
        return errors

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Iterable[FieldError]:
        """The same as for a new one."""
        return self.validate(op, obj)


def _limit_type_errors(kind: str, path: str) -> Errors:
    errors = [fe.invalid(path, kind, text) for text in names.check_qualified_name(kind)]
    if not errors and "/" not in kind and kind not in ("Pod", "Container", "PersistentVolumeClaim"):
        errors.append(fe.invalid(path, kind, "must be a standard limit type or fully qualified"))
    return errors


def _limit_item_errors(item: Object, kind: str, where: str) -> Errors:
    errors: Errors = []
    check = container_resource_errors if kind in ("Pod", "Container") else resource_name_errors
    amounts: dict[str, dict[str, Quantity]] = {}
    for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
        if kind == "Pod" and field in ("default", "defaultRequest"):
            if item.get(field):
                text = "may not be specified when `type` is 'Pod'"
                errors.append(fe.forbidden(f"{where}.{field}", text))
            continue
        for name in sorted(item.get(field) or {}):
            errors += check(name, f"{where}.{field}[{name}]")
            amounts.setdefault(name, {})[field] = Quantity(item[field][name])
    if kind == "PersistentVolumeClaim" and not amounts.get("storage", {}).keys() & {"min", "max"}:
        text = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(fe.required(f"{where}.limits", text))
    for name in sorted(amounts):
        errors += _order_errors(name, amounts[name], where)
    return errors


_ORDER = (
    ("min", "max", "min", "min", "min value {0} is greater than max value {1}"),
    (
        "min",
        "defaultRequest",
        "defaultRequest",
        "defaultRequest",
        "min value {0} is greater than default request value {1}",
    ),
    (
        "defaultRequest",
        "max",
        "defaultRequest",
        "defaultRequest",
        "default request value {0} is greater than max value {1}",
    ),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value {0} is greater than default limit value {1}",
    ),
    ("min", "default", "default", "min", "min value {0} is greater than default value {1}"),
    ("default", "max", "default", "max", "default value {0} is greater than max value {1}"),
)
"""Lower amount, upper amount, the field to blame, the amount to show, the sentence."""


def _order_errors(name: str, amounts: dict[str, Quantity], where: str) -> Errors:
    errors: Errors = []
    for lower, upper, field, shown, text in _ORDER:
        if lower in amounts and upper in amounts and amounts[lower] > amounts[upper]:
            path = f"{where}.{field}[{name}]"
            errors.append(fe.invalid(path, str(amounts[shown]), text.format(amounts[lower], amounts[upper])))
    ratio = amounts.get("maxLimitRequestRatio")
    if ratio is not None:
        path = f"{where}.maxLimitRequestRatio[{name}]"
        if ratio < Quantity(1):
            errors.append(fe.invalid(path, str(ratio), f"ratio {ratio} is less than 1"))
        if "min" in amounts and "max" in amounts and amounts["min"].nanos > 0:
            most = amounts["max"].nanos / amounts["min"].nanos
            if float(ratio) > most:
                text = f"ratio {ratio} is greater than max/min = {most:f}"
                errors.append(fe.invalid(path, str(ratio), text))
    default, request = amounts.get("default"), amounts.get("defaultRequest")
    if not may_overcommit(name) and default is not None and request is not None and default != request:
        text = f"default value {default} must equal to defaultRequest value {request} in {name}"
        errors.append(fe.invalid(f"{where}.defaultRequest[{name}]", str(request), text))
    return errors


def quota_cells(obj: Object) -> list[Any]:
    """The row of a quota."""
    status = obj.get("status") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name, hard in sorted((status.get("hard") or {}).items()):
        used = (status.get("used") or {}).get(name) or "0"
        (limits if name.startswith("limits.") else requests).append(f"{name}: {used}/{hard}")
    return [name_of(obj), ", ".join(requests), ", ".join(limits), age_of(obj)]


QUOTA_COLUMNS = (
    NAME,
    column(
        "Request",
        description="Request represents a minimum amount of cpu/memory that a container may consume.",
    ),
    column(
        "Limit",
        description="Limits control the maximum amount of cpu/memory that a container may use independent of "
        "contention on the node.",
    ),
    AGE,
)
