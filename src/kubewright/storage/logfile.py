"""The SQLite file of a storage: an append-only table of changes.

A row is a change and its row id the revision, so a commit is an append without an index. Replaying the rows
in order gives the current state; replaced rows are history and are deleted by compaction. `facts` has the
format, the oldest readable revision and the highest revision ever used (which can be above every row).

These functions block; the storage calls them from its writer thread.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from .contract import KeyValue, StorageError, StorageEvent

FORMAT = 1
"""The format that this version writes. Files with a higher number are rejected."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS changes (
    revision INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    create_revision INTEGER NOT NULL,
    expires REAL,
    value BLOB
);
"""

_ADVICE = {
    "SQLITE_FULL": "the disk is full; free some space, no restart is needed",
    "SQLITE_READONLY": "the file is read-only; make it and its directory writable",
    "SQLITE_CORRUPT": "the file is damaged; restore it from a backup, or move it away to start empty",
    "SQLITE_NOTADB": "the file is not a SQLite database; give another path",
    "SQLITE_CANTOPEN": "the file cannot be opened; check that its directory exists and may be written",
    "SQLITE_BUSY": "another program holds a lock on the file; close it",
    "SQLITE_IOERR": "the disk reports an error; look at the system log",
}


class Row(NamedTuple):
    """One change as stored; a deletion has no value."""

    revision: int
    key: str
    create_revision: int
    expires: float | None
    value: bytes | None


class LogContents(NamedTuple):
    """The contents of a file when it was opened."""

    live: dict[str, KeyValue]
    events: list[StorageEvent]
    expiries: list[tuple[float, int, str]]
    revision: int
    compacted: int
    obsolete: list[int]
    """Rows that an interrupted compaction did not delete."""


class LogFile:
    """A file of changes, locked for this process."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self._database: sqlite3.Connection | None = None
        self._lock: int | None = None
        self._committed = 0
        self._suspect = False

    def size(self) -> int:
        """Return the bytes on disk, including the write-ahead log."""
        found = 0
        for path in (self.path, self.path.with_name(self.path.name + "-wal")):
            try:
                found += path.stat().st_size
            except FileNotFoundError:
                pass
        return found

    def open(self) -> LogContents:
        """Lock the file, create it if it does not exist, and read it."""
        try:
            self._lock_file()
            self._connect()
            return self._recover()
        except BaseException as error:
            self.close()
            if isinstance(error, sqlite3.Error):
                raise self._explain("cannot open", error) from error
            raise

    def _lock_file(self) -> None:
        lock = self.path.with_name(self.path.name + ".lock")
        try:
            self._lock = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno == errno.EROFS or (error.errno == errno.EACCES and self.path.exists()):
                return  # The directory is read-only: no lock is needed.
            raise StorageError(f"cannot open the store {self.path}: {error.strerror} ({lock})") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.read(self._lock, 32).decode(errors="replace").strip()
            os.close(self._lock)
            self._lock = None
            by = f" by process {owner}" if owner else ""
            raise StorageError(
                f"the store {self.path} is already in use{by}: "
                "stop that server, or give this one another path"
            ) from error
        try:
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)
        except OSError:
            pass  # A full disk: the lock is held, only its owner is not recorded.

    def _make_private(self) -> None:
        """Create a new file with mode 0600, which SQLite's other files inherit: they contain secrets."""
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except OSError:
            pass  # It exists, or SQLite reports the error.

    def _connect(self) -> None:
        self._make_private()
        self._database = database = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, cached_statements=16
        )
        try:
            self._prepare(database)
        except sqlite3.OperationalError as error:
            if not _name(error).startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")) or not self.path.exists():
                raise
            database.close()
            # `immutable` needs no other files, which cannot be created here.
            left = self.path.with_name(self.path.name + "-wal").exists()
            mode = "mode=ro" if left else "mode=ro&immutable=1"
            self._database = sqlite3.connect(
                f"{self.path.as_uri()}?{mode}", uri=True, isolation_level=None, check_same_thread=False
            )
            self._check_format(self._database)

    def _prepare(self, database: sqlite3.Connection) -> None:
        database.execute("PRAGMA page_size = 8192")
        version = self._check_format(database)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("PRAGMA journal_size_limit = 67108864")
        if version is None:
            database.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA.strip().split(";\n"):
                database.execute(statement)
            database.execute(f"INSERT OR IGNORE INTO facts VALUES ('format', {FORMAT})")  # noqa: S608
            database.execute("COMMIT")
        else:
            # Fails now if the file is not writable.
            database.execute("BEGIN IMMEDIATE")
            database.execute("UPDATE facts SET value = value WHERE name = 'format'")
            database.execute("COMMIT")

    def _check_format(self, database: sqlite3.Connection) -> int | None:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            return None
        if "facts" not in tables or "changes" not in tables:
            raise StorageError(f"{self.path} is a SQLite database of another program; give another path")
        version: int = database.execute("SELECT value FROM facts WHERE name = 'format'").fetchone()[0]
        if version > FORMAT:
            raise StorageError(
                f"the store {self.path} was written by a newer version of Kubewright (format {version}, "
                f"this one reads up to {FORMAT}): upgrade Kubewright, or give another path"
            )
        return version

    def _recover(self) -> LogContents:
        assert self._database is not None
        facts: dict[str, int] = dict(self._database.execute("SELECT name, value FROM facts"))
        compacted = facts.get("compacted", 0)
        revision = facts.get("revision", 0)
        live: dict[str, KeyValue] = {}
        expires_at: dict[str, tuple[float, int]] = {}
        events: list[StorageEvent] = []
        obsolete: list[int] = []
        rows = self._database.execute(
            "SELECT revision, key, create_revision, expires, value FROM changes ORDER BY revision"
        )
        for row in map(Row._make, rows):
            previous = live.pop(row.key, None)
            expires_at.pop(row.key, None)
            if row.revision <= compacted:
                if previous is not None:
                    obsolete.append(previous.mod_revision)
                if row.value is None:
                    obsolete.append(row.revision)
            else:
                kind = "delete" if row.value is None else "put"
                events.append(
                    StorageEvent(kind, row.key, row.value, previous, row.create_revision, row.revision)  # type: ignore[arg-type]
                )
            if row.value is not None:
                live[row.key] = KeyValue(row.key, row.value, row.create_revision, row.revision)
                if row.expires is not None:
                    expires_at[row.key] = (row.expires, row.revision)
            revision = max(revision, row.revision)
        expiries = [(expires, changed, key) for key, (expires, changed) in expires_at.items()]
        self._committed = revision
        return LogContents(live, events, expiries, revision, compacted, obsolete)

    def _check_unchanged(self) -> None:
        """Raise if another process wrote while this one had no lock because the file was read-only."""
        assert self._database is not None
        (last,) = self._database.execute(
            "SELECT max(coalesce((SELECT max(revision) FROM changes), 0),"
            " coalesce((SELECT value FROM facts WHERE name = 'revision'), 0))"
        ).fetchone()
        if last != self._committed:
            os.close(self._lock or 0)
            self._lock = None
            raise StorageError(
                f"the store {self.path} was changed by another server while it could only be read: "
                "restart this server"
            )

    def append(self, rows: Sequence[Row]) -> None:
        """Write changes durably, all or none."""
        with self._transaction() as database:
            database.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?)", rows)
        self._committed = rows[-1].revision

    def forget(self, compacted: int, obsolete: Iterable[int]) -> None:
        """Record the oldest readable revision and delete obsolete rows."""
        with self._transaction() as database:
            facts = [("compacted", compacted), ("revision", self._committed)]
            database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts)
            database.executemany("DELETE FROM changes WHERE revision = ?", ((row,) for row in obsolete))

    def _transaction(self) -> _Transaction:
        return _Transaction(self)

    def close(self) -> None:
        """Release the file."""
        if self._database is not None:
            self._database.close()
            self._database = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _explain(self, what: str, error: sqlite3.Error) -> StorageError:
        name = _name(error)
        for code, advice in _ADVICE.items():
            if name.startswith(code):
                return StorageError(f"{what} the store {self.path}: {advice} ({error})")
        return StorageError(f"{what} the store {self.path}: {error}")


