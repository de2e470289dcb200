"""Stored values that cannot be decoded: every read that includes one fails and names its key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.apiserver.conftest import Talk, make_server, make_widget
from tests.security.examples import examples

from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import ConfigMap
from kubewright.apiserver import SYSTEM, APIServer, HTTPRequest
from kubewright.apiserver.resources.stored_objects import decode_error
from kubewright.cache import Cache
from kubewright.controlplane import ControlPlane
from kubewright.storage.memory import MemoryStorage

BASE = "/apis/example.com/v1/namespaces/default/widgets"
OTHERS = "/apis/example.com/v1/namespaces/other/widgets"
KEY = "/registry/example.com/widgets/default/b"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PARTIAL = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def with_change(change: Callable[[Any], object]) -> Callable[[bytes], bytes]:
    def damage(value: bytes) -> bytes:
        obj = json.loads(value)
        change(obj)
        return json.dumps(obj, separators=(",", ":")).encode()

    return damage


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "garbage": lambda value: b"\xff not JSON",
    "empty": lambda value: b"",
    "truncated by a byte": lambda value: value[:-1],
    "truncated by half": lambda value: value[: len(value) // 2],
    "truncated after metadata": lambda value: value[: value.index(b',"spec"')],
    "trailing bytes": lambda value: value + b"}",
    "zeroes": lambda value: b"\0" * len(value),
    "not UTF-8": lambda value: value.replace(b"red", b"r\xffd"),
    "a list": lambda value: b"[]",
    "null": lambda value: b"null",
    "without metadata": lambda value: b'{"apiVersion":"example.com/v1","kind":"Widget"}',
    "of another kind": with_change(lambda obj: obj.update(kind="Gadget")),
    "labels of another type": with_change(lambda obj: obj["metadata"].update(labels={"n": 0})),
    "a name of another type": with_change(lambda obj: obj["metadata"].update(name=5)),
    "encrypted": lambda value: b"k8s:enc:aescbc:v1:lost:" + bytes(range(64)),
    "truncated ciphertext": lambda value: b"k8s:enc:aes",
}

READS: dict[str, tuple[str, str, str, Any]] = {
    "get": ("GET", f"{BASE}/b", "application/json", None),
    "get as Table": ("GET", f"{BASE}/b", TABLE, None),
    "get metadata": ("GET", f"{BASE}/b", PARTIAL.replace("List", ""), None),
    "list": ("GET", BASE, "application/json", None),
    "list everywhere": ("GET", "/apis/example.com/v1/widgets", "application/json", None),
    "list from the watch cache": ("GET", f"{BASE}?resourceVersion=0", "application/json", None),
    "first page": ("GET", f"{BASE}?limit=2", "application/json", None),
    "list by label": ("GET", f"{BASE}?labelSelector=n%3D0", "application/json", None),
    "list by label in pages": ("GET", f"{BASE}?labelSelector=n%3D0&limit=2", "application/json", None),
    "list by field": ("GET", f"{BASE}?fieldSelector=spec.color%3Dred", "application/json", None),
    "list by name": ("GET", f"{BASE}?fieldSelector=metadata.name%3Db", "application/json", None),
    "list as Table": ("GET", BASE, TABLE, None),
    "list of metadata": ("GET", BASE, PARTIAL, None),
    "list as YAML": ("GET", BASE, "application/yaml", None),
    "indented list": ("GET", f"{BASE}?pretty=1", "application/json", None),
    "update": ("PUT", f"{BASE}/b", "application/json", make_widget("b")),
    "patch": ("PATCH", f"{BASE}/b", "application/json", {"spec": {"size": 2}}),
    "delete": ("DELETE", f"{BASE}/b", "application/json", None),
    "delete collection": ("DELETE", BASE, "application/json", None),
}

WATCHES = {
    "watch": "watch=1",
    "watch of one object": "watch=1&fieldSelector=metadata.name%3Db",
    "watch with a selector": "watch=1&labelSelector=n%3D0",
    "watch list": (
        "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    ),
    "watch from now on": "watch=1&resourceVersion={now}",
}


async def create(talk: Talk) -> None:
    for name in "abc":
        labels = {"n": "0"}
        widget = make_widget(name, spec={"color": "red"}, metadata={"labels": labels})
        await talk.ok("POST", BASE, widget)
    await talk.ok("POST", OTHERS, make_widget("b"))


async def write(storage: MemoryStorage, damage: Callable[[bytes], bytes]) -> bytes:
    """Damage the stored object; returns the value that it had."""
    item = await storage.get(KEY)
    assert item is not None
    await storage.update(KEY, damage(item.value), expected=item.mod_revision)
    return item.value


@asynccontextmanager
async def damaged_server(damage: Callable[[bytes], bytes], *, at_start: bool) -> AsyncIterator[APIServer]:
    """A server with a damaged object: found at its start, or damaged while it runs."""
    storage = MemoryStorage()
    async with storage:
        async with make_server(storage) as server:
            talk = Talk(server)
            await create(talk)
            await talk.ok("GET", BASE)
            await write(storage, damage)
            if not at_start:
                await server.dispatcher.catch_up()
                yield server
        if at_start:
            async with make_server(storage) as server:
                yield server


async def fails(talk: Talk, read: str) -> None:
    method, path, accept, body = READS[read]
    media = "application/merge-patch+json" if method == "PATCH" else "application/json"
    response = await talk.send(method, path, body, Accept=accept, Content_Type=media)
    assert response.status == 500, (read, response.body)
    assert KEY in response.body.decode(), read


@pytest.mark.parametrize("at_start", [True, False], ids=["at start", "while running"])
@pytest.mark.parametrize("kind", DAMAGES)
async def test_reads_fail_and_name_the_key(kind: str, at_start: bool) -> None:
    async with damaged_server(DAMAGES[kind], at_start=at_start) as server:
        talk = Talk(server)
        for _ in range(2):
            for read in READS:
                await fails(talk, read)
        assert [each["metadata"]["name"] for each in (await talk.ok("GET", OTHERS))["items"]] == ["b"]
        assert (await talk.ok("GET", f"{BASE}/a"))["metadata"]["name"] == "a"
        page = await talk.ok("GET", f"{BASE}?limit=1")
        assert [each["metadata"]["name"] for each in page["items"]] == ["a"]
        following = f"{BASE}?limit=1&continue={page['metadata']['continue']}"
        status, error = await talk("GET", following)
        assert (status, error["reason"]) == (500, "StorageReadError")
        metrics = (await server.handle(HTTPRequest("GET", "/metrics", user=SYSTEM))).body
        labels = b'{group="example.com",resource="widgets"}'
        assert b"apiserver_storage_decode_errors_total%b 1.0" % labels in metrics
        assert b"kubewright_undecodable_objects%b 1.0" % labels in metrics


async def watched(server: APIServer, query: str) -> bytes:
    stream = (await server.handle(HTTPRequest("GET", BASE, query=query, user=SYSTEM))).stream
    assert stream is not None
    return b"".join([chunk async for chunk in stream])


@pytest.mark.parametrize("at_start", [True, False], ids=["at start", "while running"])
@pytest.mark.parametrize("kind", DAMAGES)
async def test_watches_fail_and_name_the_key(kind: str, at_start: bool) -> None:
    async with damaged_server(DAMAGES[kind], at_start=at_start) as server:
        await fails(Talk(server), "list")
        for name, query in WATCHES.items():
            received = await watched(server, query.format(now=server.dispatcher.revision))
            event = json.loads(received.splitlines()[-1])
            assert event["type"] == "ERROR", name
            assert event["object"]["code"] == 500, name
            assert KEY in event["object"]["message"], name


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("query", ["watch=1", "watch=1&labelSelector=n%3D0"])
async def test_a_running_watch_ends_with_the_event(kind: str, query: str) -> None:
    storage = MemoryStorage()
    async with storage, make_server(storage) as server:
        await create(Talk(server))
        stream = (await server.handle(HTTPRequest("GET", BASE, query=query, user=SYSTEM))).stream
        assert stream is not None
        await write(storage, DAMAGES[kind])
        received = b"".join([chunk async for chunk in stream])
        events = [json.loads(line) for line in received.splitlines()]
        assert [each["type"] for each in events] == ["ADDED", "ADDED", "ADDED", "ERROR"]
        assert KEY in events[-1]["object"]["message"]


@pytest.mark.parametrize("kind", DAMAGES)
async def test_a_restored_value_is_read_again(kind: str) -> None:
    storage = MemoryStorage()
    async with storage, make_server(storage) as server:
        talk = Talk(server)
        await create(talk)
        value = await write(storage, DAMAGES[kind])
        await fails(talk, "list")
        await write(storage, lambda _: value)
        await server.dispatcher.catch_up()
        assert len((await talk.ok("GET", BASE))["items"]) == 3
        received = await watched(server, "watch=1&timeoutSeconds=1&labelSelector=n%3D0")
        assert [json.loads(line)["type"] for line in received.splitlines()] == ["ADDED"] * 3


@given(st.integers(0, 10_000), st.binary(max_size=4), st.booleans())
@settings(max_examples=examples(300))
def test_no_part_of_a_value_passes_for_it(cut: int, suffix: bytes, overwrite: bool) -> None:
    """Only what decodes to an object is accepted: what `json` rejects, the check rejects."""
    value = json.dumps(make_widget("b", spec={"color": "red", "tags": ["é", "\n"]})).encode()
    cut %= len(value)
    damaged = value[:cut] + suffix + (value[cut + len(suffix) :] if overwrite else b"")
    try:
        found = json.loads(damaged.decode())
    except ValueError:
        assert decode_error(damaged, "Widget") is not None
        return
    if not isinstance(found, dict) or not isinstance(found.get("metadata"), dict):
        assert decode_error(damaged, "Widget") is not None
    elif found.get("kind") == "Widget" and found["metadata"] == {"name": "b"} and "apiVersion" in found:
        assert decode_error(damaged, "Widget") is None


async def test_a_cache_keeps_its_state_and_recovers() -> None:
    """An informer of a client keeps what it has, and lists again after the object is repaired."""
    async with ControlPlane(port=None, controllers=False) as plane:
        client = plane.client()
        for name in ("a", "b"):
            await client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))
        async with Cache(client, resync=0, allow=(ConfigMap,)) as cache:
            assert len([each async for each in cache.list(ConfigMap, namespace="default")]) >= 2
            key = "/registry/configmaps/default/b"
            # Twice: the first event ends a stream with initial events, the second one a plain watch.
            for later in ("c", "d"):
                item = await plane.storage.get(key)
                assert item is not None
                damaged = await plane.storage.update(key, item.value[:-1], expected=item.mod_revision)
                await plane.informers.catch_up()
                assert await cache.get(ConfigMap, "b", namespace="default") is not None
                await plane.storage.update(key, item.value, expected=damaged)
                await client.create(ConfigMap(metadata=ObjectMeta(name=later, namespace="default")))
                async with asyncio.timeout(30):
                    while await cache.get_or_none(ConfigMap, later, namespace="default") is None:
                        await asyncio.sleep(0.05)
                assert await cache.get(ConfigMap, "b", namespace="default") is not None
