"""The platform example: a WebApp expands to objects in order, on a control plane with a simulated node."""

from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import webapp
import webapp_template
from webapp import WebApp, WebAppSpec

from kubewright.api import ObjectMeta
from kubewright.api.apps.v1 import Deployment
from kubewright.api.autoscaling.v2 import HorizontalPodAutoscaler
from kubewright.api.core.v1 import ConfigMap, Secret, Service, ServiceSpec
from kubewright.client import condition, exists, field_is, is_deleted, merge_patch
from kubewright.testing.operators import run_operator
from kubewright.testing.server import start_test_server

SAMPLE = Path(__file__).parents[2] / "examples" / "platform" / "sample.yaml"


@asynccontextmanager
async def running(operator):
    async with (
        start_test_server("in-process", controllers=True, nodes=1) as server,
        run_operator(operator, server.client()),
    ):
        yield server.client()


async def wait(client, until, kind=WebApp, name="shop"):
    return await client.wait(kind, name, until=until, timeout=600)


@pytest.mark.parametrize("operator", [webapp.operator, webapp_template.operator], ids=["python", "template"])
async def test_sample(operator):
    async with running(operator) as client:
        await client.apply_yaml(SAMPLE)
        service = await wait(client, exists, Service)
        config = await wait(client, exists, ConfigMap, "shop-config")
        address = f"http://{service.spec.cluster_ip}"
        assert config.data == {"ADDRESS": address, "PORT": "8080", "GREETING": "hello"}
        waiting = await wait(client, condition("Ready", "False"))
        assert [each.state for each in waiting.status.objects][-2:] == ["InProgress", "Waiting"]
        assert waiting.status.objects[-1].message == "waits for web"
        autoscaler = await wait(client, exists, HorizontalPodAutoscaler)
        assert (autoscaler.spec.min_replicas, autoscaler.spec.max_replicas) == (2, 5)
        ready = await wait(client, lambda app: condition("Ready")(app) and app.status.ready_replicas == 2)
        assert ready.status.address == address
        assert ready.status.observed_generation == ready.metadata.generation
        nodes = [each.node for each in ready.status.objects]
        assert nodes[-3:] == ["config", "web", "autoscaler"]
        # The autoscaler, not the composition, owns the number of replicas.
        assert (await client.get(Deployment, "shop")).spec.replicas == 2

        before = await client.get(Deployment, "shop")
        await client.patch(WebApp, "shop", merge_patch({"spec": {"settings": {"GREETING": "hi"}}}))
        await wait(client, field_is(".data.GREETING", "hi"), ConfigMap, "shop-config")
        changed = await wait(
            client, lambda each: each.metadata.generation > before.metadata.generation, Deployment
        )
        annotations = changed.spec.template.metadata.annotations
        assert annotations != before.spec.template.metadata.annotations
        await wait(client, condition("Ready"))

        await client.patch(WebApp, "shop", merge_patch({"spec": {"maxReplicas": None, "replicas": 3}}))
        await wait(client, is_deleted, HorizontalPodAutoscaler)
        await wait(client, field_is(".spec.replicas", 3), Deployment)
        await client.delete(WebApp, "shop")
        await wait(client, is_deleted)
        for kind, name in ((Deployment, "shop"), (Service, "shop"), (ConfigMap, "shop-config")):
            assert await client.get_or_none(kind, name) is None


async def test_the_password_is_kept():
    async with running(webapp.operator) as client:
        await client.apply_yaml(SAMPLE)
        await wait(client, condition("Ready"))
        before = await client.get(Secret, "shop-credentials")
        assert len(before.data["PASSWORD"]) == 24
        await client.patch(WebApp, "shop", merge_patch({"spec": {"image": "nginx:1.28"}}))
        await wait(client, field_is(".spec.template.spec.containers[0].image", "nginx:1.28"), Deployment)
        after = await client.get(Secret, "shop-credentials")
        assert after.metadata.resource_version == before.metadata.resource_version


async def test_the_graph_without_a_cluster():
    class Client:
        async def get_or_none(self, *_, **__):
            return None

    app = WebApp(metadata=ObjectMeta(name="shop", namespace="team"), spec=WebAppSpec(image="nginx"))
    graph = await webapp.compose(app, Client())
    assert graph.order() == ["credentials", "service", "config", "web"]
    service = Service(metadata=ObjectMeta(name="shop"), spec=ServiceSpec(cluster_ip="10.0.0.7"))
    config = graph.build("config", service=service)
    assert config.data == {"ADDRESS": "http://10.0.0.7", "PORT": "8080"}
    assert graph.build("web", config=config).spec.replicas == 1
