"""HorizontalPodAutoscalers: metrics, behavior, limits and conditions."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from kubewright.api.autoscaling.v2 import (
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerBehavior,
    HPAScalingPolicy,
    HPAScalingRules,
)
from kubewright.api.conditions import get_condition
from kubewright.workloads.controllers.pod_autoscaler.replica_calculation import (
    PodGroups,
    Tolerance,
    average,
    replicas_by_ratio,
)
from kubewright.workloads.controllers.pod_autoscaler.scaling_rules import ScalingHistory

CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}


def deployment(replicas: int) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    }


def autoscaler(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1,
            "maxReplicas": 10,
            **spec,
        },
    }


async def add_pods(cluster: Any, pod: Any, *numbers: int) -> None:
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for number in numbers:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
        await cluster.client.create(pod(f"p{number}", {"app": "web"}, containers=[container]))
        await cluster.set_pod(f"p{number}", startTime=started)


async def replicas(cluster: Any) -> int:
    return (await cluster.client.scale("deployments.apps", "web", namespace="default")).spec.replicas


async def current(cluster: Any) -> HorizontalPodAutoscaler:
    found: HorizontalPodAutoscaler = await cluster.client.get(
        HorizontalPodAutoscaler, "web", namespace="default"
    )
    return found


async def test_scale_by_cpu(run: Any, pod: Any) -> None:
    async with run("horizontal-pod-autoscaler-controller") as cluster:
        await cluster.client.create(deployment(2))
        await add_pods(cluster, pod, 1, 2)
        cluster.workloads.simulated_metrics.set_usage("default", "app=web", cpu="90m")
        await cluster.client.create(autoscaler(metrics=[CPU]))
        await asyncio.sleep(20)
        assert await replicas(cluster) == 4
        found = await current(cluster)
        assert found.status is not None
        assert found.status.desired_replicas == 4
        (metric,) = found.status.current_metrics or ()
        assert metric.resource is not None
        assert metric.resource.current is not None
        assert metric.resource.current.average_utilization == 90
        active = get_condition(found.status, "ScalingActive")
        assert active is not None
        assert active.message == (
            "the HPA was able to successfully calculate a replica count from cpu resource utilization "
            "(percentage of request)"
        )
        text = "New size: 4; reason: cpu resource utilization (percentage of request) above target"
        assert ("SuccessfulRescale", text) in await cluster.events()
        # Fewer replicas are only set after the stabilization window.
        await add_pods(cluster, pod, 3, 4)
        cluster.workloads.simulated_metrics.set_usage("default", "app=web", cpu="5m")
        await asyncio.sleep(200)
        assert await replicas(cluster) == 4
        found = await current(cluster)
        able = get_condition(found.status, "AbleToScale")
        assert able is not None
        assert able.reason == "ScaleDownStabilized"
        await asyncio.sleep(200)
        assert await replicas(cluster) == 1
        assert (
            "SuccessfulRescale",
            "New size: 1; reason: All metrics below target",
        ) in await cluster.events()


async def test_external_object_and_pod_metrics(run: Any, pod: Any) -> None:
    async with run("horizontal-pod-autoscaler-controller") as cluster:
        metrics = cluster.workloads.simulated_metrics
        await cluster.client.create(deployment(1))
        await add_pods(cluster, pod, 1)
        target = {"type": "AverageValue", "averageValue": "10"}
        external = {"metric": {"name": "queue"}, "target": target}
        pods = {"metric": {"name": "requests"}, "target": {"type": "AverageValue", "averageValue": "100"}}
        described = {"apiVersion": "v1", "kind": "Service", "name": "front"}
        whole = {
            "metric": {"name": "hits"},
            "describedObject": described,
            "target": {"type": "Value", "value": "5"},
        }
        listed = [
            {"type": "External", "external": external},
            {"type": "Pods", "pods": pods},
            {"type": "Object", "object": whole},
        ]
        await cluster.client.create(autoscaler(metrics=listed))
        await asyncio.sleep(1)
        found = await current(cluster)
        active = get_condition(found.status, "ScalingActive")
        assert active is not None
        assert active.reason == "FailedGetExternalMetric"
        events = await cluster.events()
        assert any(
            reason == "FailedComputeMetricsReplicas" and "3 invalid out of 3" in text
            for reason, text in events
        )
        metrics.set_external("queue", 25)
        metrics.set_pod_metric("requests", "200")
        metrics.set_object_metric("Service", "front", "hits", 5)
        await asyncio.sleep(20)
        assert await replicas(cluster) == 3
        found = await current(cluster)
        assert found.status is not None
        assert [each.type for each in found.status.current_metrics or ()] == ["External", "Pods", "Object"]


async def test_limits_and_missing_target(run: Any) -> None:
    async with run("horizontal-pod-autoscaler-controller") as cluster:
        await cluster.client.create(autoscaler(metrics=[CPU], minReplicas=2, maxReplicas=5))
        await asyncio.sleep(1)
        able = get_condition((await current(cluster)).status, "AbleToScale")
        assert able is not None
        assert able.reason == "FailedGetScale"
        await cluster.client.create(deployment(8))
        await asyncio.sleep(20)
        assert await replicas(cluster) == 5
        text = "New size: 5; reason: Current number of replicas above Spec.MaxReplicas"
        assert ("SuccessfulRescale", text) in await cluster.events()


def rules(policies: list[tuple[str, int, int]], **options: Any) -> HPAScalingRules:
    listed = [
        HPAScalingPolicy(type=kind, value=value, period_seconds=period) for kind, value, period in policies
    ]
    return HPAScalingRules(policies=listed, select_policy=options.pop("select", "Max"), **options)


def test_behavior() -> None:
    behavior = HorizontalPodAutoscalerBehavior(
        scale_up=rules([("Pods", 4, 60), ("Percent", 50, 60)], stabilization_window_seconds=0),
        scale_down=rules([("Pods", 1, 60)], stabilization_window_seconds=100),
    )
    history = ScalingHistory(4, 0.0)
    first = history.decide(4, 20, 1, 30, behavior, 15.0)
    assert (first.replicas, first.limited, first.limit[0]) == (8, True, "ScaleUpLimit")
    history.record_change(4, 8, 15.0)
    assert history.decide(8, 20, 1, 30, behavior, 30.0).replicas == 8, "the period has not ended"
    assert history.decide(8, 20, 1, 30, behavior, 80.0).replicas == 12
    held = history.decide(12, 2, 1, 30, behavior, 100.0)
    assert (held.replicas, held.able_to_scale[0]) == (12, "ScaleDownStabilized")
    lower = history.decide(12, 2, 1, 30, behavior, 300.0)
    assert (lower.replicas, lower.limit[0]) == (11, "ScaleDownLimit")
    behavior.scale_down = rules([], select="Disabled", stabilization_window_seconds=0)
    assert history.decide(11, 2, 1, 30, behavior, 600.0).replicas == 11


@pytest.mark.parametrize(
    ("values", "unready", "missing", "expected"),
    [
        ({"a": 200, "b": 200}, set(), set(), 4),
        ({"a": 105, "b": 100}, set(), set(), 2),
        ({"a": 200}, {"b"}, set(), 2),
        ({"a": 50}, set(), {"b"}, 2),
        ({"a": 300}, set(), {"b", "c"}, 3),
        ({"a": 10, "b": 10}, set(), set(), 1),
    ],
)
def test_replicas_by_ratio(
    values: dict[str, int], unready: set[str], missing: set[str], expected: int
) -> None:
    replicas_now = len(values) + len(unready) + len(missing)
    found = replicas_by_ratio(
        replicas_now,
        dict(values),
        PodGroups(len(values), unready, missing),
        Tolerance(),
        ratio_of=lambda metrics: average(metrics) / 100,
        fallback=lambda name: 100,
    )
    assert found == expected
