"""Custom resources with defaults: decode, encode, create, read, copy, and find the changes of an object.

The class has what tracking of set fields costs most for: scalar defaults, a list, a map and structs with
defaults, and a list of structs.
"""

from __future__ import annotations

from typing import Any

from bench import Benchmark
from kubewright.api import CustomResource, ObjectMeta, Spec, Status, Struct, decode, encode, field, to_plain
from kubewright.api.gvk import GroupVersionKind
from kubewright.client.patches import changes_since_read


class Port(Struct):
    """A port of a shop."""

    number: int
    name: str = ""
    protocol: str = "TCP"


class Storage(Struct):
    """The storage of a shop."""

    size: str = "1Gi"
    replicas: int = 1


class ShopSpec(Spec):
    """A class with defaults of every kind."""

    image: str
    replicas: int = 1
    paused: bool = False
    title: str = "shop"
    tags: dict[str, str] = field(default_factory=dict)
    hosts: list[str] = field(default_factory=list)
    ports: list[Port] = field(default_factory=list)
    storage: Storage = field(default_factory=Storage)
    note: str | None = None


class ShopStatus(Status):
    """A status with defaults."""

    phase: str = ""
    ready: int = 0


class Shop(CustomResource[ShopSpec, ShopStatus]):
    """The kind."""

    gvk = GroupVersionKind("bench.example.dev", "v1", "Shop")


COMPLETE: dict[str, Any] = {
    "apiVersion": "bench.example.dev/v1",
    "kind": "Shop",
    "metadata": {
        "name": "shop-1",
        "namespace": "default",
        "uid": "0f3f0e0a-8b1d-4d5c-9a53-9a3e1a9a7f10",
        "resourceVersion": "123456",
        "generation": 3,
        "labels": {"app": "shop", "tier": "web"},
    },
    "spec": {
        "image": "registry.example.com/shop:1.2.3",
        "replicas": 1,
        "paused": False,
        "title": "shop",
        "tags": {f"key-{number}": "value" for number in range(5)},
        "hosts": [f"host-{number}.example.com" for number in range(5)],
        "ports": [{"number": number, "name": f"port-{number}", "protocol": "TCP"} for number in range(10)],
        "storage": {"size": "1Gi", "replicas": 3},
    },
    "status": {"phase": "Open", "ready": 1},
}


def new_shop() -> Shop:
    """Create an object as a program does, with some of the fields."""
    return Shop(
        metadata=ObjectMeta(name="shop-1", namespace="default"),
        spec=ShopSpec(image="shop:1", replicas=3, ports=[Port(number=80), Port(number=443, name="https")]),
    )


def benchmarks() -> list[Benchmark]:
    complete = encode(COMPLETE)
    sparse = encode({**COMPLETE, "spec": {"image": "shop:1"}, "status": {}})
    shop, changed = decode(complete, Shop), decode(complete, Shop)
    new, few = new_shop(), decode(sparse, Shop)
    changed.status.ready = 2

    def read(of: Shop) -> object:
        spec = of.spec
        return spec.image, spec.replicas, spec.paused, spec.title, spec.note, of.status.phase

    def reconciled() -> bytes:
        """Read an object, its defaults and its status, and encode it, as an update does."""
        found = decode(sparse, Shop)
        found.status.ready = len(found.spec.hosts) + found.spec.storage.replicas
        return encode(found)

    return [
        Benchmark(name="decode, every field set", run=lambda: decode(complete, Shop)),
        Benchmark(name="decode, one field set", run=lambda: decode(sparse, Shop)),
        Benchmark(name="encode, every field set", run=lambda: encode(shop)),
        Benchmark(name="encode, one field set", run=lambda: encode(few)),
        Benchmark(name="encode, new object", run=lambda: encode(new)),
        Benchmark(name="convert to plain data", run=lambda: to_plain(shop)),
        Benchmark(name="create an object in Python", run=new_shop),
        Benchmark(name="read six fields, set", run=lambda: read(shop)),
        Benchmark(name="read six fields, defaults", run=lambda: read(few)),
        Benchmark(name="decode, read defaults, set status, encode", run=reconciled),
        Benchmark(name="copy", run=shop.copy),
        Benchmark(name="compare with an equal object", run=lambda: shop == shop.copy()),
        Benchmark(
            name="changes of the status", run=lambda: changes_since_read(changed, optimistic_lock=False)
        ),
    ]
