"""Lists of many objects: other requests run meanwhile, single objects are read by key, damage is isolated."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest
import yaml

from kubewright.apiserver import SYSTEM, APIServer, HTTPRequest, HTTPResponse
from kubewright.apiserver.encoding.negotiation import to_yaml
from kubewright.apiserver.encoding.representation import SLICE, SLICE_BYTES, in_slices
from kubewright.apiserver.http.messages import GeneratedPieces
from kubewright.apiserver.http.responses import compress
from kubewright.storage.contract import KeyValue
from kubewright.storage.memory import MemoryStorage

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
COUNT = 3000


@pytest.fixture
async def many(server: APIServer, widget, talk, base):
    """Store `COUNT` widgets in the default namespace, and one elsewhere."""
    await talk.ok("POST", base, widget("first", metadata={"labels": {"n": "0"}}))
    store = server.store("example.com", "widgets")
    assert store is not None
    template = await store.read("default", "first")
    for number in range(COUNT):
        name = f"w{number:05}"
        await server.storage.create(
            store.key("default", name), template.value.replace(b'"first"', b'"%b"' % name.encode())
        )
    await server.storage.create(
        store.key("other", "w00007"),
        template.value.replace(b'"first"', b'"w00007"').replace(b'"default"', b'"other"'),
    )
    return store


@pytest.mark.parametrize(
    ("query", "accept", "least"),
    [("", TABLE, 10), ("", PARTIAL_LIST, 3), ("?labelSelector=n%3D0", "application/json", 1)],
)
async def test_other_tasks_run_during_a_long_list(many, server, talk, base, query, accept, least):
    turns = 0

    async def other_client() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(other_client())
    await asyncio.sleep(0)
    before = turns
    listed = await talk.ok("GET", base + query, Accept=accept)
    beside.cancel()
    assert turns - before >= least
    rows = listed["rows"] if accept == TABLE else listed["items"]
    assert len(rows) == COUNT + 1
    if accept == TABLE:
        assert [row["cells"][0] for row in rows] == ["first", *(f"w{number:05}" for number in range(COUNT))]
        short = await talk.ok("GET", f"{base}?limit=100", Accept=accept)
        assert [row["object"] for row in rows[:100]] == [row["object"] for row in short["rows"]]
        assert [row["cells"][0] for row in rows[:100]] == [row["cells"][0] for row in short["rows"]]
        assert listed.keys() == short.keys()
        assert listed["columnDefinitions"] == short["columnDefinitions"]


@pytest.mark.parametrize(
    ("method", "accept"),
    [("GET", "application/json"), ("GET", TABLE), ("GET", PARTIAL_LIST), ("DELETE", "application/json")],
)
async def test_indented_lists_are_encoded_in_slices(many, server, base, method, accept):
    request = HTTPRequest(method, base, query="pretty=1", headers={"Accept": accept}, user=SYSTEM)
    turns = 0

    async def count(handled: asyncio.Task[HTTPResponse]) -> None:
        nonlocal turns
        while not handled.done():
            await asyncio.sleep(0)
            turns += 1

    compact = await server.handle(HTTPRequest("GET", base, headers={"Accept": accept}, user=SYSTEM))
    handled = asyncio.create_task(server.handle(request))
    await count(handled)
    response = handled.result()
    assert turns >= (COUNT // SLICE if method == "GET" else COUNT)
    assert response.pieces is not None
    assert max(map(len, response.pieces)) < len(compact.body) // 5
    body = response.body
    assert body == msgspec.json.format(body, indent=2)
    shown, expected = json.loads(body), json.loads(compact.body)
    assert [*shown] == [*expected]
    field = "rows" if accept == TABLE else "items"
    for table in (shown, expected):
        for row in table["rows"] if accept == TABLE else ():
            del row["cells"][-1]  # the age
    assert shown[field] == expected[field]


async def test_a_long_list_is_joined_while_it_is_sent(many, server, talk, base, widget):
    await talk.ok("POST", base, widget("long", metadata={"annotations": {"x": "y" * 5000}}))
    await talk.ok("POST", base, widget("w00000-after"))
    response = await talk.send("GET", base)
    assert isinstance(response.pieces, GeneratedPieces)
    turns = 0
    reading = asyncio.create_task(response.read())
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > COUNT // 250
    response = await talk.send("GET", base)
    for name in ("first", "w00002", "long"):
        await talk.ok("DELETE", f"{base}/{name}")
    assert isinstance(response.pieces, GeneratedPieces)
    length, pieces = response.length, list(response.consume())
    assert length == sum(map(len, pieces)) == response.length
    assert max(map(len, pieces)) < length // 5
    listed = json.loads(b"".join(pieces))
    names = [item["metadata"]["name"] for item in listed["items"]]
    assert names == sorted(["first", "long", "w00000-after", *(f"w{number:05}" for number in range(COUNT))])
    revisions = [item["metadata"]["resourceVersion"] for item in listed["items"]]
    assert len({len(revision) for revision in revisions}) > 1, "revisions with different numbers of digits"
    one = await talk.ok("GET", f"{base}/w00001")
    assert one in listed["items"]


@pytest.mark.parametrize("count", [0, 1, 2, 250, 251, 600])
async def test_long_and_short_lists_are_the_same_text(many, server, talk, base, count):
    page = await many.list_page("default", start=None, limit=count or 1, revision=0, selection=None)
    items = page.items[:count]
    version = many.resource.versions[0]
    joined = await many.representation(version).many(items, {"resourceVersion": "1"})
    decoded = [{**json.loads(item.value)} for item in items]
    for item, obj in zip(items, decoded, strict=True):
        obj["metadata"] = {"resourceVersion": str(item.mod_revision), **obj["metadata"]}
    expected = {"kind": "WidgetList", "apiVersion": "example.com/v1", "metadata": {"resourceVersion": "1"}}
    assert b"".join(joined) == msgspec.json.encode({**expected, "items": decoded}) + b"\n"
    if isinstance(joined, GeneratedPieces):
        assert joined.length == len(b"".join(joined))


def test_pieces_are_released_as_they_are_consumed():
    response = HTTPResponse(200, pieces=[b"a", b"bc", b"d"])
    assert response.length == 4
    parts = response.consume()
    assert next(parts) == b"a"
    assert response.pieces == [b"d", b"bc"]
    assert compress(parts)
    assert (response.pieces, response.length) == ([], 4)
    assert [*HTTPResponse(200, b"x").consume()] == [b"x"]


async def test_tables_as_yaml(many, talk, base):
    media = TABLE.replace("json", "yaml")
    listed = await talk.send("GET", f"{base}?limit=40", Accept=media)
    table = yaml.safe_load(listed.body)
    assert listed.content_type == "application/yaml"
    assert listed.body == to_yaml(table)
    assert [row["cells"][0] for row in table["rows"]] == ["first", *(f"w{number:05}" for number in range(39))]
    assert table["metadata"]["remainingItemCount"] == COUNT + 1 - 40


def test_slices_are_limited_by_number_and_size():
    items = [KeyValue(str(number), b"x" * size, 1, 1) for number, size in enumerate((1, 1, 1, SLICE_BYTES))]
    assert [len(part) for part in in_slices(items, 2)] == [2, 1, 1]
    assert [len(part) for part in in_slices(items, 9)] == [3, 1]
    assert [len(part) for part in in_slices(items[::-1], 9)] == [1, 3]
    assert [*in_slices([], 9)] == []


async def test_a_name_selector_reads_one_key(many, server, talk, base):
    before = many.storage.fetched
    listed = await talk.ok("GET", f"{base}?fieldSelector=metadata.name%3Dw00007")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["w00007"]
    assert many.storage.fetched - before == 1
    listed = await talk.ok("GET", f"{base}?fieldSelector=metadata.name%3Dw00007&labelSelector=n%3D1")
    assert listed["items"] == []
    listed = await talk.ok("GET", f"{base}?fieldSelector=metadata.name%3Dw0000&limit=1")
    assert listed["items"] == [], "a prefix of a name does not match"
    everywhere = base.replace("/namespaces/default", "")
    listed = await talk.ok("GET", f"{everywhere}?fieldSelector=metadata.name%3Dw00007")
    assert [item["metadata"]["namespace"] for item in listed["items"]] == ["default", "other"]


@pytest.mark.parametrize("managed", [True, False])
async def test_the_server_compacts_only_what_storage_does_not_manage(managed):
    class Storage(MemoryStorage):
        manages_compaction = managed
        compactions = 0

        async def compact(self, revision: int) -> None:
            type(self).compactions += 1
            await super().compact(revision)

    storage = Storage()
    async with APIServer(storage, compaction_interval=0.001):
        await storage.create("/registry/a", b"1")
        async with asyncio.timeout(60):
            for _ in range(50):
                await asyncio.sleep(0.001)
            while not (storage.compactions or managed):
                await asyncio.sleep(0.001)
    assert bool(storage.compactions) is not managed


def test_etcd_and_local_stores_manage_compaction():
    from kubewright.storage import EtcdStorage, SQLiteStorage

    assert EtcdStorage.manages_compaction
    assert SQLiteStorage.manages_compaction
