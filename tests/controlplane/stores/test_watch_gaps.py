"""Watches on etcd under concurrent writes: the initial state and the stream come from one revision."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controlplane.path_client import PathClient

from kubewright.apiserver import HTTPRequest
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.apiserver.watch import cache as watch_cache
from kubewright.controlplane import ControlPlane

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def plane(etcd: str, request: pytest.FixtureRequest) -> AsyncIterator[ControlPlane]:
    async with ControlPlane(store=f"etcd://{etcd}/{request.node.name}?timeout=60", port=None) as made:
        yield made


async def numbers(plane: ControlPlane, query: str, count: int) -> list[int]:
    """The counter in the first events of a watch, without those of other objects."""
    response = await plane.server.handle(
        HTTPRequest("GET", CONFIG_MAPS, query=f"watch=1&{query}", user=SYSTEM)
    )
    assert response.stream is not None
    found: list[int] = []
    async with asyncio.timeout(60):
        async for chunk in response.stream:
            for line in chunk.splitlines():
                event = json.loads(line)
                if event["object"]["metadata"]["name"] == "counter":
                    found.append(int(event["object"]["data"]["n"]))
            if len(found) >= count:
                break
    await response.stream.aclose()  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize(
    ("query", "size", "watches"),
    [("fieldSelector=metadata.name%3Dcounter", 10, 60), ("", 100_000, 6)],
    ids=["one object", "large objects"],
)
async def test_no_event_is_missing(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, query: str, size: int, watches: int
) -> None:
    monkeypatch.setattr(watch_cache, "WINDOW_BYTES", 3 * size)  # a window of one or two events
    client = PathClient(plane.server, SYSTEM)
    padding = {"padding": "x" * size}
    for number in range(5):
        await client.create(CONFIG_MAPS, {"metadata": {"name": f"other-{number}"}, "data": padding})
    current: dict[str, Any] = await client.create(
        CONFIG_MAPS, {"metadata": {"name": "counter"}, "data": {**padding, "n": "0"}}
    )
    stop = False

    async def count() -> None:
        nonlocal current
        number = 0
        while not stop:
            number += 1
            current["data"]["n"] = str(number)
            current = await client.update(f"{CONFIG_MAPS}/counter", current)

    counting = asyncio.create_task(count())
    try:
        for _ in range(watches):
            found = await numbers(plane, query, 5)
            assert found == list(range(found[0], found[0] + len(found)))
    finally:
        stop = True
        await counting
