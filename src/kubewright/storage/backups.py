"""Backups of a store while servers use it.

    revision = await backup("sqlite:state.db", "state.backup")
    await restore("sqlite:state.db", "state.backup")

A backup is a SQLite store of its own: one file with the current values as of one revision, verified by its
checksums. A SQLite store is copied with SQLite's online backup, which reads one snapshot and does not delay
the server; other stores are listed at one revision.

Restoring writes the differences between the store and the backup as ordinary changes: keys are created,
updated and deleted, revisions continue to grow, and watches receive the events. So clients with caches
converge, and no revision is used twice. When a server has the SQLite file open, it does the restore itself:
the backup is placed beside its database as `PATH.restore`, and the server writes the outcome to
`PATH.restore.result`. A restore replaces the cluster, so a request is accepted only from the user of the
server and from root, and only in a directory that no other user can write to.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kubewright.trusted_files import UntrustedFile, check_file

from .contract import KeyExists, KeyValue, RevisionMismatch, Storage, StorageError
from .sqlite.rows import FORMAT, SCHEMA, LogContents, Row, insert_rows, write_facts

logger = logging.getLogger("kubewright.storage")

_CONCURRENT_WRITES = 200
"""Writes of a restore that are in progress at the same time: one group commit on SQLite."""

_PAGE = 1000

_POLL_INTERVAL = 0.1
"""Seconds between checks for the outcome of a restore."""


class Restored(NamedTuple):
    """What a restore changed."""

    written: int
    deleted: int
    unchanged: int


async def backup(url: str, target: str | os.PathLike[str]) -> int:
    """Write a backup of the store at `url` to a file; returns its revision. The file must not exist."""
    path = _new_file(target)
    source = _sqlite_path(url)
    if source is not None:
        return await asyncio.to_thread(copy_database, source, path)
    from .url import open_storage

    async with open_storage(url) as storage:
        return await write_backup(storage, path)


async def write_backup(storage: Storage, target: Path) -> int:
    """Write the current values of an open store to a file; returns the revision."""
    page = await storage.list("", limit=_PAGE)
    items = list(page.items)
    while page.more:
        page = await storage.list("", start=items[-1].key + "\0", limit=_PAGE, revision=page.revision)
        items += page.items
    await asyncio.to_thread(_write_database, items, page.revision, target)
    return page.revision


def copy_database(source: Path, target: Path) -> int:
    """Copy a SQLite store that may be open in another process; returns the revision of the copy."""
    if not source.exists():
        raise StorageError(f"the store {source} does not exist")
    temporary = _temporary(target)
    try:
        with (
            contextlib.closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as origin,
            contextlib.closing(sqlite3.connect(temporary)) as copy,
        ):
            origin.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
        contents = read_backup(temporary)
        with contextlib.closing(sqlite3.connect(temporary)) as copy:
            write_facts(copy, opened=0)  # The mark of the source is not that of the copy.
            copy.commit()
        _publish(temporary, target)
    except sqlite3.Error as error:
        raise StorageError(f"cannot copy the store {source} to {target}: {error}") from error
    finally:
        _remove(temporary)
    return contents.revision


def _write_database(items: Iterable[KeyValue], revision: int, target: Path) -> None:
    temporary = _temporary(target)
    try:
        with contextlib.closing(sqlite3.connect(temporary, isolation_level=None)) as database:
            database.execute("BEGIN")
            for statement in SCHEMA:
                database.execute(statement)
            insert_rows(
                database,
                (Row(each.mod_revision, each.key, each.create_revision, None, each.value) for each in items),
            )
            write_facts(database, format=FORMAT, revision=revision, compacted=revision)
            database.execute("COMMIT")
        _publish(temporary, target)
    except sqlite3.Error as error:
        raise StorageError(f"cannot write the backup {target}: {error}") from error
    finally:
        _remove(temporary)


def _temporary(target: Path) -> Path:
    path = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StorageError(f"cannot write the backup {target}: {error.strerror}") from error
    return path


def _publish(temporary: Path, target: Path) -> None:
    """Flush the file and give it its name."""
    descriptor = os.open(temporary, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.replace(target)


def _remove(temporary: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        temporary.with_name(temporary.name + suffix).unlink(missing_ok=True)


def read_backup(path: Path) -> LogContents:
    """Read and verify a backup. Raises `StorageError` if it is damaged or not a backup."""
    from .sqlite.logfile import LogFile

    if not path.is_file():
        raise StorageError(f"the backup {path} does not exist")
    return LogFile(path).read_only()


async def restore(url: str, backup: str | os.PathLike[str], *, timeout: float = 600.0) -> Restored:
    """Make the store at `url` equal to a backup, also while a server uses it.

    `timeout` bounds the wait for a server that has the SQLite file open. Raises `StorageError`, also if
    another user could have written the backup, or could request restores of the store.
    """
    path = Path(backup)
    _check(path, named=True)
    from .sqlite.storage import SQLiteStorage
    from .sqlite.store_lock import StoreInUse
    from .url import open_storage

    contents = await asyncio.to_thread(read_backup, path)
    source = _sqlite_path(url)
    if source is None:
        async with open_storage(url) as storage:
            return await apply_backup(storage, contents)
    try:
        # A damaged store is what a backup is restored to: its readable part is replaced anyway.
        async with SQLiteStorage(source, accept_data_loss=True) as storage:
            return await apply_backup(storage, contents)
    except StoreInUse:
        return await asyncio.to_thread(_request_restore, source, path, timeout)


async def apply_backup(storage: Storage, contents: LogContents, *, now: float | None = None) -> Restored:
    """Write the differences between an open store and a backup to the store."""
    now = time.time() if now is None else now
    expires = {key: at for at, _, key in contents.expiries}
    current = {item.key: item for item in (await storage.list("")).items}
    wanted = contents.live
    different = [
        item for item in wanted.values() if item.key not in current or current[item.key].value != item.value
    ]
    extra = [item for key, item in current.items() if key not in wanted]

    async def write(item: KeyValue) -> None:
        ttl = max(1, int(expires[item.key] - now)) if item.key in expires else None
        found = current.get(item.key)
        while True:
            try:
                if found is None:
                    await storage.create(item.key, item.value, ttl=ttl)
                else:
                    await storage.update(item.key, item.value, expected=found.mod_revision, ttl=ttl)
                return
            except (KeyExists, RevisionMismatch) as error:
                found = error.current

    async def remove(item: KeyValue) -> None:
        found: KeyValue | None = item
        while found is not None:
            try:
                await storage.delete(found.key, expected=found.mod_revision)
                return
            except RevisionMismatch as error:
                found = error.current

    for at in range(0, len(extra), _CONCURRENT_WRITES):
        await asyncio.gather(*map(remove, extra[at : at + _CONCURRENT_WRITES]))
    for at in range(0, len(different), _CONCURRENT_WRITES):
        await asyncio.gather(*map(write, different[at : at + _CONCURRENT_WRITES]))
    return Restored(len(different), len(extra), len(wanted) - len(different))


def _request_restore(store: Path, path: Path, timeout: float) -> Restored:
    """Request a restore from the server that has the file open, and wait for the outcome."""
    request = store.with_name(store.name + ".restore")
    result = store.with_name(store.name + ".restore.result")
    _check(store)
    _check(request, exclusive=True)
    result.unlink(missing_ok=True)
    copy = store.with_name(store.name + ".restore.copy")
    copy_database(path, copy)
    if os.geteuid() == 0:  # The user of the server reads it.
        os.chown(copy, store.stat().st_uid, -1)
    copy.replace(request)
    deadline = time.monotonic() + timeout
    while not result.exists():
        if time.monotonic() > deadline:
            request.unlink(missing_ok=True)
            raise StorageError(
                f"the server that uses {store} did not restore the backup within {timeout:g} s"
            )
        time.sleep(_POLL_INTERVAL)
    text = result.read_text()
    result.unlink()
    kind, _, rest = text.partition(" ")
    if kind != "restored":
        raise StorageError(f"the server that uses {store} could not restore the backup: {rest}")
    return Restored(*map(int, rest.split()))


def check_request(store: Path) -> str:
    """Return why a request for a restore beside an open store is not served; empty if it is."""
    try:
        check_file(store.with_name(store.name + ".restore"), exclusive=True)
    except UntrustedFile as error:
        return str(error)
    return ""


async def serve_restore(storage: Storage, store: Path) -> bool:
    """Restore the backup that was placed beside an open store, if any; returns whether there was one.

    Call `check_request` first.
    """
    request = store.with_name(store.name + ".restore")
    if not request.exists():
        return False
    logger.warning("restoring a backup", extra={"path": str(request), "user": request.stat().st_uid})
    try:
        contents = await asyncio.to_thread(read_backup, request)
        restored = await apply_backup(storage, contents)
        outcome = "restored {} {} {}".format(*restored)
        logger.warning("restored a backup", extra={"path": str(request), **restored._asdict()})
    except StorageError as error:
        outcome = f"failed {error}"
        logger.error("cannot restore a backup", extra={"path": str(request), "error": str(error)})
    result = store.with_name(store.name + ".restore.result")
    temporary = store.with_name(store.name + ".restore.writing")
    temporary.write_text(outcome)
    temporary.replace(result)
    request.unlink()
    return True


def _check(path: Path, *, named: bool = False, exclusive: bool = False) -> None:
    try:
        check_file(path, named=named, exclusive=exclusive)
    except UntrustedFile as error:
        raise StorageError(str(error)) from None


def _sqlite_path(url: str) -> Path | None:
    scheme, _, rest = url.partition(":")
    if scheme == "memory":
        raise StorageError("a memory: store ends with its process and has no backup")
    if scheme != "sqlite":
        return None
    return Path(os.path.realpath(rest[2:] if rest.startswith("//") else rest))


def _new_file(target: str | os.PathLike[str]) -> Path:
    path = Path(target)
    if path.exists():
        raise StorageError(f"{path} already exists; choose another file")
    return path
