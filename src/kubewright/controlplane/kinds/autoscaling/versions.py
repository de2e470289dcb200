"""Conversion of HorizontalPodAutoscalers between `autoscaling/v1` and `v2` without loss.

v1 has a field for the CPU target only. All other fields of v2 (other metrics, behavior, current metrics,
conditions) are stored as JSON in annotations of v1, in the format of kube-apiserver: metrics in their v1
form, the behavior with capitalized names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kubewright.api.builtin.schemas import as_typed
from kubewright.api.gvk import GroupVersionKind
from kubewright.apiserver.resources.objects import Object

METRICS = "autoscaling.alpha.kubernetes.io/metrics"
BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"
CURRENT_METRICS = "autoscaling.alpha.kubernetes.io/current-metrics"
CONDITIONS = "autoscaling.alpha.kubernetes.io/conditions"
CONVERSION_ANNOTATIONS = (
    METRICS,
    BEHAVIOR,
    CURRENT_METRICS,
    CONDITIONS,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
)
DEFAULT_UTILIZATION = 80
_V2 = GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler")


class _Field(NamedTuple):
    """A field of a metric: its name in v1, its path in v2, and the value in v1 if it is missing in v2."""

    v1: str
    v2: str
    zero: Any = None


_METRIC_NAME = _Field("metricName", "metric.name", "")
_SELECTOR = _Field("selector", "metric.selector")
_METRIC_SELECTOR = _Field("metricSelector", "metric.selector")
_DESCRIBED = _Field("target", "describedObject", {})
_RESOURCE_NAME = _Field("name", "name", "")
_CONTAINER = _Field("container", "container", "")
_TARGET = (
    _RESOURCE_NAME,
    _Field("targetAverageUtilization", "target.averageUtilization"),
    _Field("targetAverageValue", "target.averageValue"),
)
_CURRENT = (
    _RESOURCE_NAME,
    _Field("currentAverageUtilization", "current.averageUtilization"),
    _Field("currentAverageValue", "current.averageValue", "0"),
)
_Sources = Mapping[str, tuple[_Field, ...]]
_SPEC_SOURCES: _Sources = {
    "object": (
        _DESCRIBED,
        _METRIC_NAME,
        _Field("targetValue", "target.value", "0"),
        _SELECTOR,
        _Field("averageValue", "target.averageValue"),
    ),
    "pods": (_METRIC_NAME, _Field("targetAverageValue", "target.averageValue", "0"), _SELECTOR),
    "resource": _TARGET,
    "containerResource": (*_TARGET, _CONTAINER),
    "external": (
        _METRIC_NAME,
        _METRIC_SELECTOR,
        _Field("targetValue", "target.value"),
        _Field("targetAverageValue", "target.averageValue"),
    ),
}
"""Fields of metric sources, in the order of the JSON of v1."""
_STATUS_SOURCES: _Sources = {
    "object": (
        _DESCRIBED,
        _METRIC_NAME,
        _Field("currentValue", "current.value", "0"),
        _SELECTOR,
        _Field("averageValue", "current.averageValue"),
    ),
    "pods": (_METRIC_NAME, _Field("currentAverageValue", "current.averageValue", "0"), _SELECTOR),
    "resource": _CURRENT,
    "containerResource": (*_CURRENT, _CONTAINER),
    "external": (
        _METRIC_NAME,
        _METRIC_SELECTOR,
        _Field("currentValue", "current.value", "0"),
        _Field("currentAverageValue", "current.averageValue"),
    ),
}


class AutoscalerConverter:
    """Converts HorizontalPodAutoscalers."""

    def convert(self, objects: list[Object], from_version: str, to_version: str) -> list[Object]:
        """Return the objects in `to_version`."""
        if from_version == to_version:
            return objects
        step = to_v1 if to_version == "v1" else to_v2
        return [{**step(obj), "apiVersion": f"autoscaling/{to_version}"} for obj in objects]


def drop_conversion_annotations(obj: Object) -> Object:
    """Return the object without the annotations that carry fields of v2."""
    metadata = obj.get("metadata") or {}
    annotations = metadata.get("annotations")
    if not annotations or not any(name in annotations for name in CONVERSION_ANNOTATIONS):
        return obj
    kept = {key: value for key, value in annotations.items() if key not in CONVERSION_ANNOTATIONS}
    metadata = {key: value for key, value in metadata.items() if key != "annotations"}
    if kept:
        metadata["annotations"] = kept
    return {**obj, "metadata": metadata}


def cpu_metric(utilization: int) -> Object:
    """Return the metric that v1 has a field for."""
    target = {"type": "Utilization", "averageUtilization": utilization}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _cpu_utilization(metric: Object) -> int | None:
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    return (resource.get("target") or {}).get("averageUtilization")


def _without_none(**fields: Any) -> Object:
    return {name: value for name, value in fields.items() if value is not None}


# From v2 to v1


def to_v1(obj: Object) -> Object:
    """Convert from v2 to v1."""
    obj = drop_conversion_annotations(obj)
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    metrics = spec.get("metrics") or []
    utilizations = [_cpu_utilization(metric) for metric in metrics]
    others = [metric for metric, cpu in zip(metrics, utilizations, strict=True) if cpu is None]
    cpu = [utilization for utilization in utilizations if utilization is not None]
    annotations: dict[str, str] = {}
    if others:
        annotations[METRICS] = _compact([_metric_to_v1(one, _SPEC_SOURCES) for one in others])
    if status.get("currentMetrics"):
        current = [_metric_to_v1(one, _STATUS_SOURCES) for one in status["currentMetrics"]]
        annotations[CURRENT_METRICS] = _compact(current)
    if spec.get("behavior") is not None:
        rules = {name: _rules_to_v1(spec["behavior"].get(name)) for name in ("scaleUp", "scaleDown")}
        annotations[BEHAVIOR] = _compact(_rename_keys(rules, str.upper))
    if status.get("conditions"):
        annotations[CONDITIONS] = _compact([_condition_to_v1(one) for one in status["conditions"]])
    metadata = dict(obj.get("metadata") or {})
    if annotations:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    new_spec = _without_none(
        scaleTargetRef=spec.get("scaleTargetRef"),
        minReplicas=spec.get("minReplicas"),
        maxReplicas=spec.get("maxReplicas"),
        targetCPUUtilizationPercentage=cpu[0] if cpu else None,
    )
    new_status = _without_none(
        observedGeneration=status.get("observedGeneration"),
        lastScaleTime=status.get("lastScaleTime"),
        currentReplicas=status.get("currentReplicas", 0),
        desiredReplicas=status.get("desiredReplicas", 0),
        currentCPUUtilizationPercentage=_current_cpu(status),
    )
    return {**obj, "metadata": metadata, "spec": new_spec, "status": new_status}


def _current_cpu(status: Object) -> int | None:
    found = None
    for metric in status.get("currentMetrics") or ():
        resource = metric.get("resource") or {}
        if metric.get("type") == "Resource" and resource.get("name") == "cpu":
            found = (resource.get("current") or {}).get("averageUtilization", found)
    return found


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _metric_to_v1(metric: Object, sources: _Sources) -> Object:
    converted: Object = {"type": metric.get("type", "")}
    for name, fields in sources.items():
        source = metric.get(name)
        if source is not None:
            values = {field.v1: _value_at(source, field.v2) for field in fields}
            zeros = {
                field.v1: field.zero for field in fields if not values[field.v1] and field.zero is not None
            }
            converted[name] = _without_none(**{**values, **zeros})
    return converted


def _value_at(obj: Object, path: str) -> Any:
    value: Any = obj
    for name in path.split("."):
        value = (value or {}).get(name)
    return value


def _condition_to_v1(condition: Object) -> Object:
    return {
        "type": condition.get("type", ""),
        "status": condition.get("status", ""),
        "lastTransitionTime": condition.get("lastTransitionTime"),
        **_without_none(
            reason=condition.get("reason") or None,
            message=condition.get("message") or None,
            observedGeneration=condition.get("observedGeneration"),
        ),
    }


def _rules_to_v1(rules: Object | None) -> Object | None:
    if rules is None:
        return None
    empty = {"type": "", "value": 0, "periodSeconds": 0}
    policies = rules.get("policies")
    return {
        "stabilizationWindowSeconds": rules.get("stabilizationWindowSeconds"),
        "selectPolicy": rules.get("selectPolicy"),
        "policies": None if policies is None else [{**empty, **policy} for policy in policies],
        "tolerance": rules.get("tolerance"),
    }


def _rename_keys(value: Any, case: Callable[[str], str]) -> Any:
    """Return a value with the first letter of all keys in another case."""
    if isinstance(value, dict):
        return {case(key[:1]) + key[1:]: _rename_keys(item, case) for key, item in value.items()}
    return [_rename_keys(item, case) for item in value] if isinstance(value, list) else value


# From v1 to v2


def to_v2(obj: Object) -> Object:
    """Convert from v1 to v2. Malformed annotations are dropped."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    target = spec.get("targetCPUUtilizationPercentage")
    metrics = _read_list(annotations, METRICS, "spec", "metrics", _metric_to_v2) or []
    if target is not None:
        metrics.append(cpu_metric(target))
    new_spec = _without_none(
        scaleTargetRef=spec.get("scaleTargetRef"),
        minReplicas=spec.get("minReplicas"),
        maxReplicas=spec.get("maxReplicas"),
        metrics=metrics or [cpu_metric(DEFAULT_UTILIZATION)],
        behavior=_read_behavior(annotations),
    )
    current = status.get("currentCPUUtilizationPercentage")
    current_metrics = _read_list(
        annotations, CURRENT_METRICS, "status", "currentMetrics", _metric_status_to_v2
    )
    if current_metrics is None and current is not None:
        cpu = {"name": "cpu", "current": {"averageUtilization": current}}
        current_metrics = [{"type": "Resource", "resource": cpu}]
    new_status = _without_none(
        observedGeneration=status.get("observedGeneration"),
        lastScaleTime=status.get("lastScaleTime"),
        currentReplicas=status.get("currentReplicas"),
        desiredReplicas=status.get("desiredReplicas", 0),
        currentMetrics=current_metrics,
        conditions=_read_list(annotations, CONDITIONS, "status", "conditions", dict),
    )
    return {**drop_conversion_annotations(obj), "spec": new_spec, "status": new_status}


