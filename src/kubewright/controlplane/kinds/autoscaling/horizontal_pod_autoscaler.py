"""HorizontalPodAutoscaler, stored as v2 and served as v2 and v1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubewright.api.gvk import GroupVersion
from kubewright.api.kubernetes_version import serving_version
from kubewright.api.values.quantity import Quantity
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.resource import Version
from kubewright.apiserver.resources.strategy import Operation
from kubewright.controlplane.kinds.core.podspec.resources import container_resource_errors
from kubewright.controlplane.kinds.kind import Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, NONE, UNKNOWN, UNSET, column, field, shown
from kubewright.controlplane.kinds.validation import (
    DNS_LABEL,
    NOT_NEGATIVE,
    PATH_SEGMENT,
    POSITIVE,
    Check,
    Enum,
    Errors,
    Maximum,
    Minimum,
    Required,
    Rules,
    Table,
    UpdateRules,
)
from kubewright.controlplane.kinds.validation.formats import NON_NEGATIVE
from kubewright.schema import field_errors as fe

from .versions import (
    DEFAULT_UTILIZATION,
    METRICS,
    AutoscalerConverter,
    cpu_metric,
    drop_conversion_annotations,
)

SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
"""Metric types, and the field with the source of each."""
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


class HorizontalPodAutoscalerStrategy(KindStrategy):
    """Applies the defaults of each version; removes annotations that carry fields of v2 through v1."""

    def default(self, version: Version, obj: Object) -> None:
        """Apply the defaults of a version."""
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
        """Complete fields that came in annotations, and remove these."""
        _default_v2(obj["spec"])
        metadata = drop_conversion_annotations(obj)["metadata"]
        if metadata is not obj["metadata"]:
            annotations = metadata.get("annotations")
            if annotations:
                obj["metadata"]["annotations"] = annotations
            else:
                obj["metadata"].pop("annotations", None)

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Treat updates like new objects."""
        self.prepare_for_create(op, obj)


# Replicas and scale target. The context of the rules is the old object, or `None`.


def _former_min_replicas_errors(value: int, path: str, old: Object | None) -> Errors:
    """Reject 0, except in objects that have it already: HPAScaleToZero is enabled since 1.37."""
    minimum = 0 if old is not None and field(old, path) == 0 else 1
    return Minimum(minimum).errors(value, path) if value < minimum else []


def _max_replicas_errors(spec: Object, path: str) -> Errors:
    low, high = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if low is None or high >= low:
        return []
    return [fe.invalid(f"{path}.maxReplicas", high, "must be greater than or equal to `minReplicas`")]


def _target_version_errors(target: Object, path: str, old: Object | None) -> Errors:
    before = field(old or {}, path, {})
    if old is not None and all(target.get(name) == before.get(name) for name in ("apiVersion", "kind")):
        return []
    return _version_errors(target, path, allow_core=target.get("kind") == "ReplicationController")


def _version_errors(reference: Object, path: str, *, allow_core: bool = True) -> Errors:
    text, path = reference.get("apiVersion") or "", f"{path}.apiVersion"
    if serving_version().includes("-1.33"):
        return []
    if text.count("/") > 1:
        return [fe.invalid(path, text, f"unexpected GroupVersion string: {text}")]
    if not allow_core and not (text and GroupVersion.parse(text).group):
        return [fe.invalid(path, text, "apiVersion must specify API group")]
    return []


def _scale_to_zero_errors(spec: Object, path: str) -> Errors:
    metrics = spec.get("metrics") or ()
    if spec.get("minReplicas") != 0 or any(one.get("type") in ("Object", "External") for one in metrics):
        return []
    text = "must specify at least one Object or External metric to support scaling to zero replicas"
    return [fe.forbidden(f"{path}.metrics", text)]


# Metrics


def _target_type_errors(value: str, path: str) -> Errors:
    errors: Errors = [] if value else [fe.required(path, "must specify a metric target type")]
    if value not in ("Utilization", "Value", "AverageValue"):
        errors.append(fe.invalid(path, value, "must be either Utilization, Value, or AverageValue"))
    return errors


