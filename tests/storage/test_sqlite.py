"""SQLite storage: crashes, locks, formats, disk faults."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from kubewright.storage import Compacted, History, RevisionMismatch, SQLiteStorage, StorageError, StorageEvent
from kubewright.storage.sqlite.rows import write_facts

HERE = Path(__file__).parent


async def test_state_is_restored_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with SQLiteStorage(path) as store:
        first = await store.create("/a", b"1")
        second = await store.update("/a", b"2", expected=first)
        await store.create("/b", b"3")
        gone = await store.delete("/b", expected=3)
    async with SQLiteStorage(path) as store:
        assert await store.revision() == gone
        assert (await store.list("/", revision=first)).items[0].value == b"1"
        watch = store.watch("/", first)
        events = await anext(aiter(watch))
        assert [event.revision for event in events] == [second, 3, gone]
        assert events[0].previous is not None
        assert events[0].previous.value == b"1"
        assert await store.create("/b", b"4") == gone + 1


async def test_revisions_are_not_reused_after_delete_and_compaction(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with SQLiteStorage(path) as store:
        last = await store.delete("/a", expected=await store.create("/a", b"1"))
        await store.compact(last)
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT count(*) FROM changes").fetchone() == (0,)
    async with SQLiteStorage(path) as store:
        assert await store.revision() == last
        with pytest.raises(Compacted):
            await store.list("/", revision=last - 1)
        assert await store.create("/a", b"2") == last + 1


async def test_compaction_leaves_only_current_rows(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with SQLiteStorage(path) as store:
        revision = await store.create("/a", b"0")
        for number in range(2500):
            revision = await store.update("/a", b"%d" % number, expected=revision)
        await store.compact(revision - 10)
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT count(*) FROM changes").fetchone() == (11,)
    async with SQLiteStorage(path) as store:
        assert (await store.list("/", revision=revision - 10)).items[0].mod_revision == revision - 10
        assert len(await anext(aiter(store.watch("/", revision - 10)))) == 10


async def test_interrupted_compaction_is_completed_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with SQLiteStorage(path) as store:
        revision = await store.create("/a", b"0")
        for number in range(9):
            revision = await store.update("/a", b"%d" % number, expected=revision)
    with sqlite3.connect(path) as database:
        write_facts(database, compacted=revision)
    async with SQLiteStorage(path) as store:
        found = await store.get("/a")
        assert found is not None
        assert (found.value, found.create_revision, found.mod_revision) == (b"8", 1, revision)
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT revision FROM changes").fetchall() == [(revision,)]


def hold_commits(store: SQLiteStorage, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let commits wait for the returned event, as on a slow disk."""
    released, append = threading.Event(), store._file.append

    def wait_and_append(rows: Any, time: float) -> None:
        released.wait(60)
        append(rows, time)

    monkeypatch.setattr(store._file, "append", wait_and_append)
    return released


async def test_writes_are_invisible_until_they_are_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SQLiteStorage(tmp_path / "state.db") as store:
        released = hold_commits(store, monkeypatch)
        watch = store.watch("/", 0)
        write = asyncio.ensure_future(store.create("/a", b"1"))
        await asyncio.sleep(0)
        assert await store.get("/a") is None
        assert await store.revision() == 0
        assert (await store.list("/")).items == []
        second = asyncio.ensure_future(store.create("/a", b"2"))
        await asyncio.sleep(0)
        assert not second.done(), "who would lose to a write that is not durable yet waits for it"
        released.set()
        revision = await write
        with pytest.raises(Exception, match="/a"):
            await second
        assert await anext(aiter(watch)) == [StorageEvent("put", "/a", b"1", None, revision, revision)]


async def test_a_cancelled_writer_does_not_break_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SQLiteStorage(tmp_path / "state.db") as store:
        released = hold_commits(store, monkeypatch)
        first = asyncio.ensure_future(store.create("/a", b"1"))
        await asyncio.sleep(0)
        waiter = asyncio.ensure_future(store.create("/a", b"2"))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        released.set()
        with pytest.raises(Exception, match="/a"):
            await waiter
        with pytest.raises(RevisionMismatch):
            await store.update("/a", b"3", expected=7)
        assert await store.create("/b", b"4") == 2


