"""Conversion of HorizontalPodAutoscalers between v1 and v2 keeps all fields."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubewright.api.builtin.schemas import as_typed
from kubewright.api.gvk import GroupVersionKind
from kubewright.controlplane.kinds.autoscaling.versions import METRICS, AutoscalerConverter

V2 = GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler")
PATH = "/apis/autoscaling/{}/namespaces/ns/horizontalpodautoscalers"

names = st.sampled_from(["cpu", "memory", "requests"])
amounts = st.integers(1, 1000).map(str)
identifiers = st.builds(
    lambda name, labels: {"name": name, **({"selector": {"matchLabels": labels}} if labels else {})},
    names,
    st.dictionaries(names, names, max_size=2),
)
averages = amounts.map(lambda text: {"type": "AverageValue", "averageValue": text})
values = amounts.map(lambda text: {"type": "Value", "value": text})
utilizations = st.integers(1, 100).map(lambda number: {"type": "Utilization", "averageUtilization": number})
described = st.just({"kind": "Service", "name": "s", "apiVersion": "v1"})

metrics = st.one_of(
    st.builds(
        lambda name, target: {"type": "Resource", "resource": {"name": name, "target": target}},
        names.filter(lambda name: name != "cpu"),
        averages | utilizations,
    ),
    st.builds(
        lambda name, target: {
            "type": "ContainerResource",
            "containerResource": {"name": name, "container": "c", "target": target},
        },
        names,
        averages | utilizations,
    ),
    st.builds(
        lambda metric, target: {"type": "Pods", "pods": {"metric": metric, "target": target}},
        identifiers,
        averages,
    ),
    st.builds(
        lambda metric, target: {"type": "External", "external": {"metric": metric, "target": target}},
        identifiers,
        averages | values,
    ),
    st.builds(
        lambda metric, target, thing: {
            "type": "Object",
            "object": {"metric": metric, "target": target, "describedObject": thing},
        },
        identifiers,
        averages | values,
        described,
    ),
)
rules = st.fixed_dictionaries(
    {"policies": st.just([{"type": "Pods", "value": 2, "periodSeconds": 30}])},
    optional={
        "stabilizationWindowSeconds": st.integers(0, 3600),
        "selectPolicy": st.sampled_from(["Max", "Min", "Disabled"]),
        "tolerance": amounts,
    },
)
autoscalers = st.builds(
    lambda listed, cpu, behavior, annotations: {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a", **({"annotations": annotations} if annotations else {})},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
            "minReplicas": 1,
            "maxReplicas": 5,
            "metrics": [
                *listed,
                *([{"type": "Resource", "resource": {"name": "cpu", "target": cpu}}] if cpu else []),
            ],
            **({"behavior": behavior} if behavior else {}),
        },
        "status": {"desiredReplicas": 2, "currentReplicas": 1},
    },
    st.lists(metrics, min_size=1, max_size=3),
    st.none() | utilizations,
    st.none() | st.fixed_dictionaries({"scaleUp": rules}, optional={"scaleDown": rules}),
    st.dictionaries(names, names, max_size=2),
)


@settings(max_examples=150, deadline=None)
@given(autoscalers)
def test_round_trip_through_v1(autoscaler: dict[str, Any]) -> None:
    converter = AutoscalerConverter()
    before = as_typed(V2, autoscaler)
    old = converter.convert([as_typed(V2, autoscaler)], "v2", "v1")
    assert old[0]["apiVersion"] == "autoscaling/v1"
    assert "metrics" not in old[0]["spec"]
    (after,) = converter.convert(old, "v1", "v2")
    assert as_typed(V2, after) == before


async def test_both_versions_serve_the_same_object(api: Any) -> None:
    spec = {
        "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
        "maxReplicas": 5,
        "targetCPUUtilizationPercentage": 70,
    }
    body = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a"},
        "spec": spec,
    }
    await api.ok("POST", PATH.format("v1"), body)
    newer = await api.ok("GET", PATH.format("v2") + "/a")
    assert newer["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 70
    newer["spec"]["metrics"].append(
        {
            "type": "Pods",
            "pods": {"metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "5"}},
        }
    )
    await api.ok("PUT", PATH.format("v2") + "/a", newer)
    older = await api.ok("GET", PATH.format("v1") + "/a")
    assert older["spec"]["targetCPUUtilizationPercentage"] == 70
    assert "hits" in older["metadata"]["annotations"][METRICS]
    await api.ok("PATCH", PATH.format("v1") + "/a", {"spec": {"maxReplicas": 6}})
    assert len((await api.ok("GET", PATH.format("v2") + "/a"))["spec"]["metrics"]) == 2


async def test_malformed_conversion_annotations_are_dropped(api: Any) -> None:
    body = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a", "annotations": {METRICS: '[{"type": 5}]', "kept": "yes"}},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
            "maxReplicas": 5,
        },
    }
    response = await api.ok("POST", PATH.format("v1"), body)
    assert response["metadata"]["annotations"] == {"kept": "yes"}
