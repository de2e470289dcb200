"""Conversion of HorizontalPodAutoscalers between `autoscaling/v1` and `v2` without loss.

v1 has a field for the CPU target only. All other fields of v2 (other metrics, behavior, current metrics,
conditions) are stored as JSON in annotations of v1, in the format of kube-apiserver: metrics in their v1
form, the behavior with capitalized names.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from kubewright.api.builtin_schemas import as_typed
from kubewright.api.gvk import GroupVersionKind
from kubewright.apiserver.objects import Object

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
_SOURCES = ("object", "pods", "resource", "containerResource", "external")


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


def _set_fields(**fields: Any) -> Object:
    return {name: value for name, value in fields.items() if value is not None}


def _is_cpu_utilization(metric: Object) -> bool:
    resource = metric.get("resource") or {}
    target = resource.get("target") or {}
    return (
        metric.get("type") == "Resource"
        and resource.get("name") == "cpu"
        and target.get("averageUtilization") is not None
    )


def cpu_metric(utilization: int) -> Object:
    """Return the metric that v1 has a field for."""
    target = {"type": "Utilization", "averageUtilization": utilization}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


# From v2 to v1


def to_v1(obj: Object) -> Object:
    """Convert from v2 to v1."""
    obj = drop_conversion_annotations(obj)
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    annotations_out: dict[str, str] = {}
    metrics = spec.get("metrics") or []
    others = [_metric_to_v1(metric) for metric in metrics if not _is_cpu_utilization(metric)]
    if others:
        annotations_out[METRICS] = _compact(others)
    if status.get("currentMetrics"):
        annotations_out[CURRENT_METRICS] = _compact([_status_to_v1(one) for one in status["currentMetrics"]])
    if spec.get("behavior") is not None:
        annotations_out[BEHAVIOR] = _compact(_behavior_to_v1(spec["behavior"]))
    if status.get("conditions"):
        annotations_out[CONDITIONS] = _compact([_condition_to_v1(one) for one in status["conditions"]])
    cpu = [
        metric["resource"]["target"]["averageUtilization"]
        for metric in metrics
        if _is_cpu_utilization(metric)
    ]
    new_spec = _set_fields(
        scaleTargetRef=spec.get("scaleTargetRef"),
        minReplicas=spec.get("minReplicas"),
        maxReplicas=spec.get("maxReplicas"),
        targetCPUUtilizationPercentage=cpu[0] if cpu else None,
    )
    new_status = _set_fields(
        observedGeneration=status.get("observedGeneration"),
        lastScaleTime=status.get("lastScaleTime"),
        currentReplicas=status.get("currentReplicas", 0),
        desiredReplicas=status.get("desiredReplicas", 0),
        currentCPUUtilizationPercentage=_current_cpu(status),
    )
    metadata = dict(obj.get("metadata") or {})
    if annotations_out:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations_out}
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


def _metric_to_v1(metric: Object) -> Object:
    made: Object = {"type": metric.get("type", "")}
    for name in _SOURCES:
        source = metric.get(name)
        if source is not None:
            made[name] = _SOURCE_TO_V1[name](source, source.get("target") or {}, source.get("metric") or {})
    return made


_Step = Callable[[Object, Object, Object], Object]

_SOURCE_TO_V1: dict[str, _Step] = {
    "object": lambda source, target, metric: {
        "target": source.get("describedObject") or {},
        "metricName": metric.get("name", ""),
        "targetValue": target.get("value") or "0",
        **_set_fields(selector=metric.get("selector"), averageValue=target.get("averageValue")),
    },
    "pods": lambda source, target, metric: {
        "metricName": metric.get("name", ""),
        "targetAverageValue": target.get("averageValue") or "0",
        **_set_fields(selector=metric.get("selector")),
    },
    "resource": lambda source, target, metric: {
        "name": source.get("name", ""),
        **_set_fields(
            targetAverageUtilization=target.get("averageUtilization"),
            targetAverageValue=target.get("averageValue"),
        ),
    },
    "containerResource": lambda source, target, metric: {
        "name": source.get("name", ""),
        **_set_fields(
            targetAverageUtilization=target.get("averageUtilization"),
            targetAverageValue=target.get("averageValue"),
        ),
        "container": source.get("container", ""),
    },
    "external": lambda source, target, metric: {
        "metricName": metric.get("name", ""),
        **_set_fields(
            metricSelector=metric.get("selector"),
            targetValue=target.get("value"),
            targetAverageValue=target.get("averageValue"),
        ),
    },
}


def _status_to_v1(metric: Object) -> Object:
    made: Object = {"type": metric.get("type", "")}
    for name in _SOURCES:
        source = metric.get(name)
        if source is not None:
            made[name] = _STATUS_TO_V1[name](source, source.get("current") or {}, source.get("metric") or {})
    return made


_STATUS_TO_V1: dict[str, _Step] = {
    "object": lambda source, current, metric: {
        "target": source.get("describedObject") or {},
        "metricName": metric.get("name", ""),
        "currentValue": current.get("value") or "0",
        **_set_fields(selector=metric.get("selector"), averageValue=current.get("averageValue")),
    },
    "pods": lambda source, current, metric: {
        "metricName": metric.get("name", ""),
        "currentAverageValue": current.get("averageValue") or "0",
        **_set_fields(selector=metric.get("selector")),
    },
    "resource": lambda source, current, metric: {
        "name": source.get("name", ""),
        **_set_fields(currentAverageUtilization=current.get("averageUtilization")),
        "currentAverageValue": current.get("averageValue") or "0",
    },
    "containerResource": lambda source, current, metric: {
        "name": source.get("name", ""),
        **_set_fields(currentAverageUtilization=current.get("averageUtilization")),
        "currentAverageValue": current.get("averageValue") or "0",
        "container": source.get("container", ""),
    },
    "external": lambda source, current, metric: {
        "metricName": metric.get("name", ""),
        **_set_fields(metricSelector=metric.get("selector")),
        "currentValue": current.get("value") or "0",
        **_set_fields(currentAverageValue=current.get("averageValue")),
    },
}


def _condition_to_v1(condition: Object) -> Object:
    return {
        "type": condition.get("type", ""),
        "status": condition.get("status", ""),
        "lastTransitionTime": condition.get("lastTransitionTime"),
        **_set_fields(
            reason=condition.get("reason") or None,
            message=condition.get("message") or None,
            observedGeneration=condition.get("observedGeneration"),
        ),
    }


def _behavior_to_v1(behavior: Object) -> Object:
    return {
        "ScaleUp": _rules_to_v1(behavior.get("scaleUp")),
        "ScaleDown": _rules_to_v1(behavior.get("scaleDown")),
    }


def _rules_to_v1(rules: Object | None) -> Object | None:
    if rules is None:
        return None
    policies = rules.get("policies")
    return {
        "StabilizationWindowSeconds": rules.get("stabilizationWindowSeconds"),
        "SelectPolicy": rules.get("selectPolicy"),
        "Policies": None
        if policies is None
        else [
            {
                "Type": one.get("type", ""),
                "Value": one.get("value", 0),
                "PeriodSeconds": one.get("periodSeconds", 0),
            }
            for one in policies
        ],
        "Tolerance": rules.get("tolerance"),
    }


# From v1 to v2


def to_v2(obj: Object) -> Object:
    """Convert from v1 to v2. Malformed annotations are dropped."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    target = spec.get("targetCPUUtilizationPercentage")
    cpu = [cpu_metric(target)] if target is not None else []
    others = _read(annotations, METRICS, "spec", "metrics", _metric_to_v2)
    metrics = (others or []) + cpu
    behavior = _read_behavior(annotations)
    new_spec = _set_fields(
        scaleTargetRef=spec.get("scaleTargetRef"),
        minReplicas=spec.get("minReplicas"),
        maxReplicas=spec.get("maxReplicas"),
        metrics=metrics or [cpu_metric(DEFAULT_UTILIZATION)],
        behavior=behavior,
    )
    current = status.get("currentCPUUtilizationPercentage")
    measured = _read(annotations, CURRENT_METRICS, "status", "currentMetrics", _status_to_v2)
    if measured is None and current is not None:
        shown = {"name": "cpu", "current": {"averageUtilization": current}}
        measured = [{"type": "Resource", "resource": shown}]
    new_status = _set_fields(
        observedGeneration=status.get("observedGeneration"),
        lastScaleTime=status.get("lastScaleTime"),
        currentReplicas=status.get("currentReplicas"),
        desiredReplicas=status.get("desiredReplicas", 0),
        currentMetrics=measured,
        conditions=_read(annotations, CONDITIONS, "status", "conditions", dict),
    )
    return {**drop_conversion_annotations(obj), "spec": new_spec, "status": new_status}