def _read_list(
    annotations: Object, name: str, part: str, key: str, convert: Callable[[Any], Object]
) -> list[Object] | None:
    """Return the list in an annotation, or `None` if it does not match the type of the field."""
    text = annotations.get(name)
    if text is None:
        return None
    try:
        items = [convert(item) for item in json.loads(text)]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return items if _matches_type(part, key, items) else None


def _matches_type(part: str, key: str, value: Any) -> bool:
    try:
        as_typed(_V2, {part: {key: value}})
    except (ValueError, TypeError, RecursionError):
        return False
    return True


def _source_to_v2(source: Object, fields: tuple[_Field, ...]) -> Object:
    converted: Object = {}
    for field in fields:
        value = source.get(field.v1)
        if value is None and field.zero in ("", {}):
            value = field.zero
        parent, _, name = field.v2.rpartition(".")
        values = converted.setdefault(parent, {}) if parent else converted
        if value is not None:
            values[name] = value
    return converted


def _metric_to_v2(metric: Object) -> Object:
    converted: Object = {"type": metric.get("type", "")}
    for name, fields in _SPEC_SOURCES.items():
        if metric.get(name) is not None:
            source = converted[name] = _source_to_v2(metric[name], fields)
            source["target"] = _target_with_type(name, source["target"])
    return converted


