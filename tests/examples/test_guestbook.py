"""The guestbook example: children, status, webhooks, schema."""

import pytest

from guestbook import Guestbook, GuestbookSpec, operator
from kubewright.api.apps.v1 import Deployment
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.errors import Invalid
from kubewright.client import condition, exists, field_is, merge_patch


def guestbook(world, name="visitors", size=3, settings="conf", **spec):
    return Guestbook(
        metadata=world.meta(name), spec=GuestbookSpec(size=size, config_map_name=settings, **spec)
    )


async def test_children_match_the_spec(world):
    async with world.running(operator):
        made = await world.client.create(guestbook(world))
        assert made.spec.type == "Name"
        await world.wait_for(Guestbook, "visitors", condition("Available"))
        first = await world.client.get(Deployment, "visitors")
        assert first.spec.replicas == 3
        assert (await world.client.get(ConfigMap, "conf")).data == {"type": "Name"}
        await world.client.delete(ConfigMap, "conf")
        await world.wait_for(ConfigMap, "conf", exists)
        await world.client.patch(Deployment, "visitors", merge_patch({"spec": {"replicas": 9}}))
        await world.wait_for(Deployment, "visitors", field_is(".spec.replicas", 3))
        await world.client.patch(Guestbook, "visitors", merge_patch({"spec": {"size": 5, "type": "Phone"}}))
        await world.wait_for(Deployment, "visitors", field_is(".spec.replicas", 5))
        await world.wait_for(ConfigMap, "conf", field_is(".data.type", "Phone"))


async def test_schema_and_webhook_reject_invalid_objects(world):
    async with world.running(operator):
        for bad in (
            guestbook(world, size=0),
            guestbook(world, size=11),
            guestbook(world, settings="c" * 16),
            guestbook(world, type="Fax"),
            guestbook(world, name="root"),
        ):
            with pytest.raises(Invalid):
                await world.client.create(bad)
        await world.client.create(guestbook(world, size=10, settings="c" * 15))
        with pytest.raises(Invalid, match="field is immutable"):
            await world.client.patch(Guestbook, "visitors", merge_patch({"spec": {"configMapName": "other"}}))