def _read(
    annotations: Object, name: str, part: str, key: str, step: Callable[[Any], Object]
) -> list[Object] | None:
    """Return the list in an annotation, or `None` if it does not match the type of the field."""
    text = annotations.get(name)
    if text is None:
        return None
    try:
        read = [step(one) for one in json.loads(text)]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return read if _fits(part, key, read) else None


def _fits(part: str, key: str, value: Any) -> bool:
    try:
        as_typed(_V2, {part: {key: value}})
    except (ValueError, TypeError, RecursionError):
        return False
    return True


def _metric_to_v2(metric: Object) -> Object:
    made: Object = {"type": metric.get("type", "")}
    for name in _SOURCES:
        if metric.get(name) is not None:
            made[name] = _SOURCE_TO_V2[name](metric[name])
    return made


def _identifier(source: Object, selector: str = "selector") -> Object:
    return {"name": source.get("metricName", ""), **_set_fields(selector=source.get(selector))}


def _resource_target(source: Object) -> Object:
    utilization = source.get("targetAverageUtilization")
    return {
        "type": "AverageValue" if utilization is None else "Utilization",
        **_set_fields(averageValue=source.get("targetAverageValue"), averageUtilization=utilization),
    }


def _object_target(source: Object) -> Object:
    average, value = source.get("averageValue"), source.get("targetValue")
    if average is None:
        return {"type": "Value", "value": value or "0"}
    return {
        "type": "AverageValue",
        **_set_fields(value=value if value not in (None, "0") else None, averageValue=average),
    }


