"""CBOR on the embedded control plane: built-in and custom kinds, patches, watches, through a client."""

from __future__ import annotations

import asyncio

import pytest

from kubewright import Client, CustomResource, ObjectMeta, Spec, resource
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.encoding import cbor
from kubewright.client.transport.cbor import CBORTransport
from kubewright.manager.operators.installation import install_definitions
from kubewright.testing import TestServer

pytestmark = pytest.mark.control_plane(controllers=False, server_options={"cbor": True})


class StampSpec(Spec):
    """A stamp."""

    value: int = 0


@resource(group="post.example.com", version="v1")
class Stamp(CustomResource[StampSpec, None]):
    """A stamp."""


async def test_objects_lists_and_watches(control_plane: TestServer) -> None:
    client = Client.from_transport(CBORTransport(control_plane.transport))
    await install_definitions(control_plane.client(), [Stamp])
    settings = ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data={"x": "é"})
    assert (await client.create(settings)).data == {"x": "é"}
    stamp = Stamp(metadata=ObjectMeta(name="a", namespace="default"), spec=StampSpec(value=1 << 40))
    assert (await client.create(stamp)).spec.value == 1 << 40
    assert [each.spec.value for each in await client.list(Stamp)] == [1 << 40]
    async with asyncio.timeout(60), client.watch(Stamp, namespace="default") as watch:
        assert (await anext(watch)).object.spec.value == 1 << 40
        stamp.metadata = (await client.get(Stamp, "a")).metadata
        stamp.spec.value = 7
        await client.update(stamp)
        assert (await anext(watch)).object.spec.value == 7


async def test_apply_in_cbor(control_plane: TestServer) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
    response = await control_plane.transport.send(
        "PATCH",
        "/api/v1/namespaces/default/configmaps/a",
        "fieldManager=test",
        {"Content-Type": "application/apply-patch+cbor", "Accept": "application/cbor"},
        cbor.encode(body),
    )
    assert (response.status, response.headers["Content-Type"]) == (201, "application/cbor")
    assert cbor.decode(response.body)["data"] == {"x": "1"}
