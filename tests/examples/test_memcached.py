"""The memcached example: Deployment, conditions and finalizer."""

import pytest

from kubewright.api.apps.v1 import Deployment
from kubewright.api.errors import Invalid
from kubewright.client import condition, exists, field_is, is_deleted, merge_patch
from memcached import Memcached, MemcachedSpec, operator, version_of


def memcached(world, **spec):
    return Memcached(metadata=world.meta("cache"), spec=MemcachedSpec(container_port=11211, **spec))


async def test_pods_are_restricted_and_status_is_set(world, monkeypatch):
    monkeypatch.setenv("MEMCACHED_IMAGE", "localhost:5000/memcached")
    async with world.running(operator):
        made = await world.client.create(memcached(world))
        assert made.spec.size == 1
        seen = await world.wait_for(Memcached, "cache", condition("Available"))
        assert seen.metadata.finalizers == ["cache.example.com/memcached"]
        found = await world.client.get(Deployment, "cache")
        [container] = found.spec.template.spec.containers
        assert (container.image, container.ports[0].container_port) == ("localhost:5000/memcached", 11211)
        assert container.security_context.allow_privilege_escalation is False
        assert found.spec.template.metadata.labels["app.kubernetes.io/version"] == "latest"
        await world.client.patch(Deployment, "cache", merge_patch({"spec": {"replicas": 4}}))
        await world.wait_for(Deployment, "cache", field_is(".spec.replicas", 1))
        await world.client.patch(Memcached, "cache", merge_patch({"spec": {"size": 3}}))
        await world.wait_for(Deployment, "cache", field_is(".spec.replicas", 3))
        with pytest.raises(Invalid, match="size"):
            await world.client.patch(Memcached, "cache", merge_patch({"spec": {"size": -1}}))


async def test_finalizer_runs_before_deletion(world):
    async with world.running(operator):
        await world.client.create(memcached(world))
        await world.wait_for(Memcached, "cache", condition("Available"))
    await world.client.delete(Memcached, "cache")
    left = await world.client.get(Memcached, "cache")
    assert left.metadata.deletion_timestamp is not None
    async with world.running(operator):
        await world.wait_for(Memcached, "cache", is_deleted)
        assert (await world.wait_for_event("Deleting")).type == "Warning"


async def test_finalizer_is_not_added_to_a_deleting_object(world):
    async with world.running(operator):
        made = memcached(world)
        made.metadata.finalizers = ["example.com/other"]
        await world.client.create(made)
        await world.wait_for(Memcached, "cache", condition("Available"))
        await world.client.delete(Memcached, "cache")
        seen = await world.wait_for(
            Memcached, "cache", lambda found: found.metadata.finalizers == ["example.com/other"]
        )
        assert condition("Degraded")(seen)
        await world.client.patch(Memcached, "cache", merge_patch({"metadata": {"finalizers": None}}))
        await world.wait_for(Memcached, "cache", is_deleted)


async def test_deleted_deployment_is_recreated(world):
    async with world.running(operator):
        await world.client.create(memcached(world))
        first = await world.wait_for(Deployment, "cache", exists)
        await world.client.delete(Deployment, "cache", propagation="Background")
        await world.wait_for(
            Deployment, "cache", lambda found: found is not None and found.metadata.uid != first.metadata.uid
        )


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("memcached", "latest"),
        ("memcached:1.6", "1.6"),
        ("host:5000/memcached", "latest"),
        ("host:5000/a/memcached:2", "2"),
        ("memcached:3@sha256:abc", "3"),
    ],
)
def test_the_version_of_an_image(image, version):
    assert version_of(image) == version
