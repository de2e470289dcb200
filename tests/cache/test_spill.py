"""Caches whose objects are in a file: the same contents as in memory, and faults of the disk."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import random
import resource as limits
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubewright import Context, CustomResource, ObjectMeta, Operator, Spec, Status, resource
from kubewright.api import Unstructured
from kubewright.api.core.v1 import ConfigMap
from kubewright.cache import Cache, CachedClient, CacheError, KindOptions, by_field, by_label
from kubewright.cache.stores import spill as spill_module
from kubewright.cache.stores.indexes import by_function
from kubewright.cache.stores.spill import SpilledEntry, SpilledStore, SpillFile, filesystem_of
from kubewright.cache.stores.store import CacheEntry, MemoryEntry, ObjectKey, Store
from kubewright.client import merge_patch
from kubewright.testing import fake_time, run_operator, start_test_server

KEY = ObjectKey("ns", "a")


def entry(obj: dict[str, Any], revision: int = 1) -> MemoryEntry:
    return MemoryEntry(json.dumps(obj).encode(), revision, "uid")


@pytest.fixture
def compacts_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill_module, "MIN_COMPACTED_BYTES", 1024)
    monkeypatch.setattr(spill_module, "MOVED_PER_CHANGE", 2)


keys = st.builds(ObjectKey, st.sampled_from(["", "a", "b"]), st.sampled_from("uvwxyz"))
contents = st.fixed_dictionaries(
    {"colours": st.lists(st.sampled_from(["red", "blue"]), max_size=2), "size": st.integers(0, 700)}
)
steps = st.lists(st.tuples(keys, st.none() | contents, st.booleans()), max_size=80)


@settings(max_examples=200)
@given(steps)
def test_spilled_and_memory_stores_have_the_same_contents(
    changes: list[tuple[ObjectKey, dict[str, Any] | None, bool]],
) -> None:
    index = by_function("colours", Unstructured, lambda each: each["colours"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spill_module, "MIN_COMPACTED_BYTES", 1024)
        patch.setattr(spill_module, "MOVED_PER_CHANGE", 2)
        memory, spilled = Store(), SpilledStore()
        for store in (memory, spilled):
            store.add_index(index.name, index.indexer)
        held: list[tuple[CacheEntry, bytes]] = []
        for revision, (key, content, holds) in enumerate(changes, 1):
            if content is None:
                old, spilled_old = memory.pop(key), spilled.pop(key)
            else:
                obj = {"colours": content["colours"], "text": "x" * content["size"]}
                old = memory.put(key, entry(obj, revision))
                spilled_old = spilled.put(key, entry(obj, revision))
            assert (old and old.raw) == (spilled_old and spilled_old.raw)
            if holds and spilled_old is not None and old is not None:
                # Replaced and removed entries stay readable while they are referenced.
                held.append((spilled_old, old.raw))
            assert spilled.bytes == memory.bytes
        assert _contents(spilled) == _contents(memory)
        assert len(spilled) == len(memory)
        assert all(isinstance(found, SpilledEntry) for _, found in spilled.entries())
        for colour in ("red", "blue"):
            assert (
                dict(spilled.indexed("colours", colour)).keys()
                == dict(memory.indexed("colours", colour)).keys()
            )
        for replaced, raw in held:
            assert replaced.raw == raw


def _contents(store: Store) -> dict[ObjectKey, tuple[bytes, int, int]]:
    return {key: (found.raw, found.revision, found.size) for key, found in store.entries()}


def test_caches_with_and_without_spill_return_the_same(tmp_path: Path) -> None:
    rng = random.Random(19)
    indexes = (by_label("team"), by_field("data.colour"))

    async def scenario() -> None:
        async with start_test_server("in-process", controllers=False) as server:
            client = server.client()
            kinds = (
                {ConfigMap: KindOptions(namespaces=("default",), indexes=indexes, spill=tmp_path)},
                {ConfigMap: KindOptions(namespaces=("default",), indexes=indexes)},
            )
            async with Cache(client, kinds=kinds[0]) as spilled, Cache(client, kinds=kinds[1]) as memory:
                cached = CachedClient.from_client(client, spilled)
                informers = [await cache.informer(ConfigMap) for cache in (spilled, memory)]
                await spilled.wait_for_sync()
                await memory.wait_for_sync()
                existing: set[str] = set()
                revision = 0
                for _ in range(150):
                    name = f"c{rng.randrange(12)}"
                    data = {"colour": rng.choice(["red", "blue"]), "text": "x" * rng.randrange(3000)}
                    meta = ObjectMeta(name=name, namespace="default", labels={"team": rng.choice("ab")})
                    if name not in existing:
                        obj = await cached.create(ConfigMap(metadata=meta, data=data))
                        existing.add(name)
                        revision = int(obj.metadata.resource_version or 0)
                    elif rng.random() < 0.3:
                        await client.delete(ConfigMap, name, namespace="default")
                        existing.discard(name)
                    else:
                        obj = await client.patch(
                            ConfigMap, name, merge_patch({"data": data}), namespace="default"
                        )
                        revision = int(obj.metadata.resource_version or 0)
                    for informer in informers:
                        await informer.wait_for_revision(revision)
                last = await client.create(
                    ConfigMap(metadata=ObjectMeta(name="last", namespace="default"), data={})
                )
                for informer in informers:
                    await informer.wait_for_revision(int(last.metadata.resource_version or 0))
                assert _contents(informers[0].store) == _contents(informers[1].store)
                for fields in ({"data.colour": "red"}, {"data.colour": "blue"}):
                    for team in (None, {"team": "a"}):
                        names = [
                            {each.name async for each in cache.list(ConfigMap, labels=team, fields=fields)}
                            for cache in (spilled, memory)
                        ]
                        assert names[0] == names[1]
                [usage], [memory_usage] = spilled.usage(), memory.usage()
                assert (usage.objects, usage.bytes) == (memory_usage.objects, memory_usage.bytes)
                assert usage.spilled_bytes >= usage.bytes
                assert memory_usage.spilled_bytes == 0
                # Reads return separate objects.
                one, other = [await spilled.get(ConfigMap, "last", namespace="default") for _ in range(2)]
                one.data = {"changed": "yes"}
                assert other.data != one.data

    fake_time(scenario())


class ShopSpec(Spec):
    size: int = 1


class ShopStatus(Status):
    size: int = 0


@resource(group="spill.example.com", version="v1")
class Shop(CustomResource[ShopSpec, ShopStatus]):
    """A shop."""


def test_an_operator_with_spilled_objects(tmp_path: Path) -> None:
    operator = Operator("shops")
    operator.settings.kinds[Shop] = KindOptions(spill=tmp_path)

    @operator.reconcile(Shop)
    async def reconcile(shop: Shop, ctx: Context[Shop]) -> None:
        if shop.status.size != shop.spec.size:
            shop.status = ShopStatus(size=shop.spec.size)
            await ctx.client.update_status(shop)

    async def scenario() -> None:
        async with start_test_server("in-process") as server:
            client = server.client()
            async with run_operator(operator, client):
                made = await client.create(
                    Shop(metadata=ObjectMeta(name="a", namespace="default"), spec=ShopSpec(size=3))
                )
                await asyncio.sleep(5)
                made = await client.get(Shop, "a", namespace="default")
                assert made.status == ShopStatus(size=3)
                made.spec.size = 5
                await client.update(made)
                await asyncio.sleep(5)
                assert (await client.get(Shop, "a", namespace="default")).status == ShopStatus(size=5)
                assert os.listdir(tmp_path) == []

    fake_time(scenario())


def test_the_file_is_private_and_has_no_name(tmp_path: Path) -> None:
    file = SpillFile(tmp_path)
    location = file.write(b"secret")
    assert os.listdir(tmp_path) == []
    status = os.fstat(file._fd)
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert status.st_nlink == 0
    assert file.read(location) == b"secret"
    descriptor = file._fd
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_blocks_are_reused(tmp_path: Path) -> None:
    store = SpilledStore(tmp_path)
    for revision in range(1, 1000):
        store.put(KEY, entry({"text": "x" * 900}, revision))
    assert store.spilled_bytes <= 3 * 1024
    found = store.get(KEY)
    assert found is not None
    assert found.revision == 999


@pytest.mark.usefixtures("compacts_early")
def test_a_file_that_is_mostly_unused_is_replaced(tmp_path: Path) -> None:
    store = SpilledStore(tmp_path)
    for number in range(200):
        store.put(ObjectKey("", f"n{number}"), entry({"number": number, "text": "x" * 500}))
    full = store.spilled_bytes
    for number in range(190):
        store.pop(ObjectKey("", f"n{number}"))
    store.put(KEY, entry({}))
    assert store.spilled_bytes < full / 8
    assert {json.loads(found.raw).get("number") for _, found in store.entries()} == {None, *range(190, 200)}
    gc.collect()
    assert len({found.file for _, found in store.entries() if isinstance(found, SpilledEntry)}) == 1


def messages_of_spill(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == spill_module.__name__]


@pytest.fixture
def small_files() -> Iterator[None]:
    """Files of this process cannot grow beyond 64 KiB, as if the disk were full."""
    before = limits.getrlimit(limits.RLIMIT_FSIZE)
    limits.setrlimit(limits.RLIMIT_FSIZE, (64 << 10, before[1]))
    yield
    limits.setrlimit(limits.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_files")
def test_objects_are_stored_in_memory_when_the_disk_is_full(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SpilledStore(tmp_path)
    caplog.set_level(logging.INFO)
    caplog.clear()
    for number in range(100):
        store.put(ObjectKey("", f"n{number}"), entry({"number": number, "text": "x" * 1500}))
    places = [isinstance(found, SpilledEntry) for _, found in store.entries()]
    assert any(places)
    assert not all(places)
    assert [json.loads(found.raw)["number"] for _, found in store.entries()] == list(range(100))
    for number in range(40):
        store.pop(ObjectKey("", f"n{number}"))
    # Deleted objects leave space for others: their next change is written to the file.
    for number in range(70, 80):
        store.put(ObjectKey("", f"n{number}"), entry({"number": number, "text": "y" * 1500}))
    assert all(isinstance(store.get(ObjectKey("", f"n{number}")), SpilledEntry) for number in range(70, 80))
    assert messages_of_spill(caplog) == [
        "cannot write to the spill file, storing objects in memory",
        "spill file is writable again",
    ]


def test_a_directory_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with start_test_server("in-process", controllers=False) as server:
            kinds = {ConfigMap: KindOptions(namespaces=("default",), spill=tmp_path / "missing")}
            async with Cache(server.client(), kinds=kinds) as cache:
                with pytest.raises(CacheError, match=r"cannot create a spill file in .*missing: No such"):
                    await cache.informer(ConfigMap)

    fake_time(scenario())


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    store = SpilledStore(tmp_path)
    store.put(KEY, entry({"text": "x"}))
    os.ftruncate(store._file._fd, 0)
    found = store.get(KEY)
    assert found is not None
    with pytest.raises(CacheError, match="the file is incomplete"):
        _ = found.raw


def test_entries_are_freed_in_other_threads(tmp_path: Path) -> None:
    store = SpilledStore(tmp_path)
    store.put(KEY, entry({"text": "x" * 100}))
    held = [store.pop(KEY)]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    store.put(KEY, entry({"text": "y" * 100}))
    assert store.spilled_bytes == 128


def test_a_directory_in_memory_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    directory = Path("/dev/shm")
    if not directory.is_dir() or filesystem_of(directory) != "tmpfs":
        pytest.skip("needs /dev/shm as tmpfs")
    SpilledStore(directory)
    assert messages_of_spill(caplog) == ["spill directory is in memory, spilled objects save none"]
