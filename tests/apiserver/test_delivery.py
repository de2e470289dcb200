"""Order of watch events and responses, bookmarks of streaming lists, and stopping with idle connections."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path

import pytest

from kubewright.apiserver import SYSTEM, APIServer, HTTPRequest, serve
from kubewright.storage import open_storage


@pytest.mark.parametrize("scheme", ["memory", "sqlite"])
async def test_watches_send_a_write_before_its_response(
    scheme, new_server, talk_to, widget, base, tmp_path: Path
):
    url = "memory:" if scheme == "memory" else f"sqlite:{tmp_path}/state.db"
    async with new_server(storage=open_storage(url)) as server:
        talk = talk_to(server)
        response = await server.handle(HTTPRequest("GET", base, query="watch=1", user=SYSTEM))
        order: list[str] = []

        async def read() -> None:
            async for chunk in response.stream:
                for line in chunk.splitlines():
                    event = json.loads(line)
                    order.append(f"{event['type']} {event['object']['metadata']['name']}")

        reading = asyncio.create_task(read())
        await asyncio.sleep(0)
        for number in range(20):
            await talk.ok("POST", base, widget(f"w{number}"))
            order.append(f"created w{number}")
            assert order[-2:] == [f"ADDED w{number}", f"created w{number}"]
            await talk.ok(
                "PATCH",
                f"{base}/w{number}",
                {"spec": {"size": 2}},
                Content_Type="application/merge-patch+json",
            )
            order.append("patched")
            assert order[-2:] == [f"MODIFIED w{number}", "patched"]
            await talk.ok("DELETE", f"{base}/w{number}")
            order.append("deleted")
            assert order[-2:] == [f"DELETED w{number}", "deleted"]
        reading.cancel()
        await response.stream.aclose()


async def test_bookmarks_of_streaming_lists(server, talk, widget, base):
    server.store("example.com", "widgets").resource.custom = True
    await talk.ok("POST", base, widget("a"))
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    stream = (await server.handle(HTTPRequest("GET", base, query=query, user=SYSTEM))).stream
    received = b""
    while b"BOOKMARK" not in received:
        received += await anext(stream)
    await stream.aclose()
    bookmark = json.loads(received.splitlines()[-1])
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"].keys() == {"resourceVersion", "annotations"}


async def test_an_idle_connection_does_not_delay_the_stop():
    server = APIServer(open_storage("memory:"))
    async with serve(server) as https:
        context = ssl.create_default_context(cadata=https.authority_pem.decode())
        reader, writer = await asyncio.open_connection("127.0.0.1", https.port, ssl=context)
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"HTTP/1.1" in await reader.readuntil(b"\r\n\r\n")
        await server.stop()
        async with asyncio.timeout(60):
            await https.stop(grace=3600)
    assert await reader.read() is not None
    writer.close()
