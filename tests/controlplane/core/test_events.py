"""Events are served by two groups: watches of both receive every change."""

from __future__ import annotations

from typing import Any

import msgspec

from kubewright.apiserver import SYSTEM, HTTPRequest


async def first_event(plane: Any, path: str) -> Any:
    response = await plane.server.handle(
        HTTPRequest("GET", f"{path}?watch=true&timeoutSeconds=300", user=SYSTEM)
    )
    async for chunk in response.stream:
        await response.stream.aclose()
        return msgspec.json.decode(chunk.split(b"\n")[0])
    raise AssertionError("the watch ended without an event")


async def test_both_groups_see_an_event(plane: Any, send: Any) -> None:
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Testing",
        "message": "seen",
        "type": "Normal",
    }
    assert (await send("POST", "/api/v1/namespaces/default/events", event))[0] == 201
    for group in ("/api/v1", "/apis/events.k8s.io/v1"):
        seen = await first_event(plane, f"{group}/namespaces/default/events")
        assert seen["object"]["metadata"]["name"] == "e"


async def test_live_changes_reach_the_watches_of_both_groups(plane: Any, send: Any) -> None:
    _, listed = await send("GET", "/api/v1/namespaces/default/events")
    version = listed["metadata"]["resourceVersion"]
    streams = []
    for group in ("/api/v1", "/apis/events.k8s.io/v1"):
        path = f"{group}/namespaces/default/events?watch=true&resourceVersion={version}&timeoutSeconds=300"
        streams.append((await plane.server.handle(HTTPRequest("GET", path, user=SYSTEM))).stream)
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "type": "Normal"}
    assert (await send("POST", "/api/v1/namespaces/default/events", event))[0] == 201
    for stream in streams:
        async for chunk in stream:
            assert msgspec.json.decode(chunk.split(b"\n")[0])["type"] == "ADDED"
            break
        await stream.aclose()