def _target_with_type(source: str, target: Object) -> Object:
    """Return a target with its type, which v1 does not store, and without zeros that v1 adds."""
    value, average = target.get("value"), target.get("averageValue")
    if source == "object":
        if average is None:
            return {"type": "Value", "value": value or "0"}
        kept = {"averageValue": average} if value in (None, "0") else target
        return {"type": "AverageValue", **kept}
    if source == "pods":
        return {"type": "AverageValue", "averageValue": average or "0"}
    if source == "external":
        return {"type": "AverageValue" if value is None else "Value", **target}
    return {"type": "AverageValue" if target.get("averageUtilization") is None else "Utilization", **target}


def _metric_status_to_v2(metric: Object) -> Object:
    converted: Object = {"type": metric.get("type", "")}
    for name, fields in _STATUS_SOURCES.items():
        if metric.get(name) is not None:
            converted[name] = _source_to_v2(metric[name], fields)
    return converted


def _read_behavior(annotations: Object) -> Object | None:
    text = annotations.get(BEHAVIOR)
    if text is None:
        return None
    names = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")
    try:
        behavior = {
            name: _without_none(**{key: rules.get(key) for key in names})
            for name, rules in _rename_keys(json.loads(text), str.lower).items()
            if name in ("scaleUp", "scaleDown") and rules is not None
        }
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return behavior if behavior and _matches_type("spec", "behavior", behavior) else None
