"""The static site example: templates instead of a reconciler."""

from pathlib import Path

from kubewright.api.apps.v1 import Deployment
from kubewright.api.core.v1 import ConfigMap, Service
from kubewright.client import condition, exists, field_is, is_deleted, merge_patch
from static_site import StaticSite, StaticSiteSpec, operator

SAMPLE = Path(__file__).parents[2] / "examples" / "static_site" / "sample.yaml"


async def test_sample(world):
    async with world.running(operator):
        await world.client.apply_yaml(SAMPLE, namespace=world.namespace)
        pages = await world.wait_for(ConfigMap, "hello-pages", exists)
        assert pages.data == {"index.html": "<h1>Hello</h1>"}
        deployment = await world.wait_for(Deployment, "hello", exists)
        assert deployment.spec.replicas == 2
        assert deployment.spec.template.spec.volumes[0].config_map.name == "hello-pages"
        await world.wait_for(StaticSite, "hello", condition("Progressing"))
        change = {"pages": None, "replicas": 3, "service": {"enabled": False}}
        await world.client.patch(StaticSite, "hello", merge_patch({"spec": change}))
        await world.wait_for(Service, "hello", is_deleted)
        await world.wait_for(ConfigMap, "hello-pages", is_deleted)
        changed = await world.wait_for(Deployment, "hello", field_is(".spec.replicas", 3))
        assert not changed.spec.template.spec.volumes
        await world.client.patch(Deployment, "hello", merge_patch({"spec": {"replicas": 1}}))
        await world.wait_for(Deployment, "hello", field_is(".spec.replicas", 3))
        await world.client.delete(StaticSite, "hello")
        await world.wait_for(StaticSite, "hello", is_deleted)
        assert await world.client.get_or_none(Deployment, "hello") is None


async def test_ready_when_the_deployment_is(cluster):
    async with cluster.running(operator):
        site = StaticSite(metadata=cluster.meta("empty"), spec=StaticSiteSpec(replicas=0))
        await cluster.client.create(site)
        deployment = await cluster.wait_for(Deployment, "empty", exists)
        deployment.status.observed_generation = deployment.metadata.generation
        await cluster.client.update_status(deployment)
        seen = await cluster.wait_for(StaticSite, "empty", condition("Ready"))
        assert seen.status.observed_generation == seen.metadata.generation