def _positive_quantity(value: str, path: str) -> Errors:
    return [fe.invalid(path, value, "must be positive")] if Quantity(value).nanos <= 0 else []


def _non_negative_quantity(value: str, path: str) -> Errors:
    return [fe.invalid(path, value, NON_NEGATIVE)] if Quantity(value).nanos < 0 else []


def _object_target(target: Object, path: str) -> Errors:
    if target.get("value") is not None or target.get("averageValue") is not None:
        return []
    return [fe.required(f"{path}.averageValue", "must set either a target value or averageValue")]


def _external_target(target: Object, path: str) -> Errors:
    value, average = target.get("value"), target.get("averageValue")
    if value is None and average is None:
        text = "must set either a target value for metric or a per-pod target"
        return [fe.required(f"{path}.averageValue", text)]
    if value is not None and average is not None:
        text = "may not set both a target value for metric and a per-pod target"
        return [fe.forbidden(f"{path}.value", text)]
    return []


def _resource_target(target: Object, path: str) -> Errors:
    utilization, average = target.get("averageUtilization"), target.get("averageValue")
    if utilization is None and average is None:
        text = "must set either a target raw value or a target utilization"
        return [fe.required(f"{path}.averageUtilization", text)]
    if utilization is not None and average is not None:
        text = "may not set both a target raw value and a target utilization"
        return [fe.forbidden(f"{path}.averageValue", text)]
    return []


_REFERENCE: Table = {"kind": [Required(), PATH_SEGMENT], "name": [Required(), PATH_SEGMENT]}
_METRIC = [Required("must specify a metric name"), PATH_SEGMENT]
_RESOURCE_NAME = Required("must specify a resource name")
_TARGET: Table = {
    "type": Check(_target_type_errors, absent=""),
    "value": _positive_quantity,
    "averageValue": _positive_quantity,
    "averageUtilization": Minimum(1, "must be greater than 0"),
}
SOURCE_RULES = {
    "object": Rules(
        {
            "describedObject": [_REFERENCE, _version_errors],
            "metric.name": _METRIC,
            "target": [_TARGET, Check(_object_target, absent={})],
        }
    ),
    "external": Rules({"metric.name": _METRIC, "target": [_TARGET, Check(_external_target, absent={})]}),
    "pods": Rules(
        {
            "metric.name": _METRIC,
            "target": _TARGET,
            "target.averageValue": Required("must specify a positive target averageValue", pointer=True),
        }
    ),
    "resource": Rules({"name": _RESOURCE_NAME, "target": [_TARGET, Check(_resource_target, absent={})]}),
    "containerResource": Rules(
        {
            "name": [_RESOURCE_NAME, container_resource_errors],
            "container": [Required("must specify a container"), DNS_LABEL],
            "target": [_TARGET, Check(_resource_target, absent={})],
        }
    ),
}


def _metric_errors(metric: Object, path: str) -> Errors:
    kind, type_path = metric.get("type") or "", f"{path}.type"
    errors: Errors = [] if kind else [fe.required(type_path, "must specify a metric source type")]
    if kind not in SOURCES:
        errors.append(fe.not_supported(type_path, kind, SOURCES))
    present = [name for name in SOURCE_RULES if metric.get(name) is not None]
    for name in present[:1]:
        errors += SOURCE_RULES[name](metric[name], f"{path}.{name}")
    expected = SOURCES.get(kind)
    if expected is None:
        errors.append(fe.not_supported(type_path, kind, SOURCES))
    elif expected not in present:
        text = "must populate information for the given metric source"
        errors.append(fe.required(f"{path}.{expected}", text))
    if len(present) > 1:
        text = "must populate the given metric source only"
        errors += [fe.forbidden(f"{path}.{name}", text) for name in present if name != expected]
    return errors


_SCALING_RULES: Table = {
    "stabilizationWindowSeconds": [
        Minimum(0, "must be greater than or equal to zero"),
        Maximum(3600),
    ],
    "selectPolicy": Enum("Disabled", "Max", "Min"),
    "policies": Required("must specify at least one Policy"),
    "policies[*].type": Enum("Percent", "Pods", absent=""),
    "policies[*].value": POSITIVE,
    "policies[*].periodSeconds": [POSITIVE, Maximum(1800)],
    "tolerance": _non_negative_quantity,
}


