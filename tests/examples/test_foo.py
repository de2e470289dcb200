"""The `Foo` example: its Deployment is created and restored, foreign ones are not adopted."""

import pytest

from foo import Foo, FooSpec, deployment_for, operator
from kubewright.api.apps.v1 import Deployment
from kubewright.api.errors import Invalid
from kubewright.client import exists, field_is, merge_patch


def foo(world, replicas=2, deployment="web"):
    return Foo(metadata=world.meta("foo"), spec=FooSpec(deployment_name=deployment, replicas=replicas))


async def test_deployment_is_created_and_recreated(world):
    async with world.running(operator):
        made = await world.client.create(foo(world))
        first = await world.wait_for(Deployment, "web", exists)
        assert first.spec.replicas == 2
        assert first.spec.selector.match_labels == {"app": "nginx", "controller": "foo"}
        assert first.metadata.owner_references[0].uid == made.metadata.uid
        assert (await world.wait_for_event("Synced")).involved_object.name == "foo"
        await world.client.delete(Deployment, "web", propagation="Background")
        await world.wait_for(
            Deployment, "web", lambda found: found is not None and found.metadata.uid != first.metadata.uid
        )


async def test_replicas_are_restored_and_updated(world):
    async with world.running(operator):
        await world.client.create(foo(world))
        await world.wait_for(Deployment, "web", exists)
        await world.client.patch(Deployment, "web", merge_patch({"spec": {"replicas": 7}}))
        await world.wait_for(Deployment, "web", field_is(".spec.replicas", 2))
        await world.client.patch(Foo, "foo", merge_patch({"spec": {"replicas": 5}}))
        await world.wait_for(Deployment, "web", field_is(".spec.replicas", 5))
        status = {"status": {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3}}
        await world.client.patch(Deployment, "web", merge_patch(status), subresource="status")
        await world.wait_for(Foo, "foo", field_is(".status.availableReplicas", 3))


async def test_deployment_of_another_owner_is_not_changed(world):
    foreign = deployment_for(foo(world, 9))
    await world.client.create(foreign)
    async with world.running(operator):
        await world.client.create(foo(world))
        event = await world.wait_for_event("ErrResourceExists")
        assert event.type == "Warning"
        seen = await world.client.get(Deployment, "web")
        assert (seen.spec.replicas, seen.metadata.owner_references) == (9, None)


async def test_more_than_ten_replicas_are_rejected(world):
    async with world.running(operator):
        with pytest.raises(Invalid, match="replicas"):
            await world.client.create(foo(world, 11))