class _Transaction:
    """A transaction that reports failures as `StorageError`.

    A failed commit may still have reached the disk. Its writers got an error, so the next transaction first
    deletes the rows above the last successful revision.
    """

    def __init__(self, log: LogFile) -> None:
        self._log = log

    def __enter__(self) -> sqlite3.Connection:
        log = self._log
        try:
            if log._suspect:
                # A new connection: the old one, or its file, may be invalid.
                if log._database is not None:
                    log._database.close()
                    log._database = None
                if log._lock is None:
                    log._lock_file()
                    log._connect()
                    log._check_unchanged()
                else:
                    log._connect()
            assert log._database is not None
            log._database.execute("BEGIN IMMEDIATE")
            if log._suspect:
                log._database.execute("DELETE FROM changes WHERE revision > ?", (log._committed,))
        except sqlite3.Error as error:
            raise self._failed(error) from error
        return log._database

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        database = self._log._database
        assert database is not None
        if error is None:
            try:
                database.execute("COMMIT")
                self._log._suspect = False
                return
            except sqlite3.Error as failure:
                error = failure
        if isinstance(error, sqlite3.Error):
            raise self._failed(error) from error

    def _failed(self, error: sqlite3.Error) -> StorageError:
        log = self._log
        log._suspect = True
        try:
            if log._database is not None and log._database.in_transaction:
                log._database.execute("ROLLBACK")
        except sqlite3.Error:
            pass  # The connection is replaced before it is used again.
        return log._explain("cannot write to", error)


def _name(error: sqlite3.Error) -> str:
    """Return SQLite's name of the error, such as SQLITE_FULL."""
    return getattr(error, "sqlite_errorname", None) or ""
