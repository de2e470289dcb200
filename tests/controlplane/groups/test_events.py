"""Events: the same objects in the core group and in events.k8s.io."""

from __future__ import annotations

from typing import Any

CORE = "/api/v1/namespaces/ns/events"
NEWER = "/apis/events.k8s.io/v1/namespaces/ns/events"
POD = {"kind": "Pod", "name": "p", "namespace": "ns"}


async def test_both_groups_serve_the_same_events(api: Any) -> None:
    old = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a"},
        "involvedObject": POD,
        "message": "started",
        "source": {"component": "kubelet"},
        "count": 3,
        "type": "Normal",
    }
    await api.ok("POST", CORE, old)
    seen = await api.ok("GET", f"{NEWER}/a")
    assert seen["apiVersion"] == "events.k8s.io/v1"
    assert (seen["regarding"], seen["note"], seen["deprecatedCount"]) == (POD, "started", 3)
    new = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "b"},
        "regarding": POD,
        "eventTime": "2024-01-01T00:00:00.000000Z",
        "reportingController": "example.com/c",
        "reportingInstance": "i",
        "action": "Start",
        "reason": "Because",
        "note": "began",
        "type": "Warning",
    }
    await api.ok("POST", NEWER, new)
    seen = await api.ok("GET", f"{CORE}/b")
    assert (seen["involvedObject"], seen["message"]) == (POD, "began")
    assert seen["reportingComponent"] == "example.com/c"
    assert len((await api.ok("GET", NEWER))["items"]) == len((await api.ok("GET", CORE))["items"]) == 2


async def test_field_selectors_use_the_field_names_of_each_group(api: Any) -> None:
    for name, kind in (("a", "Normal"), ("b", "Warning")):
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name},
            "involvedObject": POD,
            "type": kind,
        }
        await api.ok("POST", CORE, event)
    for path, selector in (
        (CORE, "involvedObject.name=p,type=Warning"),
        (NEWER, "regarding.name=p,type=Warning"),
    ):
        found = await api.ok("GET", f"{path}?fieldSelector={selector}")
        assert [item["metadata"]["name"] for item in found["items"]] == ["b"]
    status, _ = await api("GET", f"{NEWER}?fieldSelector=involvedObject.name=p")
    assert status == 400


async def test_new_events_must_not_set_deprecated_fields(api: Any) -> None:
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "a"},
        "regarding": POD,
        "deprecatedCount": 1,
    }
    assert await api.invalid_fields("POST", NEWER, event) == {"eventTime", "type", "count"}


async def test_event_columns(api: Any) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a"},
        "involvedObject": POD,
        "message": " hello ",
        "reason": "R",
        "type": "Normal",
    }
    await api.ok("POST", CORE, event)
    for path in (CORE, NEWER):
        cells = await api.cells(f"{path}/a")
        assert cells == ["<unknown>", "Normal", "R", "pod/p", "", "", "hello", "<unknown>", 1, "a"]
