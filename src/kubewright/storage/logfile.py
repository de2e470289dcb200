"""The file below a SQLite store: an append-only table of changes, and what may be forgotten of it.

One row is one change, and its row id is its revision, so a commit is a plain append without any index. The
current state is what remains when the rows are replayed in order; rows that a later one replaced are history
and go when they are compacted. `facts` holds the format, the oldest readable revision and the highest
revision ever used (which may lie above every row left).

These functions block. A store calls them from its one writer thread.
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
"""The layout that this version writes. A file with a higher number is refused."""

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
    """What a file held when it was opened."""

    live: dict[str, KeyValue]
    events: list[StorageEvent]
    expiries: list[tuple[float, int, str]]
    revision: int
    compacted: int
    obsolete: list[int]
    """Rows that a compaction interrupted by a crash has left behind."""


class LogFile:
    """A file of changes, locked for this process."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self._database: sqlite3.Connection | None = None
        self._lock: int | None = None
        self._committed = 0
        self._suspect = False

    def size(self) -> int:
        """Bytes on disk, with what has yet to be moved into the main file."""
        found = 0
        for path in (self.path, self.path.with_name(self.path.name + "-wal")):
            try:
                found += path.stat().st_size
            except FileNotFoundError:
                pass
        return found

    def open(self) -> LogContents:
        """Lock the file, make it if it is new, and read it."""
        try:
            self._take_lock()
            self._connect()
            return self._recover()
        except BaseException as error:
            self.close()
            if isinstance(error, sqlite3.Error):
                raise self._explain("cannot open", error) from error
            raise

    def _take_lock(self) -> None:
        lock = self.path.with_name(self.path.name + ".lock")
        try:
            self._lock = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno == errno.EROFS or (error.errno == errno.EACCES and self.path.exists()):
                return  # Nobody can write here, so there is nothing to guard.
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
            pass  # A full disk: the lock holds all the same, only its owner stays unnamed.

    def _make_private(self) -> None:
        """A new file is its owner's alone, and so is what SQLite puts beside it: they hold keys."""
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except OSError:
            pass  # It is there already, or SQLite will say what is wrong.

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
            # `immutable` does without the files beside the database, which cannot be made here.
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
            # Shows at once whether the file can be written.
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
        """Raise if somebody else wrote while this process held no lock, because the file was read-only."""
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
        """Make changes durable, all or none."""
        with self._transaction() as database:
            database.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?)", rows)
        self._committed = rows[-1].revision

    def forget(self, compacted: int, obsolete: Iterable[int]) -> None:
        """Record the oldest readable revision and drop rows that are not needed any more."""
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
    """A transaction that explains its failure and leaves the file as it was.

    A commit that fails may still have reached the disk. Its writers have been told that it failed, so the
    next transaction begins by removing whatever lies above the last revision that succeeded.
    """

    def __init__(self, log: LogFile) -> None:
        self._log = log

    def __enter__(self) -> sqlite3.Connection:
        log = self._log
        try:
            if log._suspect:
                # A fresh connection: the failure may have been of the old one, or of a file since replaced.
                if log._database is not None:
                    log._database.close()
                    log._database = None
                if log._lock is None:
                    log._take_lock()
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
    """SQLite's name of the error, such as SQLITE_FULL."""
    return getattr(error, "sqlite_errorname", None) or ""
