"""Horizontal pod autoscalers: `autoscaling`, stored as v2, served as v2 and v1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubewright.api import names
from kubewright.api.gvk import GroupVersion
from kubewright.api.quantity import Quantity
from kubewright.apiserver.objects import Object
from kubewright.apiserver.resource import Version
from kubewright.apiserver.strategy import Operation
from kubewright.controlplane.kinds.core.podspec.resources import container_resource_errors
from kubewright.controlplane.kinds.kind import Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, NONE, UNKNOWN, UNSET, column, field, shown
from kubewright.controlplane.kinds.validation.formats import (
    NON_NEGATIVE,
    Errors,
    dns_label,
    named,
    non_negative,
)
from kubewright.schema import field_errors as fe

from .versions import DEFAULT_UTILIZATION, METRICS, AutoscalerVersions, cpu_metric, drop_carriers

SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_CHECK_ORDER = ("object", "external", "pods", "resource", "containerResource")
_SCALE_UP: Object = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN: Object = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}
_ONE_TARGET = "must set either a target raw value or a target utilization"


def _default_rules(behavior: Object, name: str, defaults: Object) -> None:
    given = {key: value for key, value in (behavior.get(name) or {}).items() if value is not None}
    policies = given.get("policies", [dict(one) for one in defaults["policies"]])
    behavior[name] = {**defaults, **given, "policies": policies}


def _default_v2(spec: Object) -> None:
    if not spec.get("metrics"):
        spec["metrics"] = [cpu_metric(DEFAULT_UTILIZATION)]
    behavior = spec.get("behavior")
    if behavior is not None:
        _default_rules(behavior, "scaleUp", _SCALE_UP)
        _default_rules(behavior, "scaleDown", _SCALE_DOWN)


class _AutoscalerStrategy(KindStrategy):
    def default(self, version: Version, obj: Object) -> None:
        """Both say which metric is used when none is named; v2 fills in the behaviour."""
        spec = obj.get("spec")
        if not isinstance(spec, dict):
            return
        if spec.get("minReplicas") is None:
            spec["minReplicas"] = 1
        if version.name != "v1":
            _default_v2(spec)
        elif METRICS not in (obj["metadata"].get("annotations") or {}):
            spec.setdefault("targetCPUUtilizationPercentage", DEFAULT_UTILIZATION)

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """Annotations that carry fields of v2 through v1 are not kept."""
        self.prepare_for_update(op, obj, obj)

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """The same; what they carried is completed."""
        _default_v2(obj["spec"])
        kept = drop_carriers(obj)["metadata"]
        if kept is not obj["metadata"]:
            annotations = kept.get("annotations")
            if annotations:
                obj["metadata"]["annotations"] = annotations
            else:
                obj["metadata"].pop("annotations", None)


def _errors(autoscaler: Object, old: Object | None = None) -> Errors:
    spec = autoscaler.get("spec") or {}
    errors: Errors = []
    low, high = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    bound = 0 if old is not None and field(old, "spec.minReplicas") == 0 else 1
    if low is not None and low < bound:
        text = f"must be greater than or equal to {bound}"
        errors.append(fe.invalid("spec.minReplicas", low, text))
    if high == 0:
        errors.append(fe.required("spec.maxReplicas", "must be set and greater than 0"))
    elif high < 0:
        errors.append(fe.invalid("spec.maxReplicas", high, "must be greater than or equal to 1"))
    if low is not None and high < low:
        text = "must be greater than or equal to `minReplicas`"
        errors.append(fe.invalid("spec.maxReplicas", high, text))
    errors += _target_errors(spec, old)
    metrics = spec.get("metrics") or []
    for position, metric in enumerate(metrics):
        errors += _metric_errors(metric, f"spec.metrics[{position}]")
    if low == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(fe.forbidden("spec.metrics", text))
    for name in ("scaleUp", "scaleDown"):
        rules = field(spec, f"behavior.{name}")
        if rules is not None:
            errors += _rule_errors(rules, f"spec.behavior.{name}")
    return errors


def _target_errors(spec: Object, old: Object | None) -> Errors:
    target = spec.get("scaleTargetRef") or {}
    before = field(old or {}, "spec.scaleTargetRef", {})
    same = old is not None and all(target.get(name) == before.get(name) for name in ("apiVersion", "kind"))
    errors = _reference_errors(target, "spec.scaleTargetRef")
    if not same:
        core = target.get("kind") == "ReplicationController"
        errors += _version_errors(target, "spec.scaleTargetRef", allow_core=core)
    return errors


def _reference_errors(reference: Object, path: str) -> Errors:
    errors: Errors = []
    for name in ("kind", "name"):
        if reference.get(name):
            errors += named(names.check_path_segment, reference[name], f"{path}.{name}")
        else:
            errors.append(fe.required(f"{path}.{name}", ""))
    return errors


def _version_errors(reference: Object, path: str, *, allow_core: bool) -> Errors:
    text = reference.get("apiVersion") or ""
    if text.count("/") > 1:
        return [fe.invalid(f"{path}.apiVersion", text, f"unexpected GroupVersion string: {text}")]
    if not allow_core and not (text and GroupVersion.parse(text).group):
        return [fe.invalid(f"{path}.apiVersion", text, "apiVersion must specify API group")]
    return []


def _metric_errors(metric: Object, path: str) -> Errors:
    kind, where = metric.get("type") or "", f"{path}.type"
    errors: Errors = [] if kind else [fe.required(where, "must specify a metric source type")]
    if kind not in SOURCES:
        errors.append(fe.not_supported(where, kind, SOURCES))
    present = [name for name in _CHECK_ORDER if metric.get(name) is not None]
    if present:
        errors += _SOURCE_CHECKS[present[0]](metric[present[0]], f"{path}.{present[0]}")
    expected = SOURCES.get(kind)
    if expected is None:
        errors.append(fe.not_supported(where, kind, SOURCES))
    elif expected not in present:
        text = "must populate information for the given metric source"
        errors.append(fe.required(f"{path}.{expected}", text))
    if len(present) != 1:
        for name in present:
            if name != expected:
                text = "must populate the given metric source only"
                errors.append(fe.forbidden(f"{path}.{name}", text))
    return errors


def _object_errors(source: Object, path: str) -> Errors:
    described, where = source.get("describedObject") or {}, f"{path}.describedObject"
    errors = _reference_errors(described, where) + _version_errors(described, where, allow_core=True)
    errors += _identifier_errors(source, path) + _metric_target_errors(source, path)
    target = source.get("target") or {}
    if target.get("value") is None and target.get("averageValue") is None:
        text = "must set either a target value or averageValue"
        errors.append(fe.required(f"{path}.target.averageValue", text))
    return errors


def _external_errors(source: Object, path: str) -> Errors:
    errors = _identifier_errors(source, path) + _metric_target_errors(source, path)
    target = source.get("target") or {}
    value, average = target.get("value"), target.get("averageValue")
    if value is None and average is None:
        text = "must set either a target value for metric or a per-pod target"
        errors.append(fe.required(f"{path}.target.averageValue", text))
    if value is not None and average is not None:
        text = "may not set both a target value for metric and a per-pod target"
        errors.append(fe.forbidden(f"{path}.target.value", text))
    return errors


def _pods_errors(source: Object, path: str) -> Errors:
    errors = _identifier_errors(source, path) + _metric_target_errors(source, path)
    if field(source, "target.averageValue") is None:
        text = "must specify a positive target averageValue"
        errors.append(fe.required(f"{path}.target.averageValue", text))
    return errors


def _resource_errors(source: Object, path: str) -> Errors:
    missing = [] if source.get("name") else [fe.required(f"{path}.name", "must specify a resource name")]
    return missing + _metric_target_errors(source, path) + _utilization_errors(source, path)


def _container_errors(source: Object, path: str) -> Errors:
    name, container = source.get("name") or "", source.get("container") or ""
    errors: Errors = []
    if name:
        errors += container_resource_errors(name, f"{path}.name")
    else:
        errors.append(fe.required(f"{path}.name", "must specify a resource name"))
    if container:
        errors += dns_label(container, f"{path}.container")
    else:
        errors.append(fe.required(f"{path}.container", "must specify a container"))
    return errors + _metric_target_errors(source, path) + _utilization_errors(source, path)


_SOURCE_CHECKS = {
    "object": _object_errors,
    "external": _external_errors,
    "pods": _pods_errors,
    "resource": _resource_errors,
    "containerResource": _container_errors,
}


def _utilization_errors(source: Object, path: str) -> Errors:
    target = source.get("target") or {}
    utilization, average = target.get("averageUtilization"), target.get("averageValue")
    if utilization is None and average is None:
        return [fe.required(f"{path}.target.averageUtilization", _ONE_TARGET)]
    if utilization is not None and average is not None:
        text = "may not set both a target raw value and a target utilization"
        return [fe.forbidden(f"{path}.target.averageValue", text)]
    return []


def _identifier_errors(source: Object, path: str) -> Errors:
    name = field(source, "metric.name", "")
    if not name:
        return [fe.required(f"{path}.metric.name", "must specify a metric name")]
    return named(names.check_path_segment, name, f"{path}.metric.name")


def _metric_target_errors(source: Object, path: str) -> Errors:
    target, path = source.get("target") or {}, f"{path}.target"
    kind = target.get("type") or ""
    errors: Errors = [] if kind else [fe.required(f"{path}.type", "must specify a metric target type")]
    if kind not in ("Utilization", "Value", "AverageValue"):
        text = "must be either Utilization, Value, or AverageValue"
        errors.append(fe.invalid(f"{path}.type", kind, text))
    for name in ("value", "averageValue"):
        value = target.get(name)
        if value is not None and Quantity(value).nanos <= 0:
            errors.append(fe.invalid(f"{path}.{name}", value, "must be positive"))
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        errors.append(fe.invalid(f"{path}.averageUtilization", utilization, "must be greater than 0"))
    return errors


def _rule_errors(rules: Object, path: str) -> Errors:
    errors: Errors = []
    window, where = rules.get("stabilizationWindowSeconds"), f"{path}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        errors.append(fe.invalid(where, window, "must be greater than or equal to zero"))
    if window is not None and window > 3600:
        errors.append(fe.invalid(where, window, "must be less than or equal to 3600"))
    choice, choices = rules.get("selectPolicy"), ("Disabled", "Max", "Min")
    if choice is not None and choice not in choices:
        errors.append(fe.not_supported(f"{path}.selectPolicy", choice, choices))
    if not rules.get("policies"):
        errors.append(fe.required(f"{path}.policies", "must specify at least one Policy"))
    for position, policy in enumerate(rules.get("policies") or ()):
        errors += _policy_errors(policy, f"{path}.policies[{position}]")
    tolerance = rules.get("tolerance")
    if tolerance is not None and Quantity(tolerance).nanos < 0:
        errors.append(fe.invalid(f"{path}.tolerance", tolerance, NON_NEGATIVE))
    return errors


def _policy_errors(policy: Object, path: str) -> Errors:
    errors: Errors = []
    kind, value, period = policy.get("type") or "", policy.get("value") or 0, policy.get("periodSeconds") or 0
    if kind not in ("Pods", "Percent"):
        errors.append(fe.not_supported(f"{path}.type", kind, ("Percent", "Pods")))
    if value <= 0:
        errors.append(fe.invalid(f"{path}.value", value, "must be greater than zero"))
    if period <= 0:
        errors.append(fe.invalid(f"{path}.periodSeconds", period, "must be greater than zero"))
    if period > 1800:
        errors.append(fe.invalid(f"{path}.periodSeconds", period, "must be less than or equal to 1800"))
    return errors


def _status_errors(new: Object, old: Object) -> Errors:
    status = new.get("status") or {}
    errors: Errors = []
    for position, condition in enumerate(status.get("conditions") or ()):
        where = f"status.conditions[{position}].observedGeneration"
        errors += non_negative(condition.get("observedGeneration"), where)
    for name in ("currentReplicas", "desiredReplicas"):
        errors += non_negative(status.get(name), f"status.{name}")
    return errors


# Printing: rows are made of objects as v2 has them.


def _as_v2(autoscaler: Object) -> Object:
    if autoscaler.get("apiVersion") == "autoscaling/v1":
        return AutoscalerVersions().convert([dict(autoscaler)], "v1", "v2")[0]
    return autoscaler


def _metric_texts(autoscaler: Object) -> Iterator[str]:
    current = field(autoscaler, "status.currentMetrics", [])
    for position, metric in enumerate(field(autoscaler, "spec.metrics", ())):
        name = SOURCES.get(metric.get("type") or "")
        if name is None:
            yield "<unknown type>"
            continue
        source = metric.get(name) or {}
        measured = field(current[position], f"{name}.current") if position < len(current) else None
        yield _metric_text(name, source, source.get("target") or {}, measured)


def _metric_text(name: str, source: Object, target: Object, measured: Any) -> str:
    by_average = target.get("averageValue") is not None

    def now(key: str, suffix: str = "") -> str:
        found = (measured or {}).get(key)
        return UNKNOWN if found is None else f"{found}{suffix}"

    if name in ("resource", "containerResource"):
        if by_average:
            return f"{source.get('name', '')}: {now('averageValue')}/{target['averageValue']}"
        wanted = target.get("averageUtilization")
        goal = "<auto>" if wanted is None else f"{wanted}%"
        return f"{source.get('name', '')}: {now('averageUtilization', '%')}/{goal}"
    if name == "pods":
        return f"{now('averageValue')}/{target.get('averageValue', '0')}"
    if by_average:
        return f"{now('averageValue')}/{target['averageValue']} (avg)"
    return f"{now('value')}/{target.get('value', '0')}"


def _targets(autoscaler: Object) -> str:
    texts = list(_metric_texts(_as_v2(autoscaler)))
    first = ", ".join(texts[:2]) or NONE
    return f"{first} + {len(texts) - 2} more..." if len(texts) > 2 else first


def _reference(autoscaler: Object) -> str:
    target = field(autoscaler, "spec.scaleTargetRef", {})
    return f"{target.get('kind', '')}/{target.get('name', '')}"


KINDS = {
    "horizontalpodautoscalers": Kind(
        strategy=_AutoscalerStrategy,
        validate=_errors,
        validate_update=_errors,
        validate_status=_status_errors,
        converter=AutoscalerVersions(),
        columns=(
            column("Reference", _reference, description="What is scaled."),
            column("Targets", _targets, description="What is measured, and what it should be."),
            column(
                "MinPods",
                lambda obj: str(field(obj, "spec.minReplicas", UNSET)),
                description="The fewest replicas.",
            ),
            column("MaxPods", shown("spec.maxReplicas", 0), description="The most replicas."),
            column("Replicas", shown("status.currentReplicas", 0), description="Replicas that there are."),
            AGE,
        ),
    ),
}
