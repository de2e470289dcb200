"""Events: one set of objects, two groups."""

from __future__ import annotations

from typing import Any

CORE = "/api/v1/namespaces/ns/events"
NEWER = "/apis/events.k8s.io/v1/namespaces/ns/events"
POD = {"kind": "Pod", "name": "p", "namespace": "ns"}


async def test_both_groups_show_what_either_has_stored(talk: Any) -> None:
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
    await talk.ok("POST", CORE, old)
    seen = await talk.ok("GET", f"{NEWER}/a")
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
    await talk.ok("POST", NEWER, new)
    seen = await talk.ok("GET", f"{CORE}/b")
    assert (seen["involvedObject"], seen["message"]) == (POD, "began")
    assert seen["reportingComponent"] == "example.com/c"
    assert len((await talk.ok("GET", NEWER))["items"]) == len((await talk.ok("GET", CORE))["items"]) == 2


async def test_events_are_selected_in_the_words_of_each_group(talk: Any) -> None:
    for name, kind in (("a", "Normal"), ("b", "Warning")):
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name},
            "involvedObject": POD,
            "type": kind,
        }
        await talk.ok("POST", CORE, event)
    for path, selector in (
        (CORE, "involvedObject.name=p,type=Warning"),
        (NEWER, "regarding.name=p,type=Warning"),
    ):
        found = await talk.ok("GET", f"{path}?fieldSelector={selector}")
        assert [item["metadata"]["name"] for item in found["items"]] == ["b"]
    status, _ = await talk("GET", f"{NEWER}?fieldSelector=involvedObject.name=p")
    assert status == 400


async def test_new_events_have_none_of_the_old_fields(talk: Any) -> None:
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "a"},
        "regarding": POD,
        "deprecatedCount": 1,
    }
    assert await talk.faults("POST", NEWER, event) == {"eventTime", "type", "count"}


async def test_the_last_sight_comes_first(talk: Any) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a"},
        "involvedObject": POD,
        "message": " hello ",
        "reason": "R",
        "type": "Normal",
    }
    await talk.ok("POST", CORE, event)
    for path in (CORE, NEWER):
        cells = await talk.cells(f"{path}/a")
        assert cells == ["<unknown>", "Normal", "R", "pod/p", "", "", "hello", "<unknown>", 1, "a"]
