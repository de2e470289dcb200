"""Addresses of the load balancers of the in-memory cloud."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.api.core.v1 import Service, ServicePort, ServiceSpec
from kubewright.api.meta import ObjectMeta
from kubewright.workloads.cloud import InMemoryCloud


def service(name: str, **spec: Any) -> Service:
    metadata = ObjectMeta(name=name, namespace="default", uid=f"uid-{name}")
    return Service(
        metadata=metadata, spec=ServiceSpec(type="LoadBalancer", ports=[ServicePort(port=80)], **spec)
    )


async def addresses(cloud: InMemoryCloud, of: Service) -> list[str]:
    status = await cloud.load_balancers.ensure("kubernetes", of, [])
    return [one.ip or "" for one in status.ingress or ()]


async def test_an_address_for_each_family() -> None:
    cloud = InMemoryCloud(load_balancer_range="192.0.2.0/30,2001:db8::/126")
    assert await addresses(cloud, service("a", ip_families=["IPv4"])) == ["192.0.2.1"]
    both = service("b", ip_families=["IPv6", "IPv4"])
    assert await addresses(cloud, both) == ["2001:db8::1", "192.0.2.2"]
    # A family without a range is left out.
    single = InMemoryCloud(load_balancer_range="192.0.2.0/30")
    assert await addresses(single, both) == ["192.0.2.1"]
    assert await addresses(single, service("c", ip_families=["IPv6"])) == ["192.0.2.2"]


async def test_addresses_are_used_again() -> None:
    cloud = InMemoryCloud(load_balancer_range="192.0.2.0/30")
    first, second, third = service("a"), service("b"), service("c")
    assert await addresses(cloud, first) == ["192.0.2.1"]
    assert await addresses(cloud, second) == ["192.0.2.2"]
    with pytest.raises(ValueError, match=r"no free address in the load balancer range 192\.0\.2\.0/30"):
        await addresses(cloud, third)
    await cloud.load_balancers.ensure_deleted("kubernetes", first)
    assert await addresses(cloud, third) == ["192.0.2.1"]
    assert await addresses(cloud, second) == ["192.0.2.2"]


async def test_another_requested_address_releases_the_first() -> None:
    cloud = InMemoryCloud()
    assert await addresses(cloud, service("a")) == ["203.0.113.1"]
    assert await addresses(cloud, service("a", load_balancer_ip="203.0.113.9")) == ["203.0.113.9"]
    assert await addresses(cloud, service("b")) == ["203.0.113.1"]