async def test_close_waits_for_pending_writes(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = SQLiteStorage(path)
    await store.open()
    writes = [asyncio.ensure_future(store.create(f"/{n}", b"v")) for n in range(50)]
    await asyncio.sleep(0)
    await store.close()
    assert sorted(await asyncio.gather(*writes)) == list(range(1, 51))
    with pytest.raises(StorageError, match="not open"):
        await store.create("/late", b"v")
    async with SQLiteStorage(path) as again:
        assert await again.revision() == 50


async def test_second_server_fails_and_names_the_process(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with SQLiteStorage(path) as store:
        await store.create("/a", b"1")
        link = tmp_path / "link.db"
        link.symlink_to(path)
        for name in (path, link):
            with pytest.raises(StorageError, match=r"state\.db is already in use by process \d+: stop that"):
                await SQLiteStorage(name).open()
    async with SQLiteStorage(path) as store:
        assert await store.revision() == 1


async def test_files_of_other_programs_are_neither_opened_nor_changed(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with SQLiteStorage(path) as store:
        await store.create("/a", b"1")
    with sqlite3.connect(path) as database:
        database.execute("UPDATE facts SET value = 99 WHERE name = 'format'")
    with pytest.raises(
        StorageError, match=r"newer version of Kubewright \(format 99, this one reads up to 2\)"
    ):
        await SQLiteStorage(path).open()

    other = tmp_path / "other.db"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE t (x)")
    with pytest.raises(StorageError, match="of another program"):
        await SQLiteStorage(other).open()

    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to look at" * 50)
    with pytest.raises(StorageError, match="not a SQLite database"):
        await SQLiteStorage(text).open()
    assert text.read_text().startswith("not a database")

    with pytest.raises(StorageError, match="No such file or directory"):
        await SQLiteStorage(tmp_path / "missing" / "state.db").open()


@pytest.mark.parametrize("fault", ["full", "start-full", "readonly"])
def test_faults_of_the_disk(fault: str, tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode != 0:
        pytest.skip("needs a mount namespace (unshare -rm) to make a small disk")
    ran = subprocess.run(
        ["unshare", "-rm", sys.executable, str(HERE / "small_disk.py"), fault, str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr


KILLS = int(os.environ.get("KUBEWRIGHT_KILLS", "10"))
"""Number of kills; set it higher for a long manual run."""


def kill_and_check(path: Path, times: int, seed: int) -> None:
    """Kill a server repeatedly during writes; check that acknowledged writes are durable."""
    chance = random.Random(seed)
    highest = 0
    revisions: set[int] = set()
    last: dict[str, tuple[str, int]] = {}
    for run in range(times):
        child = subprocess.Popen(
            [sys.executable, str(HERE / "burst.py"), str(path), str(run)], stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(chance.randrange(1, 1500))]
        child.kill()
        lines += child.stdout.read().splitlines(keepends=True)
        child.wait()
        child.stdout.close()
        for line in lines:
            if not line.endswith(b"\n"):
                continue
            kind, *rest = line.decode().split()
            if kind == "start":
                assert int(rest[0]) >= highest, "the counter went back"
                continue
            key, revision = rest[0], int(rest[1])
            assert revision not in revisions, "a revision was used twice"
            revisions.add(revision)
            highest = max(highest, revision)
            last[key] = (kind, revision)
        asyncio.run(check_acknowledged(path, last, highest))
    assert len(revisions) > times


async def check_acknowledged(path: Path, last: dict[str, tuple[str, int]], highest: int) -> None:
    async with SQLiteStorage(path, history=History()) as store:
        assert await store.revision() >= highest
        state = {item.key: item for item in (await store.list("/burst/")).items}
    for key, (kind, revision) in last.items():
        if kind == "delete":
            assert key not in state, f"{key} came back"
        elif kind == "create":
            assert key in state, f"{key} was lost"
            assert state[key].mod_revision >= revision
        else:
            # Every third key is deleted next; the deletion may be durable without being acknowledged.
            deletable = int(key.rpartition("/")[2]) % 3 == 0
            assert key in state or deletable, f"{key} was lost"
            assert key not in state or state[key].mod_revision == revision
            assert key not in state or state[key].value == key.encode() * 50


def test_no_acknowledged_write_is_lost_after_sigkill(tmp_path: Path) -> None:
    kill_and_check(tmp_path / "state.db", KILLS, seed=KILLS)


async def test_files_are_readable_by_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    old = os.umask(0o000)
    try:
        async with SQLiteStorage(path) as store:
            await store.create("/a", b"secret")
            modes = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
    finally:
        os.umask(old)
    assert len(modes) == 5
    assert set(modes.values()) == {0o600}, modes
