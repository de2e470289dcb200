"""The autoscaler example: recommendations and update modes."""

import pytest

from autoscaler import (
    AutoscalerSpec,
    ContainerPolicy,
    TargetRef,
    UpdatePolicy,
    VerticalAutoscaler,
    make_operator,
    recommend,
)
from kubewright.api import ObjectMeta
from kubewright.api.apps.v1 import Deployment, DeploymentSpec
from kubewright.api.conditions import get_condition
from kubewright.api.core.v1 import Container, PodSpec, PodTemplateSpec
from kubewright.api.meta import LabelSelector
from kubewright.api.values.quantity import Quantity
from kubewright.client import condition, merge_patch

USED = {"cpu": Quantity("200m"), "memory": Quantity("100Mi")}


class Metrics:
    """A metrics source with values set by the test."""

    def __init__(self):
        self.usage = {"web": dict(USED)}

    async def __call__(self, deployment):
        return self.usage


def web(world):
    labels = {"app": "web"}
    containers = [Container(name="web", image="nginx"), Container(name="idle", image="busybox")]
    return Deployment(
        metadata=world.meta("web"),
        spec=DeploymentSpec(
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=containers)),
        ),
    )


def autoscaler(world, mode, **spec):
    return VerticalAutoscaler(
        metadata=world.meta("web"),
        spec=AutoscalerSpec(
            target_ref=TargetRef(kind="Deployment", name="web"),
            update_policy=UpdatePolicy(update_mode=mode),
            **spec,
        ),
    )


def requests_of(deployment):
    resources = deployment.spec.template.spec.containers[0].resources
    return (resources.requests or {}) if resources is not None else {}


provided = condition("RecommendationProvided")


async def test_mode_off(world):
    await world.client.create(web(world))
    async with world.running(make_operator(Metrics())):
        await world.client.create(autoscaler(world, "Off"))
        seen = await world.wait_for(VerticalAutoscaler, "web", provided)
        [found] = seen.status.recommendations
        assert found.container_name == "web"
        assert found.target == {"cpu": Quantity("230m"), "memory": Quantity("115Mi")}
        assert requests_of(await world.client.get(Deployment, "web")) == {}
        await world.client.patch(
            VerticalAutoscaler, "web", merge_patch({"spec": {"updatePolicy": {"updateMode": "Auto"}}})
        )
        await world.wait_for(Deployment, "web", lambda found: requests_of(found) != {})


async def test_mode_auto(world):
    metrics = Metrics()
    await world.client.create(web(world))
    async with world.running(make_operator(metrics)):
        await world.client.create(autoscaler(world, "Auto"))
        await world.wait_for(
            Deployment, "web", lambda found: requests_of(found).get("cpu") == Quantity("230m")
        )
        metrics.usage["web"]["cpu"] = Quantity("1")
        await world.wait_for(
            Deployment, "web", lambda found: requests_of(found).get("cpu") == Quantity("1150m")
        )


@pytest.mark.parametrize(("replicas", "changed"), [(0, True), (2, False)])
async def test_mode_initial(world, replicas, changed):
    made = await world.client.create(web(world))
    await world.client.patch(made, merge_patch({"status": {"replicas": replicas}}), subresource="status")
    async with world.running(make_operator(Metrics())) as manager:
        await world.client.create(autoscaler(world, "Initial"))
        await world.wait_for(VerticalAutoscaler, "web", provided)
        if changed:
            await world.wait_for(Deployment, "web", lambda found: requests_of(found) != {})
        else:
            before = world.now()
            await world.client.patch(made, merge_patch({"metadata": {"labels": {"a": "b"}}}))
            assert manager.ready
            assert world.now() >= before
    assert bool(requests_of(await world.client.get(Deployment, "web"))) is changed


async def test_missing_target(world):
    async with world.running(make_operator(Metrics())):
        await world.client.create(autoscaler(world, "Auto"))
        seen = await world.wait_for(VerticalAutoscaler, "web", condition("RecommendationProvided", "False"))
        assert get_condition(seen.status, "RecommendationProvided").reason == "NoTarget"
        await world.client.create(web(world))
        await world.wait_for(VerticalAutoscaler, "web", provided)


def test_recommendations_are_bounded():
    policy = ContainerPolicy(
        container_name="*",
        min_allowed={"cpu": Quantity("500m")},
        max_allowed={"memory": Quantity("64Mi")},
    )
    assert recommend(USED, policy) == {"cpu": Quantity("500m"), "memory": Quantity("64Mi")}
