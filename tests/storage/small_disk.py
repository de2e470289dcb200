"""A store on a disk that fills up, on a full disk, and on a read-only disk.

Runs in a mount namespace of its own (`unshare -rm`): small_disk.py full|start-full|readonly DIRECTORY
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from kubewright.storage import SQLiteStorage, StorageError


def mount(directory: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)], check=True)


async def fails(store: SQLiteStorage, words: str) -> None:
    before = await store.revision()
    outcomes = await asyncio.gather(
        *(store.create(f"/failed/{n}", b"x" * 20_000) for n in range(20)), return_exceptions=True
    )
    assert all(isinstance(outcome, StorageError) for outcome in outcomes), outcomes
    assert words in str(outcomes[0]), outcomes[0]
    assert str(store.path) in str(outcomes[0])
    assert await store.revision() == before
    assert (await store.list("/failed/")).items == []


def fill(directory: Path) -> None:
    ballast = (directory / "ballast").open("wb", buffering=0)
    try:
        while True:
            ballast.write(b"\0" * 4096)
    except OSError:
        ballast.close()


async def start_full(directory: Path) -> None:
    mount(directory, "size=2m")
    path = directory / "state.db"
    new = directory / "new.db"
    async with SQLiteStorage(path) as store:
        await store.create("/k", b"v" * 2000)
    fill(directory)
    for each in (path, new):
        outcome = (await asyncio.gather(SQLiteStorage(each).open(), return_exceptions=True))[0]
        assert isinstance(outcome, StorageError), outcome
        assert "the disk is full; free some space (at least 256 KiB) and start again" in str(outcome)
        assert str(each) in str(outcome)
    (directory / "ballast").unlink()
    async with SQLiteStorage(path) as store:
        assert await store.revision() == 1


async def full(directory: Path) -> None:
    mount(directory, "size=2m")
    path = directory / "state.db"
    async with SQLiteStorage(path) as store:
        watch = store.watch("/", 0)
        acknowledged = [await store.create(f"/k/{n}", b"v" * 2000) for n in range(50)]
        fill(directory)
        await fails(store, "the disk is full; free some space")
        assert len((await store.list("/k/")).items) == 50
        await fails(store, "the disk is full; free some space")
        (directory / "ballast").unlink()
        acknowledged.append(await store.create("/k/after", b"v"))
        assert acknowledged == sorted(set(acknowledged))
        seen = await anext(aiter(watch))
        assert [event.revision for event in seen] == acknowledged
    async with SQLiteStorage(path) as store:
        assert {item.mod_revision for item in (await store.list("/")).items} == set(acknowledged)
        assert await store.revision() == acknowledged[-1]


async def readonly(directory: Path) -> None:
    mount(directory, "size=4m")
    path = directory / "state.db"
    async with SQLiteStorage(path) as store:
        first = await store.create("/k", b"v")
    mount_again = ["mount", "-o", "remount,ro", str(directory)]
    subprocess.run(mount_again, check=True)
    async with SQLiteStorage(path) as store:
        found = await store.get("/k")
        assert found is not None
        assert found.value == b"v"
        await fails(store, "the file is read-only; make it and its directory writable")
        assert (await store.list("/")).items == [found]
        mount_again[2] = "remount,rw"
        subprocess.run(mount_again, check=True)
        assert await store.update("/k", b"w", expected=first) == first + 1
    async with SQLiteStorage(path) as store:
        found = await store.get("/k")
        assert found is not None
        assert found.value == b"w"


if __name__ == "__main__":
    asyncio.run(
        {"full": full, "start-full": start_full, "readonly": readonly}[sys.argv[1]](Path(sys.argv[2]))
    )
