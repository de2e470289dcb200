"""The allocator of IP addresses: concurrent claims, releases, failures, a server that was killed, kubectl."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

import ip_allocator
from ip_allocator import (
    GROUP,
    AllocatedAddress,
    AllocatedAddressSpec,
    IPClaim,
    IPClaimSpec,
    IPPool,
    IPPoolSpec,
    app,
)
from kubewright import Client, ObjectMeta
from kubewright.api.errors import AlreadyExists, Forbidden, Invalid
from kubewright.client import merge_patch
from kubewright.extension import serve_app
from kubewright.testing import TestServer, run_app

from .kubectl import Kubectl, requires_kubectl

EXAMPLE = Path(__file__).parents[2] / "examples" / "ip_allocator"


def claim(name: str, address: str = "") -> IPClaim:
    metadata = ObjectMeta(name=name, namespace="default")
    return IPClaim(metadata=metadata, spec=IPClaimSpec(pool="office", address=address))


async def create_pool(client: Client, cidr: str = "10.1.0.0/26") -> None:
    await client.create(IPPool(metadata=ObjectMeta(name="office"), spec=IPPoolSpec(cidr=cidr)))


async def test_concurrent_claims_have_different_addresses(cluster: TestServer) -> None:
    client = cluster.client()
    async with run_app(app, client):
        await create_pool(client)
        claims = await asyncio.gather(*(client.create(claim(f"c{number}")) for number in range(62)))
        addresses = [each.spec.address for each in claims]
        assert len(set(addresses)) == 62
        assert sorted(each.name for each in await client.list(AllocatedAddress)) == sorted(addresses)
        with pytest.raises(Invalid, match="pool office has no free address"):
            await client.create(claim("late"))
        await client.delete(claims[0])
        assert (await client.create(claim("late"))).spec.address == addresses[0]
        shown = await client.subresource("usage", IPPool, "office").get()
        assert (shown["total"], len(shown["used"])) == (62, 62)


async def test_rules(cluster: TestServer) -> None:
    client = cluster.client()
    async with run_app(app, client):
        with pytest.raises(Invalid, match=r"spec\.cidr: Invalid value"):
            await create_pool(client, "10.1.0.1/26")
        await create_pool(client, "fd00::/120")
        first = await client.create(claim("first", "fd00::7"))
        assert first.spec.address == "fd00::7"
        with pytest.raises(Invalid, match=r'spec.address: Invalid value: "fd00::7": is not free in the pool'):
            await client.create(claim("second", "fd00::7"))
        with pytest.raises(Invalid, match=r"is not free in the pool"):
            await client.create(claim("second", "fd01::7"))
        with pytest.raises(AlreadyExists):
            await client.create(claim("first"))  # its reservation is released
        assert [each.name for each in await client.list(AllocatedAddress)] == ["fd00::7"]
        await client.create(claim("tried"), dry_run=True)
        assert len(await client.list(AllocatedAddress)) == 1
        with pytest.raises(Invalid, match="field is immutable"):
            await client.patch(IPClaim, "first", merge_patch({"spec": {"address": "fd00::8"}}))
        with pytest.raises(Forbidden, match="the pool is used by the claim default/first"):
            await client.delete(IPPool, "office")
        with pytest.raises(Forbidden, match="addresses are allocated with claims"):
            await client.delete(AllocatedAddress, "fd00::7")
        missing = claim("lost")
        missing.spec.pool = "nowhere"
        with pytest.raises(Invalid, match=r'spec\.pool: Not found: "nowhere"'):
            await client.create(missing)


async def test_addresses_of_unfinished_claims_are_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.settings, "storage", f"sqlite:{tmp_path}/ipam.db")
    async with serve_app(app, None) as running:
        client = running.client()
        await create_pool(client, "10.1.0.0/30")
        kept = await client.create(claim("kept"))
        # What a server leaves that was killed between the two writes of a create, or of a deletion.
        free = next(each for each in ("10.1.0.1", "10.1.0.2") if each != kept.spec.address)
        spec = AllocatedAddressSpec(namespace="default", claim="unfinished")
        metadata = ObjectMeta(name=free, labels={ip_allocator.POOL_LABEL: "office"})
        await client.create(AllocatedAddress(metadata=metadata, spec=spec))
        with pytest.raises(Invalid, match="has no free address"):
            await client.create(claim("next"))  # the address can be that of a claim which is being created
        monkeypatch.setattr(ip_allocator, "GRACE", timedelta(seconds=-1))
        assert (await client.create(claim("next"))).spec.address == free
        await client.delete(IPClaim, "next", namespace="default")
        await client.create(AllocatedAddress(metadata=metadata, spec=spec))
    async with serve_app(app, None) as running:
        assert [each.name for each in await running.client().list(AllocatedAddress)] == [kept.spec.address]
        assert (await running.client().get(IPClaim, "kept", namespace="default")).spec == kept.spec


@requires_kubectl
async def test_kubectl(cluster: TestServer, tmp_path: Path) -> None:
    kubectl = Kubectl(cluster, tmp_path)
    async with run_app(app, cluster.client()):
        for _ in range(2):
            applied = await kubectl("apply", "--server-side", "-f", str(EXAMPLE / "sample.yaml"))
            assert applied.count("serverside-applied") == 2
        rows = [line.split() for line in (await kubectl("get", "ipclaims")).splitlines()]
        assert rows[0] == ["NAME", "POOL", "ADDRESS", "AGE"]
        assert rows[1][2].startswith("10.1.0.")
        for kind in ("ippool.spec", "ipclaim.spec", "allocatedaddress.spec"):
            assert f"GROUP:      {GROUP}" in await kubectl("explain", kind)
