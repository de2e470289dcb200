"""Watches resume at a replica that was started after their last event, without listing again."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.controlplane.path_client import PathClient
from tests.controlplane.stores.conftest import gadgets

from kubewright.api.errors import Expired
from kubewright.apiserver import HTTPRequest
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.controlplane import ControlPlane

from .conftest import SharedStore

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
GROUP = "resumed.example.com"
GADGETS = f"/apis/{GROUP}/v1/namespaces/default/gadgets"


async def read_names(plane: ControlPlane, path: str, revision: str, count: int) -> list[str]:
    """Types and names of the first events after a revision."""
    request = HTTPRequest("GET", path, query=f"watch=1&resourceVersion={revision}", user=SYSTEM)
    response = await plane.server.handle(request)
    assert response.stream is not None
    found: list[str] = []
    async with asyncio.timeout(60):
        async for chunk in response.stream:
            for line in chunk.splitlines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise Expired(event["object"]["message"])
                name = event["object"]["metadata"]["name"]
                if name != "kube-root-ca.crt":  # A controller creates it at any time.
                    found.append(f"{event['type']} {name}")
            if len(found) >= count:
                break
    await response.stream.aclose()  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("compacted", [False, True], ids=["not-compacted", "compacted"])
async def test_watches_resume_at_a_new_replica(shared_store: SharedStore, compacted: bool) -> None:
    store = shared_store.url("compact_every=0&timeout=60")
    async with ControlPlane(store=store, port=None) as first:
        client = PathClient(first.server, SYSTEM)
        await client.create(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", gadgets(GROUP, {"properties": {}})
        )
        start = (await client.get(CONFIG_MAPS))["metadata"]["resourceVersion"]
        for path, kind in ((CONFIG_MAPS, {}), (GADGETS, {"apiVersion": f"{GROUP}/v1", "kind": "Gadget"})):
            for name in ("a", "b"):
                await client.create(path, {**kind, "metadata": {"name": name}})
            await client.merge(f"{path}/a", {"metadata": {"labels": {"changed": "yes"}}})
            await client.delete(f"{path}/b")
        if compacted:
            await first.storage.compact(await first.storage.revision())
        async with ControlPlane(store=store, port=None) as second:
            await PathClient(second.server, SYSTEM).get(GADGETS)
            for path in (CONFIG_MAPS, GADGETS):
                expected = ["ADDED a", "ADDED b", "MODIFIED a", "DELETED b"]
                if not compacted:
                    assert await read_names(second, path, start, 4) == expected
                else:
                    with pytest.raises(Expired, match="too old resource version"):
                        await read_names(second, path, start, 4)
