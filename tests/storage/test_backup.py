"""Backup and restore, with the store closed, open in the same process, and open in a server."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubewright.cli import main
from kubewright.storage import DamagedStore, SQLiteStorage, StorageError, backup, open_storage, restore
from kubewright.storage.local import LocalStorage


async def test_a_backup_under_writes_is_one_revision(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with SQLiteStorage(path) as store:
        for number in range(20):
            await store.create(f"/k/{number}", b"0")

        async def write() -> None:
            for number in range(20, 400):
                await store.create(f"/k/{number}", b"0")

        writer = asyncio.ensure_future(write())
        revision = await backup(f"sqlite:{path}", tmp_path / "state.backup")
        await writer
    async with SQLiteStorage(tmp_path / "state.backup") as copy:
        assert await copy.revision() == revision
        assert len((await copy.list("/k/")).items) == revision
        assert revision >= 20
    assert (tmp_path / "state.backup").stat().st_mode & 0o777 == 0o600


async def test_restore_to_a_closed_damaged_store(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with SQLiteStorage(path) as store:
        first = await store.create("/a", b"1")
        await store.create("/b", b"2")
        await backup(f"sqlite:{path}", tmp_path / "state.backup")
        await store.update("/a", b"changed", expected=first)
        last = await store.create("/c", b"3")
    path.write_bytes(b"")
    with pytest.raises(DamagedStore):
        await SQLiteStorage(path).open()
    assert await restore(f"sqlite:{path}", tmp_path / "state.backup") == (2, 0, 0)
    async with SQLiteStorage(path) as store:
        assert {item.key: item.value for item in (await store.list("/")).items} == {"/a": b"1", "/b": b"2"}
        assert await store.revision() > last


async def test_restore_to_a_store_in_use(tmp_path: Path) -> None:
    """The server that has the file open writes the differences; its watches receive them."""
    path = tmp_path / "state.db"
    storage = SQLiteStorage(path)
    storage.maintenance_interval = 3600.0  # `expire` is called below, and not also by the timer
    async with storage as store:
        first = await store.create("/a", b"1")
        await store.create("/b", b"2")
        await backup(f"sqlite:{path}", tmp_path / "state.backup")
        await store.update("/a", b"changed", expected=first)
        last = await store.create("/c", b"3")
        watch = store.watch("/", last)
        request = Path(f"{path}.restore")
        restoring = asyncio.ensure_future(restore(f"sqlite:{path}", tmp_path / "state.backup"))
        while not request.exists():
            await asyncio.sleep(0)
        await store.expire()
        assert await restoring == (1, 1, 1)
        assert {item.key: item.value for item in (await store.list("/")).items} == {"/a": b"1", "/b": b"2"}
        events = await anext(aiter(watch))
        assert [(event.type, event.key, event.revision) for event in events] == [
            ("delete", "/c", last + 1),
            ("put", "/a", last + 2),
        ]
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "state.backup",
        "state.db",
        "state.db.lock",
        "state.db.mark",
    ]


async def test_backup_and_restore_of_every_durable_store(new_url: Callable[[], str], tmp_path: Path) -> None:
    url = new_url()
    if url == "memory:":
        with pytest.raises(StorageError, match="has no backup"):
            await backup(url, tmp_path / "backup")
        return
    async with open_storage(url) as store:
        for number in range(1200):
            await store.create(f"/k/{number:04}", b"1")
    assert await backup(url, tmp_path / "backup") >= 1200
    async with open_storage(url) as store:
        for item in (await store.list("/k/", limit=5)).items:
            await store.delete(item.key, expected=item.mod_revision)
        await store.create("/other", b"2")
    assert await restore(url, tmp_path / "backup") == (5, 1, 1195)
    async with open_storage(url) as store:
        assert len((await store.list("")).items) == 1200


async def test_deadlines_are_restored(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/state.db"
    now = 1_000_000.0
    async with open_storage(url, clock=lambda: now) as store:
        await store.create("/short", b"1", ttl=10)
        await store.create("/long", b"2", ttl=10_000_000_000)
    await backup(url, tmp_path / "backup")
    await restore(f"sqlite:{tmp_path}/other.db", tmp_path / "backup")
    async with open_storage(f"sqlite:{tmp_path}/other.db") as store:
        assert isinstance(store, LocalStorage)
        assert len(store._deadlines) == 2


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def fill() -> None:
        async with SQLiteStorage("state.db") as store:
            await store.create("/a", b"1")

    asyncio.run(fill())
    runner = CliRunner()
    result = runner.invoke(main, ["backup", "--store", "sqlite:state.db", "backup"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("wrote backup: revision 1, ")
    result = runner.invoke(main, ["backup", "--store", "sqlite:state.db", "backup"])
    assert (result.exit_code, result.output) == (
        1,
        "Error: backup already exists; choose another file\n",
    )
    result = runner.invoke(main, ["restore", "--store", "sqlite:new.db", "backup"])
    assert result.output == "restored backup: 1 keys written, 0 deleted, 0 unchanged\n"
    with sqlite3.connect("backup") as database:
        database.execute("UPDATE changes SET value = x'39'")
    result = runner.invoke(main, ["restore", "--store", "sqlite:new.db", "backup"])
    assert result.exit_code == 1
    assert "do not match their checksums: /a" in result.output
    result = runner.invoke(main, ["backup", "--store", "sqlite:missing.db", "b2"])
    assert "missing.db does not exist" in result.output
    result = runner.invoke(main, ["up", "--accept-data-loss"])
    assert "--accept-data-loss requires --store sqlite:PATH" in result.output
