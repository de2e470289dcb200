"""Caches that store some fields of each object."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest

from kubewright import Context, CustomResource, ObjectMeta, Operator, Request, Spec, resource
from kubewright.api.core.v1 import Pod, Secret
from kubewright.api.encoding.codec import ObjectHeader, decode
from kubewright.api.objects import Struct
from kubewright.cache import Cache, CachedClient, KindOptions
from kubewright.cache.stores.projection import project_to
from kubewright.manager.operators.installation import install_definitions
from kubewright.testing import fake_time, run_operator, start_test_server


class SecretType(Struct):
    type: str | None = None


class ContainerImage(Struct):
    name: str = ""
    image: str | None = None


class ImageSpec(Struct):
    containers: list[ContainerImage]
    node_name: str | None = None


class Images(Struct):
    spec: ImageSpec


def secret(name: str) -> Secret:
    return Secret(
        metadata=ObjectMeta(name=name, namespace="default", labels={"team": "a"}),
        type="example.com/token",
        data={"token": base64.b64encode(b"x" * 3000)},
    )


def projected(obj: dict[str, object], fields: type[Struct]) -> dict[str, object]:
    raw = json.dumps(obj).encode()
    stored: dict[str, object] = json.loads(project_to(fields)(raw, decode(raw, ObjectHeader)))
    return stored


def test_declared_fields_are_kept_at_every_depth() -> None:
    pod: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "managedFields": [{"manager": "m"}], "labels": {"a": "b"}},
        "spec": {
            "containers": [{"name": "web", "image": "nginx", "env": [{"name": "A", "value": "B"}]}],
            "nodeName": "n",
            "volumes": [{"name": "v"}],
        },
        "status": {"phase": "Running"},
    }
    assert projected(pod, Images) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "web", "image": "nginx"}], "nodeName": "n"},
    }
    assert projected({"kind": "Pod", "metadata": {"name": "a"}}, Images) == {
        "apiVersion": "",
        "kind": "Pod",
        "metadata": {"name": "a"},
    }


def test_reads_and_updates_of_a_projected_kind() -> None:
    async def scenario() -> None:
        async with start_test_server("in-process", controllers=False) as server:
            client = server.client()
            for number in range(20):
                await client.create(secret(f"s{number}"))
            async with Cache(client, kinds={Secret: KindOptions(projection=SecretType)}) as cache:
                cached = CachedClient.from_client(client, cache)
                found = await cached.get(Secret, "s1", namespace="default")
                assert (found.type, found.data) == ("example.com/token", None)
                assert len([each async for each in cached.list(Secret, labels="team=a")]) == 20
                informer = await cache.informer(Secret)
                full = len(json.dumps({"token": "x" * 4000})) * 20
                assert informer.store.bytes < full / 8
                # An update sends what changed; the fields that are not cached stay as they are.
                found.metadata.labels = {"team": "b"}
                await cached.update(found)
                stored = await client.get(Secret, "s1", namespace="default")
                assert stored.metadata.labels == {"team": "b"}
                assert stored.data is not None
                assert len(stored.data["token"]) > 0
                assert (await cached.get(Secret, "s1", namespace="default")).metadata.labels == {"team": "b"}
                assert (await cached.uncached.get(Secret, "s1", namespace="default")).data is not None

    fake_time(scenario())


def test_projection_and_transform_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="projection and transform exclude each other"):
        KindOptions(projection=SecretType, transform=None)


class ShopSpec(Spec):
    size: int = 1


@resource(group="optional.example.com", version="v1")
class Shop(CustomResource[ShopSpec, None]):
    """A shop."""


@resource(group="optional.example.com", version="v1", external=True)
class Voucher(CustomResource[ShopSpec, None]):
    """A kind of another program, which may not be installed."""


@resource(group="optional.example.com", version="v1", kind="Voucher")
class InstalledVoucher(CustomResource[ShopSpec, None]):
    """The same kind, as its own program declares it."""


def test_an_optional_kind_is_watched_when_it_is_installed() -> None:
    operator = Operator("shops")
    reconciled: list[str] = []

    @operator.reconcile(Shop)
    async def reconcile(shop: Shop, ctx: Context[Shop]) -> None:
        reconciled.append(shop.name)

    @operator.watches(Voucher, optional=True)
    def shops_of(voucher: Voucher) -> list[Request]:
        return [Request(voucher.metadata.namespace or "", "a")]

    async def scenario() -> None:
        async with start_test_server("in-process") as server:
            client = server.client()
            async with run_operator(operator, client):
                await client.create(Shop(metadata=ObjectMeta(name="a", namespace="default"), spec=ShopSpec()))
                await asyncio.sleep(3600)
                assert reconciled == ["a"]
                await install_definitions(client, [InstalledVoucher])
                await client.create(
                    InstalledVoucher(metadata=ObjectMeta(name="v", namespace="default"), spec=ShopSpec())
                )
                await asyncio.sleep(60)
                assert reconciled == ["a", "a"]

    fake_time(scenario())


def test_pods_by_image_fit_the_declared_class() -> None:
    raw = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"w"}]}}'
    stored = project_to(Images)(raw, decode(raw, ObjectHeader))
    assert decode(stored, Pod).spec is not None
