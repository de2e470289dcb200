"""LimitRange."""

from __future__ import annotations

import uuid

from kubewright.api.values import names
from kubewright.api.values.quantity import Quantity
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.strategy import Operation
from kubewright.controlplane.kinds.kind import Kind, KindStrategy
from kubewright.controlplane.kinds.validation import Check, Errors, Rules, Unique
from kubewright.schema import field_errors as fe

from .podspec.defaults import round_quantities
from .podspec.resources import container_resource_errors, may_overcommit, resource_name_errors

_AMOUNTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


class LimitRangeStrategy(KindStrategy):
    """Limit ranges: the server names those without a name."""

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """Generate a name."""
        if not obj["metadata"].get("name"):
            obj["metadata"]["name"] = op.name = str(uuid.uuid4())


def _default(obj: Object) -> None:
    """Derive limits of containers from the maximum, and requests from limits or the minimum."""
    for item in (obj.get("spec") or {}).get("limits") or ():
        for field in _AMOUNTS:
            round_quantities(item.get(field))
        if item.get("type") != "Container":
            continue
        default = {**(item.get("max") or {}), **(item.get("default") or {})}
        request = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
        if default:
            item["default"] = default
        if request:
            item["defaultRequest"] = request


def _check_type(kind: str, path: str) -> Errors:
    errors = [fe.invalid(path, kind, text) for text in names.check_qualified_name(kind)]
    if not errors and "/" not in kind and kind not in ("Pod", "Container", "PersistentVolumeClaim"):
        errors.append(fe.invalid(path, kind, "must be a standard limit type or fully qualified"))
    return errors


def _check_amounts(item: Object, where: str) -> Errors:
    kind = item.get("type") or ""
    errors: Errors = []
    check = container_resource_errors if kind in ("Pod", "Container") else resource_name_errors
    amounts: dict[str, dict[str, Quantity]] = {}
    for field in _AMOUNTS:
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
        errors += _check_order(name, amounts[name], where)
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
"""Lower amount, upper amount, field of the error, amount in the error, text."""


def _check_order(name: str, amounts: dict[str, Quantity], where: str) -> Errors:
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
            limit = amounts["max"].nanos / amounts["min"].nanos
            if float(ratio) > limit:
                text = f"ratio {ratio} is greater than max/min = {limit:f}"
                errors.append(fe.invalid(path, str(ratio), text))
    default, request = amounts.get("default"), amounts.get("defaultRequest")
    if not may_overcommit(name) and default is not None and request is not None and default != request:
        text = f"default value {default} must equal to defaultRequest value {request} in {name}"
        errors.append(fe.invalid(f"{where}.defaultRequest[{name}]", str(request), text))
    return errors


RULES = Rules({"spec.limits[*]": [{"type": Check(_check_type, absent="")}, Unique("type"), _check_amounts]})
KINDS = {
    "limitranges": Kind(
        strategy=LimitRangeStrategy, default=_default, validate=RULES, allow_create_on_update=True
    )
}
