"""Watches: initial state, events, selectors, timeouts, errors."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref

import pytest

from kubewright.apiserver.watch import cache, watcher

MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def opened(talk, path, query="", **headers):
    separator = "&" if "?" in path else "?"
    response = await talk.send("GET", f"{path}{separator}watch=1{query}", **headers)
    assert response.status == 200, response.body
    return response.stream


async def take(stream, count):
    """Return a number of events of a watch."""
    lines = b""
    async with asyncio.timeout(60):
        while lines.count(b"\n") < count:
            lines += await stream.__anext__()
    events = [json.loads(line) for line in lines.splitlines()]
    assert len(events) == count, events
    return events


async def rest(stream):
    async with asyncio.timeout(60):
        return [json.loads(line) async for chunk in stream for line in chunk.splitlines()]


def shown(events):
    return [(event["type"], event["object"]["metadata"].get("name")) for event in events]


async def test_state_then_changes(talk, widget, base):
    await talk.ok("POST", base, widget("a"))
    stream = await opened(talk, base)
    await talk.ok("POST", base, widget("b"))
    changed = await talk.ok("PATCH", f"{base}/a", {"spec": {"size": 1}}, Content_Type=MERGE)
    await talk.ok("DELETE", f"{base}/a")
    events = await take(stream, 4)
    assert shown(events) == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert events[2]["object"] == changed
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))


async def test_from_a_version_and_initial_events(talk, widget, base):
    first = await talk.ok("POST", base, widget("a"))
    await talk.ok("POST", base, widget("b"))
    version = first["metadata"]["resourceVersion"]
    assert shown(await take(await opened(talk, base, f"&resourceVersion={version}"), 1)) == [("ADDED", "b")]
    query = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    stream = await opened(talk, base, query)
    events = await take(stream, 3)
    assert shown(events) == [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", None)]
    meta = events[2]["object"]["metadata"]
    assert meta["annotations"] == {"k8s.io/initial-events-end": "true"}
    await talk.ok("POST", base, widget("c"))
    assert shown(await take(stream, 1)) == [("ADDED", "c")]
    assert (await talk("GET", f"{base}?watch=1&sendInitialEvents=true"))[0] == 422
    assert (await talk("GET", f"{base}?watch=1&resourceVersion=abc"))[0] == 500


async def test_selectors_turn_modifications_into_additions_and_deletions(talk, widget, base):
    stream = await opened(talk, base, "&labelSelector=on=yes")
    await talk.ok("POST", base, widget("a"))
    for labels in ({"on": "yes"}, {"x": "y"}, {"on": "no"}, {"on": "yes"}):
        await talk.ok("PATCH", f"{base}/a", {"metadata": {"labels": labels}}, Content_Type=MERGE)
    await talk.ok("DELETE", f"{base}/a")
    events = await take(stream, 5)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    assert events[2]["object"]["metadata"]["labels"]["on"] == "yes"


async def test_scopes(talk, widget, base):
    one = await opened(talk, base, "&fieldSelector=metadata.name=b")
    old = await opened(talk, "/apis/example.com/v1/watch/namespaces/default/widgets/b")
    everywhere = await opened(talk, "/apis/example.com/v1/widgets")
    for namespace, name in (("default", "a"), ("default", "b"), ("other", "b")):
        await talk.ok("POST", base.replace("default", namespace), widget(name))
    assert shown(await take(one, 1)) == [("ADDED", "b")]
    assert shown(await take(old, 1)) == [("ADDED", "b")]
    assert len(await take(everywhere, 3)) == 3


@pytest.mark.parametrize(("limit", "value"), [("WINDOW", 4), ("WINDOW_BYTES", 1000)])
async def test_an_expired_version_is_an_error_event(talk, server, widget, base, monkeypatch, limit, value):
    monkeypatch.setattr(cache, limit, value)
    first = await talk.ok("POST", base, widget("a"))
    for number in range(8):
        await talk.ok("POST", base, widget(f"b{number}"))
    await server.dispatcher.wait_for_storage_revision(await server.storage.revision(), 60)
    await asyncio.sleep(0)
    events = await rest(await opened(talk, base, f"&resourceVersion={first['metadata']['resourceVersion']}"))
    assert [event["type"] for event in events] == ["ERROR"]
    assert events[0]["object"]["code"] == 410
    assert events[0]["object"]["message"].startswith("too old resource version: ")


async def test_event_history_is_bounded_by_time_and_count(new_server, talk_to, widget, base, monkeypatch):
    monkeypatch.setattr(cache, "WINDOW_LEAST", 3)
    now = [1000.0]
    async with new_server(clock=lambda: now[0]) as server:
        talk = talk_to(server)
        versions = []
        for number in range(6):
            made = await talk.ok("POST", base, widget(f"w{number}"))
            versions.append(made["metadata"]["resourceVersion"])
        await server.dispatcher.catch_up()
        assert len(await take(await opened(talk, base, f"&resourceVersion={versions[0]}"), 5)) == 5
        now[0] += cache.WINDOW_SECONDS + 1
        await talk.ok("POST", base, widget("late"))
        await server.dispatcher.catch_up()
        kept = await take(await opened(talk, base, f"&resourceVersion={versions[3]}"), 3)
        assert shown(kept) == [("ADDED", "w4"), ("ADDED", "w5"), ("ADDED", "late")]
        (expired,) = await rest(await opened(talk, base, f"&resourceVersion={versions[2]}"))
        assert expired["object"]["code"] == 410


async def test_timeouts_and_bookmarks_follow_the_clock(new_server, talk_to, widget, base):
    now = [1000.0]
    async with new_server(clock=lambda: now[0]) as server:
        talk = talk_to(server)
        await talk.ok("POST", base, widget("a"))
        stream = await opened(talk, base, "&allowWatchBookmarks=true&timeoutSeconds=100")
        assert shown(await take(stream, 1)) == [("ADDED", "a")]
        now[0] += 61
        server.dispatcher.timer.tick()
        assert shown(await take(stream, 1)) == [("BOOKMARK", None)]
        now[0] += 40
        server.dispatcher.timer.tick()
        await rest(stream)
        assert server.store("example.com", "widgets").watch_cache.active == 0


async def test_ended_watch_is_released_immediately(talk, server, widget, base):
    await talk.ok("POST", base, widget("a"))
    ended = [weakref.ref(server.store("example.com", "widgets").watch_cache)]
    for end in ("client", "server"):
        stream = await opened(talk, base, "&timeoutSeconds=3600")
        ended.append(weakref.ref(stream.representation))
        if end == "client":
            await stream.aclose()
        server.add(server.store("example.com", "widgets").resource)
        del stream
    await server.dispatcher.catch_up()
    gc.collect()
    assert [reference() for reference in ended] == [None, None, None]


async def test_slow_watcher_is_closed_without_affecting_others(talk, server, widget, base, monkeypatch):
    monkeypatch.setattr(watcher, "QUEUE_EVENTS", 5)
    slow = await opened(talk, base)
    quick = await opened(talk, base)
    aborted = []
    slow.abort = lambda: aborted.append(True)
    seen = []
    for number in range(10):
        await talk.ok("POST", base, widget(f"w{number}"))
        seen += await take(quick, 1)
    assert len(seen) == 10
    assert aborted == [True]
    assert slow.dropped
    with pytest.raises(StopAsyncIteration):
        await slow.__anext__()


async def test_events_are_encoded_once(talk, widget, base):
    streams = [await opened(talk, base) for _ in range(3)]
    await talk.ok("POST", base, widget("a"))
    chunks = [await stream.__anext__() for stream in streams]
    assert chunks[0] is chunks[1] is chunks[2]


async def test_table_events_have_columns_once(talk, widget, base):
    await talk.ok("POST", base, widget("a"))
    stream = await opened(talk, base, Accept=TABLE)
    await talk.ok("POST", base, widget("b"))
    events = await take(stream, 2)
    assert events[0]["object"]["columnDefinitions"]
    assert not events[1]["object"]["columnDefinitions"]
    assert events[1]["object"]["rows"][0]["cells"][0] == "b"


async def test_removing_a_resource_closes_its_watches(talk, server, base):
    stream = await opened(talk, base)
    server.remove("example.com", "widgets")
    assert await rest(stream) == []
    assert (await talk("GET", base))[0] == 404


async def test_idle_watches_of_other_resources_are_not_notified(talk, server, widget, base):
    streams = [await opened(talk, base, f"&fieldSelector=metadata.name=n{number}") for number in range(2000)]
    hub = server.store("example.com", "widgets").watch_cache
    assert hub.active == 2000
    await talk.ok("POST", base, widget("n7"))
    assert shown(await take(streams[7], 1)) == [("ADDED", "n7")]
    assert not any(stream.pending for stream in streams)
    for stream in streams:
        await stream.aclose()
    assert hub.active == 0
