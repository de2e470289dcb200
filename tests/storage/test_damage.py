"""Damaged SQLite stores are detected when they are opened; data loss is accepted only on request."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kubewright.storage import Compacted, DamagedStore, SQLiteStorage, StorageError


async def written(directory: Path) -> Path:
    """A store as a killed server leaves it: 40 keys, most of them only in the write-ahead log."""
    path = directory / "source.db"
    store = SQLiteStorage(path)
    await store.open()
    for number in range(40):
        await store.create(f"/k/{number:02}", b"value %02d " % number * 100)
    copy = directory / "state.db"
    for suffix in ("", "-wal", ".mark"):
        shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    await store.close()
    return copy


def truncate_wal(path: Path) -> None:
    wal = Path(f"{path}-wal")
    os.truncate(wal, wal.stat().st_size // 2)


def zero_wal(path: Path) -> None:
    wal = Path(f"{path}-wal")
    wal.write_bytes(b"\0" * wal.stat().st_size)


def flip_bit_in_wal(path: Path) -> None:
    wal = Path(f"{path}-wal")
    content = bytearray(wal.read_bytes())
    content[len(content) // 2] ^= 4
    wal.write_bytes(content)


def remove_wal(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def empty_database(path: Path) -> None:
    path.write_bytes(b"")
    Path(f"{path}-wal").unlink()


def delete_database(path: Path) -> None:
    path.unlink()
    Path(f"{path}-wal").unlink()


@pytest.mark.parametrize(
    "damage", [truncate_wal, zero_wal, flip_bit_in_wal, remove_wal, empty_database, delete_database]
)
async def test_missing_changes_are_detected(damage: Callable[[Path], None], tmp_path: Path) -> None:
    path = await written(tmp_path)
    damage(path)
    before = {each.name: each.read_bytes() for each in tmp_path.glob("state.db*") if "shm" not in each.name}
    for _ in range(2):
        with pytest.raises(DamagedStore) as caught:
            await SQLiteStorage(path).open()
        message = str(caught.value)
        assert "missing" in message
        assert "40" in message
        assert "kubewright restore" in message
        assert "--accept-data-loss" in message
    after = {each.name: each.read_bytes() for each in tmp_path.glob("state.db*") if "shm" not in each.name}
    for name, content in before.items():
        assert after[name] == content, f"{name} was changed"

    async with SQLiteStorage(path, accept_data_loss=True) as store:
        assert await store.revision() == 41, "no revision is used twice"
        left = len((await store.list("/k/")).items)
        assert left < 40
        with pytest.raises(Compacted):
            await store.list("/", revision=40)
        assert await store.create("/new", b"v") == 42
    async with SQLiteStorage(path) as store:
        assert len((await store.list("/k/")).items) == left
        assert await store.get("/new") is not None


async def closed(tmp_path: Path) -> Path:
    path = tmp_path / "state.db"
    async with SQLiteStorage(path) as store:
        for number in range(40):
            await store.create(f"/k/{number:02}", b"value %02d " % number * 100)
    return path


async def test_flipped_bits_inside_a_value_are_detected(tmp_path: Path) -> None:
    path = await closed(tmp_path)
    content = bytearray(path.read_bytes())
    at = content.index(b"value 17 value 17")
    content[at + 300] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedStore, match=r"do not match their checksums: /k/17 \(revision 18\); restore"):
        await SQLiteStorage(path).open()
    async with SQLiteStorage(path, accept_data_loss=True) as store:
        keys = [item.key for item in (await store.list("/k/")).items]
        assert len(keys) == 39
        assert "/k/17" not in keys
    assert Path(f"{path}.damaged").read_bytes() == content


@pytest.mark.parametrize("change", ["page", "header", "cell count"])
async def test_a_damaged_structure_is_detected(change: str, tmp_path: Path) -> None:
    path = await closed(tmp_path)
    content = bytearray(path.read_bytes())
    page = content.index(b"value 17 value 17") // 8192 * 8192
    if change == "page":
        content[page : page + 8192] = b"\0" * 8192
    elif change == "header":
        content[:100] = b"\0" * 100
    else:
        count = int.from_bytes(content[page + 3 : page + 5], "big")
        content[page + 3 : page + 5] = (count - 2).to_bytes(2, "big")
    path.write_bytes(content)
    with pytest.raises(DamagedStore, match="is damaged"):
        await SQLiteStorage(path).open()
    async with SQLiteStorage(path, accept_data_loss=True) as store:
        assert len((await store.list("/k/")).items) < 40
        assert await store.create("/new", b"v") > 40


async def test_changed_facts_are_detected(tmp_path: Path) -> None:
    path = await closed(tmp_path)
    async with SQLiteStorage(path) as store:
        await store.compact(20)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE facts SET value = 4 WHERE name = 'compacted'")
    with pytest.raises(DamagedStore, match="facts"):
        await SQLiteStorage(path).open()


async def test_a_damaged_mark_is_reported(tmp_path: Path) -> None:
    path = await closed(tmp_path)
    Path(f"{path}.mark").write_bytes(b"00000000000000000039 00000000\n")
    with pytest.raises(StorageError, match=r"state\.db\.mark is damaged"):
        await SQLiteStorage(path).open()
    async with SQLiteStorage(path, accept_data_loss=True) as store:
        assert await store.revision() == 40


async def test_files_of_format_1_are_migrated(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with sqlite3.connect(path) as database:
        database.executescript(
            "CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
            "CREATE TABLE changes (revision INTEGER PRIMARY KEY, key TEXT NOT NULL,"
            " create_revision INTEGER NOT NULL, expires REAL, value BLOB);"
            "INSERT INTO facts VALUES ('format', 1), ('compacted', 2), ('revision', 9);"
            "INSERT INTO changes VALUES (1, '/a', 1, NULL, x'31'), (5, '/b', 5, 4e9, x'32'),"
            " (7, '/b', 5, NULL, NULL);"
        )
    async with SQLiteStorage(path) as store:
        assert await store.revision() == 9
        assert [item.key for item in (await store.list("/")).items] == ["/a"]
        assert await store.create("/c", b"3") == 10
    async with SQLiteStorage(path) as store:
        assert [item.key for item in (await store.list("/", revision=5)).items] == ["/a", "/b"]
        assert [item.key for item in (await store.list("/")).items] == ["/a", "/c"]
    with sqlite3.connect(path) as database:
        database.execute("UPDATE changes SET value = x'39' WHERE key = '/a'")
    with pytest.raises(DamagedStore, match="/a"):
        await SQLiteStorage(path).open()


async def test_removing_the_lock_file_does_not_let_a_second_server_start(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with SQLiteStorage(path) as store:
        await store.create("/a", b"1")
        Path(f"{path}.lock").unlink()
        with pytest.raises(StorageError, match="already in use"):
            await SQLiteStorage(path).open()
        script = (
            "import asyncio, sys\n"
            "from kubewright.storage import SQLiteStorage, StorageError\n"
            "try: asyncio.run(SQLiteStorage(sys.argv[1]).open())\n"
            "except StorageError as error: print(error)\n"
        )
        Path(f"{path}.lock").unlink()
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, str(path), stdout=asyncio.subprocess.PIPE
        )
        output, _ = await other.communicate()
        assert b"already in use" in output
        assert await store.create("/b", b"2") == 2