_SOURCE_TO_V2: dict[str, Callable[[Object], Object]] = {
    "object": lambda source: {
        "describedObject": source.get("target") or {},
        "target": _object_target(source),
        "metric": _identifier(source),
    },
    "pods": lambda source: {
        "metric": _identifier(source),
        "target": {"type": "AverageValue", "averageValue": source.get("targetAverageValue") or "0"},
    },
    "resource": lambda source: {"name": source.get("name", ""), "target": _resource_target(source)},
    "containerResource": lambda source: {
        "name": source.get("name", ""),
        "target": _resource_target(source),
        "container": source.get("container", ""),
    },
    "external": lambda source: {
        "metric": _identifier(source, "metricSelector"),
        "target": {
            "type": "AverageValue" if source.get("targetValue") is None else "Value",
            **_set_fields(value=source.get("targetValue"), averageValue=source.get("targetAverageValue")),
        },
    },
}


def _status_to_v2(metric: Object) -> Object:
    made: Object = {"type": metric.get("type", "")}
    for name in _SOURCES:
        if metric.get(name) is not None:
            made[name] = _STATUS_TO_V2[name](metric[name])
    return made


def _resource_status(source: Object) -> Object:
    return _set_fields(
        averageValue=source.get("currentAverageValue"),
        averageUtilization=source.get("currentAverageUtilization"),
    )


_STATUS_TO_V2: dict[str, Callable[[Object], Object]] = {
    "object": lambda source: {
        "metric": _identifier(source),
        "current": _set_fields(value=source.get("currentValue"), averageValue=source.get("averageValue")),
        "describedObject": source.get("target") or {},
    },
    "pods": lambda source: {
        "metric": _identifier(source),
        "current": _set_fields(averageValue=source.get("currentAverageValue")),
    },
    "resource": lambda source: {"name": source.get("name", ""), "current": _resource_status(source)},
    "containerResource": lambda source: {
        "name": source.get("name", ""),
        "current": _resource_status(source),
        "container": source.get("container", ""),
    },
    "external": lambda source: {
        "metric": _identifier(source, "metricSelector"),
        "current": _set_fields(
            value=source.get("currentValue"), averageValue=source.get("currentAverageValue")
        ),
    },
}


def _read_behavior(annotations: Object) -> Object | None:
    text = annotations.get(BEHAVIOR)
    if text is None:
        return None
    try:
        made = {
            name: _rules_in(found)
            for name, found in _lower_keys(json.loads(text)).items()
            if name in ("scaleUp", "scaleDown") and found is not None
        }
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return made if made and _fits("spec", "behavior", made) else None


def _lower_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key[:1].lower() + key[1:]: _lower_keys(item) for key, item in value.items()}
    return [_lower_keys(item) for item in value] if isinstance(value, list) else value


def _rules_in(rules: Object) -> Object:
    return _set_fields(
        stabilizationWindowSeconds=rules.get("stabilizationWindowSeconds"),
        selectPolicy=rules.get("selectPolicy"),
        policies=rules.get("policies"),
        tolerance=rules.get("tolerance"),
    )
