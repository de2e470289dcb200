"""Clients that send or read slowly: their memory is bounded, and other clients are served."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress

import pytest

from kubewright.api.errors import TooManyRequests
from kubewright.apiserver import HTTPRequest, User, serve
from kubewright.apiserver.priority.limits import FairLimit
from kubewright.apiserver.rest.verbs.watch import SLICE_BYTES

from .test_hostile_connections import RawClient

AUTHENTICATED = "system:authenticated"
OBJECTS = 50
SIZE = 300_000


async def fill(talk, widget, base, *, objects=OBJECTS, size=SIZE):
    for number in range(objects):
        labels = {"metadata": {"annotations": {"text": "x" * (size // 2)}}}
        await talk.ok("POST", base, widget(f"w{number:03}", spec={"color": "y" * (size // 2)}, **labels))


async def open_watch(talk, path):
    response = await talk.send("GET", path)
    assert response.status == 200
    return response.stream


async def read_names(stream, count):
    lines = b""
    while lines.count(b"\n") < count:
        lines += await anext(stream)
    events = [json.loads(line) for line in lines.splitlines()]
    return [(event["type"], event["object"]["metadata"].get("name")) for event in events]


@pytest.mark.parametrize("shares_values", [True, False])
async def test_unread_watches_hold_no_copies_of_the_initial_state(talk, server, widget, base, shares_values):
    await fill(talk, widget, base, size=100_000)
    server.store("example.com", "widgets").storage.shares_values = shares_values
    streams = [await open_watch(talk, f"{base}?watch=1") for _ in range(40)]
    assert sum(sum(map(len, stream.pending)) for stream in streams) == 0
    first = [await anext(stream) for stream in streams]
    assert max(map(len, first)) < SLICE_BYTES + 110_000
    assert not any(stream.pending for stream in streams)
    assert await read_names(streams[0], OBJECTS - first[0].count(b"\n")) == [
        ("ADDED", f"w{number:03}") for number in range(first[0].count(b"\n"), OBJECTS)
    ]
    for stream in streams:
        await stream.aclose()
    assert server.store("example.com", "widgets").watch_cache.active == 0


async def test_changes_during_the_initial_state_follow_it(talk, widget, base):
    await fill(talk, widget, base, objects=10, size=50_000)
    path = f"{base}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    stream = await open_watch(talk, path)
    assert await read_names(stream, 1) == [("ADDED", "w000")]
    await talk.ok("DELETE", f"{base}/w009")
    await talk.ok("POST", base, widget("x"))
    names = await read_names(stream, 12)
    assert names[:9] == [("ADDED", f"w{number:03}") for number in range(1, 10)]
    assert names[9:] == [("BOOKMARK", None), ("DELETED", "w009"), ("ADDED", "x")]
    await stream.aclose()


async def test_a_compacted_initial_state_ends_the_watch_with_410(talk, server, widget, base):
    await fill(talk, widget, base, objects=100, size=2_000)
    server.store("example.com", "widgets").storage.shares_values = False
    stream = await open_watch(talk, f"{base}?watch=1")
    await talk.ok("POST", base, widget("x"))
    await server.storage.compact(await server.storage.revision())
    lines = b"".join([chunk async for chunk in stream]).splitlines()
    last = json.loads(lines[-1])
    assert (last["type"], last["object"]["code"]) == ("ERROR", 410)


async def test_watches_with_an_unread_initial_state_are_counted_by_user(new_server, talk_to, widget, base):
    async with new_server(max_in_flight=8) as server:
        await fill(talk_to(server), widget, base, objects=3, size=50_000)
        ada = talk_to(server, User("ada", (AUTHENTICATED,)))
        eve = talk_to(server, User("eve", (AUTHENTICATED,)))
        streams = [await open_watch(eve, f"{base}?watch=1") for _ in range(6)]
        assert (await eve.send("GET", f"{base}?watch=1")).status == 429
        streams.append(await open_watch(ada, f"{base}?watch=1"))
        await read_names(streams[0], 3)
        waiting = asyncio.ensure_future(anext(streams[0]))
        await asyncio.sleep(0)
        streams.append(await open_watch(eve, f"{base}?watch=1"))
        waiting.cancel()
        for stream in streams:
            await stream.aclose()
        streams = [await open_watch(eve, f"{base}?watch=1") for _ in range(6)]
        for stream in streams:
            await stream.aclose()


def test_one_user_cannot_use_all_of_a_limit():
    limit = FairLimit()
    for _ in range(6):
        limit.acquire("eve", limit=8)
    with pytest.raises(TooManyRequests):
        limit.acquire("eve", limit=8)
    with limit.hold("ada", 2, limit=8), pytest.raises(TooManyRequests):
        limit.acquire("bob", limit=8)
    assert limit.total == 6
    limit.release("eve", 6)
    limit.acquire("eve", 1, limit=1)
    assert limit.total == 1


async def test_unread_tables_are_counted_and_their_clients_disconnected(new_server, widget, base, talk_to):
    server = new_server()
    async with serve(server, stall_timeout=3600, max_unsent_bytes=24_000_000) as front:
        await fill(talk_to(server), widget, base, objects=40)
        request = (
            f"GET {base}?includeObject=Object HTTP/1.1\r\nHost: x\r\n"
            "Accept: application/json;as=Table;g=meta.k8s.io;v=v1\r\n\r\n"
        )
        clients = [await RawClient.connect(front, groups=()) for _ in range(3)]
        await clients[0].send(request.encode())
        async with asyncio.timeout(60):
            while not front.unsent.total:
                await asyncio.sleep(0.01)
        assert 12_000_000 < front.unsent.total < 13_000_000
        # A second response would exceed the share of the user.
        await clients[1].send(request.encode())
        status, headers, _ = await clients[1].response()
        assert (status, headers["retry-after"]) == (429, "1")
        # A response that is not read ends with the connection: by the client, or after the stall timeout.
        clients[0].writer.transport.abort()
        async with asyncio.timeout(60):
            while front.unsent.total:
                await asyncio.sleep(0.05)
        front.stall_timeout = 0.2
        await clients[2].send(request.encode())
        head = (await clients[2].reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(re.search(r"content-length: (\d+)", head)[1])
        assert length > 12_000_000
        async with asyncio.timeout(60):
            while front.unsent.total:
                await asyncio.sleep(0.05)
            received = 0
            with suppress(ConnectionError):
                while data := await clients[2].reader.read(1 << 20):
                    received += len(data)
        assert received < length
        for client in clients:
            client.writer.transport.abort()


async def test_slow_bodies_leave_the_server_to_other_users(new_server, talk_to, widget, base):
    async with new_server(max_in_flight=8, max_mutating_in_flight=8) as server:
        release = asyncio.Event()

        async def slow(limit):
            await release.wait()
            return json.dumps(widget("slow")).encode()

        def send(user):
            return asyncio.create_task(server.handle(HTTPRequest("POST", base, user=user, body=slow)))

        eve = User("eve", (AUTHENTICATED,))
        slow_requests = [send(eve) for _ in range(200)]
        await asyncio.sleep(0)
        ada = talk_to(server, User("ada", (AUTHENTICATED,)))
        assert (await ada("POST", base, widget("a")))[0] == 201
        assert (await ada("GET", base))[0] == 200
        # A body that is complete takes its place among the requests in flight.
        assert (await talk_to(server, eve)("POST", base, widget("e")))[0] == 201
        release.set()
        statuses = [(await each).status for each in slow_requests]
        assert statuses.count(429) == 194
        assert statuses.count(201) == 1


async def test_a_user_without_rights_is_denied_before_the_body_is_read(new_server, base):
    class DenyAll:
        async def authorize(self, attributes):
            from kubewright.apiserver.authorization import Decision

            return Decision.DENY, ""

    async def never(limit):
        raise AssertionError("the body was read")

    async with new_server(authorizer=DenyAll()) as server:
        user = User("eve", (AUTHENTICATED,))
        response = await server.handle(HTTPRequest("POST", base, user=user, body=never))
        assert response.status == 403


async def test_a_body_below_the_minimum_rate_times_out(new_server, base):
    async with serve(new_server(), body_grace=0.2) as front:
        client = await RawClient.connect(front)
        await client.send(f"POST {base} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{".encode())
        status, _, body = await client.response()
        assert status == 408, body
        client.writer.close()
