"""A value that was written stays when the default of its field changes, in every version."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kubewright import Converter, CustomResource, Operator, Spec, resource
from kubewright.api import ObjectMeta, Unstructured, WebhookConversion
from kubewright.api.apiextensions.v1 import CustomResourceDefinition
from kubewright.api.core.v1 import Namespace
from kubewright.api.gvk import GroupVersionKind
from kubewright.client import ClusterConfig
from kubewright.testing import run_operator, start_test_server
from kubewright.testing.server import TestServer
from kubewright.webhook import Move

GROUP = "defaults.example.com"
FIELDS = {"v1": "size", "v2": "replicas"}
KINDS = [GroupVersionKind(GROUP, version, "Booth") for version in FIELDS]


def booths(default: int) -> Operator:
    """Return an operator with two versions of a kind, whose field has a default."""

    class OldSpec(Spec):
        size: int = default

    class NewSpec(Spec):
        replicas: int = default

    @resource(group=GROUP, version="v1", kind="Booth")
    class OldBooth(CustomResource[OldSpec, None]):
        """A booth."""

    @resource(group=GROUP, version="v2", storage=True, conversion=WebhookConversion())
    class Booth(CustomResource[NewSpec, None]):
        """A booth."""

    operator = Operator("booths")
    operator.convert(Converter(Booth)).spoke(OldBooth, rules=(Move("spec.size", "spec.replicas"),))
    return operator


@pytest.fixture
async def server(real_config: ClusterConfig | None) -> AsyncIterator[TestServer]:
    kind = "tls" if real_config is None else "real"
    options = {"controllers": False} if real_config is None else {}
    async with start_test_server(kind, real_config, **options) as made:
        if real_config is not None:
            await (
                made.client().with_field_manager("test").apply(Namespace(metadata=ObjectMeta(name="default")))
            )
        yield made


async def test_explicit_values_survive_a_change_of_the_default(server: TestServer) -> None:
    client = server.client()

    async def check() -> None:
        for name in FIELDS:
            for kind in KINDS:
                found = await client.get(kind, name, namespace="default")
                assert found["spec"] == {FIELDS[kind.version]: 1}
                await client.update(found)

    async with run_operator(booths(1), client, metrics_port=None, webhook_port=0):
        for kind in KINDS:
            metadata = {"name": kind.version, "namespace": "default"}
            header = {"apiVersion": kind.api_version, "kind": "Booth", "metadata": metadata}
            await client.create(Unstructured({**header, "spec": {FIELDS[kind.version]: 1}}))
        await check()
    async with run_operator(booths(7), client, metrics_port=None, webhook_port=0):
        created = await client.create(
            Unstructured(
                {
                    "apiVersion": f"{GROUP}/v1",
                    "kind": "Booth",
                    "metadata": {"name": "new", "namespace": "default"},
                    "spec": {},
                }
            )
        )
        assert created["spec"] == {"size": 7}
        await check()
        await client.delete(CustomResourceDefinition, f"booths.{GROUP}")