def _rules(min_replicas: Check | Minimum) -> Rules:
    return Rules(
        {
            "spec": [
                {
                    "minReplicas": min_replicas,
                    "maxReplicas": [Required("must be set and greater than 0"), Minimum(1)],
                },
                _max_replicas_errors,
                {
                    "scaleTargetRef": [_REFERENCE, Check(_target_version_errors, absent={}, context=True)],
                    "metrics[*]": _metric_errors,
                },
                _scale_to_zero_errors,
                {"behavior.scaleUp?": _SCALING_RULES, "behavior.scaleDown?": _SCALING_RULES},
            ]
        }
    )


RULES = _rules(Minimum(0))
FORMER_RULES = _rules(Check(_former_min_replicas_errors, context=True))
STATUS_RULES = Rules(
    {
        "status.conditions[*].observedGeneration": NOT_NEGATIVE,
        "status.currentReplicas": NOT_NEGATIVE,
        "status.desiredReplicas": NOT_NEGATIVE,
    }
)


# Printing


def _as_v2(obj: Object) -> Object:
    if obj.get("apiVersion") == "autoscaling/v1":
        return AutoscalerConverter().convert([dict(obj)], "v1", "v2")[0]
    return obj


def _metric_texts(obj: Object) -> Iterator[str]:
    statuses = field(obj, "status.currentMetrics", [])
    for position, metric in enumerate(field(obj, "spec.metrics", ())):
        name = SOURCES.get(metric.get("type") or "")
        if name is None:
            yield "<unknown type>"
            continue
        source = metric.get(name) or {}
        current_values = field(statuses[position], f"{name}.current") if position < len(statuses) else None
        yield _metric_text(name, source, source.get("target") or {}, current_values)


def _metric_text(name: str, source: Object, target: Object, current_values: Any) -> str:
    has_average = target.get("averageValue") is not None

    def current(key: str, suffix: str = "") -> str:
        value = (current_values or {}).get(key)
        return UNKNOWN if value is None else f"{value}{suffix}"

    if name in ("resource", "containerResource"):
        if has_average:
            return f"{source.get('name', '')}: {current('averageValue')}/{target['averageValue']}"
        utilization = target.get("averageUtilization")
        goal = "<auto>" if utilization is None else f"{utilization}%"
        return f"{source.get('name', '')}: {current('averageUtilization', '%')}/{goal}"
    if name == "pods":
        return f"{current('averageValue')}/{target.get('averageValue', '0')}"
    if has_average:
        return f"{current('averageValue')}/{target['averageValue']} (avg)"
    return f"{current('value')}/{target.get('value', '0')}"


def _targets(obj: Object) -> str:
    texts = list(_metric_texts(_as_v2(obj)))
    first = ", ".join(texts[:2]) or NONE
    return f"{first} + {len(texts) - 2} more..." if len(texts) > 2 else first


def _reference(obj: Object) -> str:
    target = field(obj, "spec.scaleTargetRef", {})
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _min_pods(obj: Object) -> str:
    return str(field(obj, "spec.minReplicas", UNSET))


KINDS = {
    "horizontalpodautoscalers": Kind(
        strategy=HorizontalPodAutoscalerStrategy,
        validate=RULES,
        validate_update=lambda new, old: RULES(new, context=old),
        generation_fields=("spec",),
        former={
            "-1.36": {
                "generation_fields": None,
                "validate": FORMER_RULES,
                "validate_update": lambda new, old: FORMER_RULES(new, context=old),
            }
        },
        validate_status=UpdateRules(STATUS_RULES),
        converter=AutoscalerConverter(),
        columns=(
            column("Reference", _reference, description="Object that is scaled."),
            column("Targets", _targets, description="Current and target values of the metrics."),
            column("MinPods", _min_pods, description="Minimum number of replicas."),
            column("MaxPods", shown("spec.maxReplicas", 0), description="Maximum number of replicas."),
            column("Replicas", shown("status.currentReplicas", 0), description="Current number of replicas."),
            AGE,
        ),
    ),
}
