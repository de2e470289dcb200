"""Cluster IPs stay unique when requests time out, and their records are repaired."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.controlplane.path_client import PathClient

from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.controlplane.controllers.service_allocations import ServiceAllocationRepair
from kubewright.storage import SQLiteStorage
from kubewright.testing import TestServer, start_test_server
from kubewright.testing.time import fake_time

SERVICES = "/api/v1/namespaces/default/services"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"


class SlowCommits(SQLiteStorage):
    """A store whose commits wait for `released`, as on a slow disk."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.hold = ""
        self.held = asyncio.Event()
        self.released = asyncio.Event()
        self.write: asyncio.Future[int]

    async def create(self, key: str, value: bytes, *, ttl: int | None = None) -> int:
        if self.hold and key.endswith(self.hold):
            # The write continues when its request is cancelled, like one that is queued for the disk.
            self.write = asyncio.ensure_future(self._create_later(key, value))
            self.held.set()
            return await asyncio.shield(self.write)
        return await super().create(key, value, ttl=ttl)

    async def _create_later(self, key: str, value: bytes) -> int:
        await self.released.wait()
        return await super().create(key, value)


def service(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": [{"port": 80}], **spec},
    }


def test_a_timeout_after_the_commit_was_queued_keeps_the_address(tmp_path: Path) -> None:
    # With a simulated clock, the request cannot time out before its commit.
    fake_time(check_timeout_after_commit(tmp_path))


async def check_timeout_after_commit(tmp_path: Path) -> None:
    storage = SlowCommits(tmp_path / "state.db")
    async with start_test_server("in-process", store=storage) as server:
        client = PathClient(server.plane.server, SYSTEM)
        storage.hold = "/services/default/slow"
        creating = asyncio.ensure_future(
            client.create(f"{SERVICES}?timeout=50ms", service("slow", clusterIP="10.0.0.77"))
        )
        await storage.held.wait()
        with pytest.raises(Exception, match="in the time allotted"):
            await creating
        storage.hold = ""
        storage.released.set()
        await storage.write
        slow = await client.get(f"{SERVICES}/slow")
        assert slow["spec"]["clusterIP"] == "10.0.0.77"
        with pytest.raises(Exception, match="already allocated"):
            await client.create(SERVICES, service("other", clusterIP="10.0.0.77"))
        assert (await client.get(f"{ADDRESSES}/10.0.0.77"))["spec"]["parentRef"]["name"] == "slow"


async def repair(server: TestServer) -> None:
    plane = server.plane
    await ServiceAllocationRepair(plane.server, plane.informers).repair()


async def test_records_are_repaired() -> None:
    async with start_test_server("in-process") as server:
        client, storage = PathClient(server.plane.server, SYSTEM), server.plane.storage
        made = await client.create(SERVICES, service("web", type="NodePort"))
        address, port = made["spec"]["clusterIP"], made["spec"]["ports"][0]["nodePort"]
        records = f"{server.plane.server.prefix}ranges/servicenodeports/"
        addresses = server.plane.server.store("networking.k8s.io", "ipaddresses")
        assert addresses is not None

        async def delete(key: str) -> None:
            item = await storage.get(key)
            assert item is not None
            await storage.delete(key, expected=item.mod_revision)

        await delete(f"{records}{port}")
        await delete(addresses.key("", address))
        template = json.loads((await storage.list(addresses.prefix)).items[0].value)
        template["metadata"] |= {"name": "10.0.0.200", "creationTimestamp": "2020-01-01T00:00:00Z"}
        template["spec"]["parentRef"]["name"] = "missing"
        await storage.create(addresses.key("", "10.0.0.200"), json.dumps(template).encode())
        await storage.create(f"{records}30001", b'{"owner": "default/missing", "time": 1}')
        await storage.create(f"{records}30002", json.dumps({"owner": "default/new", "time": 4e9}).encode())

        await repair(server)
        assert await storage.get(addresses.key("", address)) is not None
        assert await storage.get(f"{records}{port}") is not None
        assert await storage.get(addresses.key("", "10.0.0.200")) is None
        assert await storage.get(f"{records}30001") is None
        assert await storage.get(f"{records}30002") is not None, "its service may be about to be stored"


async def test_a_deleted_address_is_created_again() -> None:
    async with start_test_server("in-process") as server:
        client = PathClient(server.plane.server, SYSTEM)
        made = await client.create(SERVICES, service("web"))
        address = made["spec"]["clusterIP"]
        await client.delete(f"{ADDRESSES}/{address}")
        await server.plane.wait_until_idle()
        found = await client.get(f"{ADDRESSES}/{address}")
        assert found["spec"]["parentRef"]["name"] == "web"
