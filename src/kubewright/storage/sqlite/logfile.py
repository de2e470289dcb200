"""The file of a SQLite store: an append-only table of changes.

One row is one change, and its row ID is its revision, so a commit is an append without an index. The current
state results from replaying the rows in order; rows that a later one replaced are history, and compaction
removes them. `facts` holds the format, the oldest readable revision and the highest revision ever used (which
may be above all rows).

Opening verifies the file before anything is written: the structure of the database (`PRAGMA quick_check`),
the checksum of every row and of the facts, and that its revision is not below the high-water mark beside
it. A damaged file is not opened and not changed, unless data loss is accepted: then the intact rows are
copied to a new file, and the damaged one is renamed.

While a server has the file open, the fact `opened` is 1: then the mark belongs to the file, and a missing one
means that lost changes would not be noticed. After a clean end the database alone is complete.

A file that another user could have written is not opened (`kubewright.trusted_files`).

These functions block. A store calls them from its one writer thread.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from kubewright.storage.contract import StorageError
from kubewright.trusted_files import UntrustedFile, check_file

from .high_water_mark import HighWaterMark
from .rows import (
    FORMAT,
    SCHEMA,
    TIMES,
    LogContents,
    Row,
    facts_checksum,
    insert_rows,
    read_rows,
    replay,
    row_checksum,
    write_facts,
)
from .store_lock import StoreLock, make_private

logger = logging.getLogger("kubewright.storage")

_DISK_FULL = "the disk is full; free some space"

_ADVICE = {
    "SQLITE_FULL": _DISK_FULL + ", no restart is needed",
    "SQLITE_READONLY": "the file is read-only; make it and its directory writable",
    "SQLITE_CORRUPT": "the file is damaged",
    "SQLITE_NOTADB": "the file is not a SQLite database; use another path",
    "SQLITE_CANTOPEN": "the file cannot be opened; check that its directory exists and is writable",
    "SQLITE_BUSY": "another program holds a lock on the file; close it",
    "SQLITE_IOERR": "the disk reports an error; look at the system log",
}

_REMEDY = (
    "restore a backup with 'kubewright restore', or start with --accept-data-loss to continue without"
    " what is missing"
)

_UNKNOWN_REVISIONS = 1_000_000
"""Revisions that are skipped where the mark is missing, because it is not known which have been used."""

_FILES = ("", "-wal", "-shm", "-journal", ".mark", ".lock")
"""Suffixes of the files of a store, which are all trusted."""

_MINIMUM_SPACE = 256 * 1024
"""Free bytes that SQLite needs to create the files beside the database."""


class DamagedStore(StorageError):
    """The file has lost or changed acknowledged data."""


class LogFile:
    """A file of changes, locked for this process."""

    def __init__(
        self, path: Path, *, accept_data_loss: bool = False, fsync: bool = True, stores_times: bool = False
    ) -> None:
        self.path = Path(os.path.realpath(path))
        self._accept_data_loss = accept_data_loss
        self._fsync = fsync
        self._stores_times = stores_times
        self._mark = HighWaterMark(self._beside(".mark"), fsync=fsync)
        self._database: sqlite3.Connection | None = None
        self._lock = StoreLock(self.path)
        self._committed = 0
        self._suspect = False
        self._is_marked = False

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

    def size(self) -> int:
        """Return the bytes on disk, including the write-ahead log."""
        found = 0
        for path in (self.path, self._beside("-wal")):
            try:
                found += path.stat().st_size
            except FileNotFoundError:
                pass
        return found

    def open(self) -> LogContents:
        """Lock the file, verify and read it, create it if it is new."""
        self._check_owners()
        try:
            self._lock.acquire()
            try:
                contents = self._read()
            except DamagedStore as error:
                if not self._accept_data_loss:
                    raise
                logger.warning("accepted data loss", extra={"path": str(self.path), "error": str(error)})
                self._salvage()
                contents = self._read()
            self._committed = contents.revision
            if self._lock.is_held and self._mark.create(contents.revision):
                self._set_opened()
            self._check_owners()  # of files that were created meanwhile
            return contents
        except BaseException as error:
            self.close()
            if isinstance(error, sqlite3.Error):
                raise self._explain("cannot open", error, opening=True) from error
            raise

    def read_only(self) -> LogContents:
        """Verify and read a file that is not in use, without locks; used for backups."""
        try:
            database = self._connect_read_only()
            try:
                contents = self._verify(database, 0)
            finally:
                database.close()
        except sqlite3.Error as error:
            raise self._explain("cannot read", error, opening=True) from error
        if not contents.revision:
            raise StorageError(f"{self.path} is empty; it is not a backup")
        return contents

    # Opening

    def _check_owners(self) -> None:
        """Raise `StorageError` if another user could have written one of the files."""
        for suffix in _FILES:
            try:
                check_file(self._beside(suffix))
            except UntrustedFile as error:
                raise StorageError(f"cannot open the store: {error}") from None

    def _set_opened(self) -> None:
        """Record in the database itself, not in its write-ahead log, that it has a mark."""
        assert self._database is not None
        try:
            self._database.execute("BEGIN IMMEDIATE")
            write_facts(self._database, opened=1)
            self._database.execute("COMMIT")
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._is_marked = True
        except sqlite3.Error as error:
            # The file is read-only or the disk is full: it can be read, and writers get the error.
            logger.info("mark not recorded", extra={"path": str(self.path), "error": str(error)})
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")

    def _read(self) -> LogContents:
        """Verify and read the file through a connection that changes nothing, then connect for writing."""
        mark = self._mark.read() if not self._accept_data_loss else self._readable_mark()
        try:
            database = self._connect_read_only()
        except sqlite3.OperationalError as error:
            if not _name(error).startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
                raise
            self._connect()
            assert self._database is not None
            contents = self._verify(self._database, mark)
        else:
            try:
                contents = self._verify(database, mark)
            finally:
                database.close()
            self._connect()
        return contents

    def _readable_mark(self) -> int | None:
        try:
            return self._mark.read()
        except StorageError as error:
            logger.warning("ignored a damaged high-water mark", extra={"error": str(error)})
            return None

    def _connect_read_only(self) -> sqlite3.Connection:
        database = sqlite3.connect(
            f"{self.path.as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
        )
        try:
            database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            database.close()
            raise
        except sqlite3.DatabaseError:
            pass  # `_verify` reports it.
        return database

    def _verify(self, database: sqlite3.Connection, mark: int | None) -> LogContents:
        """Return the contents of the file. Raises `DamagedStore` if acknowledged data is missing."""
        damaged: list[Row] = []
        try:
            version = self._check_format(database)
            if version is None:
                if mark:
                    raise DamagedStore(
                        f"the store {self.path} is empty, but {self._mark.path.name} records revision "
                        f"{mark}: all changes are missing; {_REMEDY}"
                    )
                return LogContents({}, [], [], 0, 0, [])
            problems = [text for (text,) in database.execute("PRAGMA quick_check(3)") if text != "ok"]
            if problems:
                raise DamagedStore(f"the store {self.path} is damaged ({'; '.join(problems)}); {_REMEDY}")
            facts: dict[str, int] = dict(database.execute("SELECT name, value FROM facts"))
            contents = replay(read_rows(database, version, damaged), facts)
            contents = contents._replace(times=_read_times(database))
        except sqlite3.DatabaseError as error:
            if _name(error) == "SQLITE_NOTADB" and not mark:
                raise
            if _name(error).startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
                raise DamagedStore(f"the store {self.path} is damaged ({error}); {_REMEDY}") from error
            raise
        if damaged:
            keys = ", ".join(f"{row.key!s} (revision {row.revision})" for row in damaged[:5])
            more = f" and {len(damaged) - 5} more" if len(damaged) > 5 else ""
            raise DamagedStore(
                f"the store {self.path} has rows that do not match their checksums: {keys}{more}; {_REMEDY}"
            )
        if version >= FORMAT and facts.get("checksum") != facts_checksum(facts):
            raise DamagedStore(f"the table of facts in {self.path} does not match its checksum; {_REMEDY}")
        if mark is None and facts.get("opened"):
            raise DamagedStore(
                f"the store {self.path} was not closed and {self._mark.path.name} is missing: the last "
                f"acknowledged changes after revision {contents.revision} may be missing, too; {_REMEDY}"
            )
        if mark is not None and contents.revision < mark:
            raise DamagedStore(
                f"the store {self.path} ends at revision {contents.revision}, but revision {mark} was "
                f"acknowledged: the last {mark - contents.revision} changes are missing; {_REMEDY}"
            )
        return contents

    def _salvage(self) -> None:
        """Copy what can be read to a new file and keep the damaged one under another name.

        The new file begins above every revision ever used, and has no history: clients that hold an older
        revision receive `Compacted` and list again.
        """
        highest = self._readable_mark()
        is_marked = highest is not None
        highest = highest or 0
        rows: dict[int, Row] = {}
        damaged: list[Row] = []
        try:
            database = self._connect_read_only()
        except sqlite3.Error:
            pass
        else:
            try:
                version = self._check_format(database) or FORMAT
                for descending in (False, True):
                    try:
                        for row in read_rows(database, version, damaged, descending=descending):
                            rows[row.revision] = row
                        break
                    except sqlite3.DatabaseError:
                        continue  # Read from the other end, up to the damaged page.
            except sqlite3.DatabaseError:
                pass
            finally:
                database.close()
        state = replay((rows[revision] for revision in sorted(rows)), {}).live
        for row in damaged:
            logger.warning(
                "dropped a damaged row",
                extra={"path": str(self.path), "key": row.key, "revision": row.revision},
            )
        for suffix in ("", "-wal", "-shm"):
            if self._beside(suffix).exists():
                self._beside(suffix).replace(self._beside(f".damaged{suffix}"))
        self._lock.lock_database()
        self._connect()
        assert self._database is not None
        first = max(highest, max(rows, default=0)) + (1 if is_marked else _UNKNOWN_REVISIONS)
        with self._transaction() as target:
            insert_rows(target, (rows[item.mod_revision] for item in state.values()))
            write_facts(target, revision=first, compacted=first)
        self._database.close()
        self._database = None

    def _connect(self) -> None:
        make_private(self.path)
        self._database = database = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, cached_statements=16
        )
        try:
            self._prepare(database)
        except sqlite3.OperationalError as error:
            if not _name(error).startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")) or not self.path.exists():
                raise
            database.close()
            # `immutable` works without the files beside the database, which cannot be created here.
            left = self._beside("-wal").exists()
            mode = "mode=ro" if left else "mode=ro&immutable=1"
            self._database = sqlite3.connect(
                f"{self.path.as_uri()}?{mode}", uri=True, isolation_level=None, check_same_thread=False
            )
            self._check_format(self._database)

    def _prepare(self, database: sqlite3.Connection) -> None:
        database.execute("PRAGMA page_size = 8192")
        version = self._check_format(database)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(f"PRAGMA synchronous = {'FULL' if self._fsync else 'OFF'}")
        database.execute("PRAGMA journal_size_limit = 67108864")
        database.execute("BEGIN IMMEDIATE")
        if version is None:
            for statement in SCHEMA:
                database.execute(statement)
            write_facts(database, format=FORMAT)
        elif version < FORMAT:
            database.create_function("row_checksum", 5, lambda *columns: row_checksum(Row(*columns)))
            database.execute("ALTER TABLE changes ADD COLUMN checksum INTEGER")
            database.execute(
                "UPDATE changes SET checksum = row_checksum(revision, key, create_revision, expires, value)"
            )
            write_facts(database, format=FORMAT)
        else:
            # Fails if the file cannot be written.
            database.execute("UPDATE facts SET value = value WHERE name = 'format'")
        if self._stores_times:
            database.execute(TIMES)
        database.execute("COMMIT")

    def _check_format(self, database: sqlite3.Connection) -> int | None:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            return None
        if "facts" not in tables or "changes" not in tables:
            raise StorageError(f"{self.path} is a SQLite database of another program; use another path")
        found = database.execute("SELECT value FROM facts WHERE name = 'format'").fetchone()
        if found is None:
            raise DamagedStore(f"the store {self.path} has no format; {_REMEDY}")
        version: int = found[0]
        if version > FORMAT:
            raise StorageError(
                f"the store {self.path} was written by a newer version of Kubewright (format {version}, "
                f"this one reads up to {FORMAT}): upgrade Kubewright, or use another path"
            )
        return version

    def _check_unchanged(self) -> None:
        """Raise if another process wrote while this one held no lock, because the file was read-only."""
        assert self._database is not None
        (last,) = self._database.execute(
            "SELECT max(coalesce((SELECT max(revision) FROM changes), 0),"
            " coalesce((SELECT value FROM facts WHERE name = 'revision'), 0))"
        ).fetchone()
        if last != self._committed:
            self._lock.release()
            raise StorageError(
                f"the store {self.path} was changed by another server while it could only be read: "
                "restart this server"
            )

    def append(self, rows: Sequence[Row], time: float) -> None:
        """Make changes of one time durable, all or none."""
        with self._transaction() as database:
            insert_rows(database, rows)
            if self._stores_times:
                database.execute("INSERT INTO times VALUES (?, ?)", (rows[-1].revision, time))
        self._committed = rows[-1].revision
        self._mark.write(self._committed)

    def forget(self, compacted: int, obsolete: Iterable[int]) -> None:
        """Record the oldest readable revision and delete rows that are not needed any more."""
        with self._transaction() as database:
            write_facts(database, compacted=compacted, revision=self._committed)
            database.executemany("DELETE FROM changes WHERE revision = ?", ((row,) for row in obsolete))
            if self._stores_times:
                database.execute("DELETE FROM times WHERE revision < ?", (compacted,))

    def _transaction(self) -> _Transaction:
        return _Transaction(self)

    def close(self) -> None:
        """Release the file."""
        if self._database is not None and self._is_marked:
            self._is_marked = False
            with suppress(StorageError), self._transaction() as database:
                write_facts(database, opened=0)
        if self._database is not None:
            self._database.close()
            self._database = None
        self._mark.close()
        self._lock.release()

    def _explain(self, what: str, error: sqlite3.Error, *, opening: bool = False) -> StorageError:
        name = _name(error)
        if opening and name.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN")):
            try:
                free = shutil.disk_usage(self.path.parent).free
            except OSError:
                free = _MINIMUM_SPACE
            if name.startswith("SQLITE_FULL") or free < _MINIMUM_SPACE:
                needed = f"{_DISK_FULL} (at least {_MINIMUM_SPACE // 1024} KiB) and start again"
                return StorageError(f"{what} the store {self.path}: {needed} ({error})")
        for code, advice in _ADVICE.items():
            if name.startswith(code):
                return StorageError(f"{what} the store {self.path}: {advice} ({error})")
        return StorageError(f"{what} the store {self.path}: {error}")


class _Transaction:
    """A transaction that explains its failure and leaves the file as it was.

    A commit that fails may still have reached the disk. Its writers have received an error, so the next
    transaction begins by deleting all rows above the last revision that succeeded.
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
                if not log._lock.is_held:
                    log._lock.acquire()
                    log._connect()
                    log._check_unchanged()
                else:
                    log._connect()
            assert log._database is not None
            log._database.execute("BEGIN IMMEDIATE")
            if log._suspect:
                log._database.execute("DELETE FROM changes WHERE revision > ?", (log._committed,))
                if log._stores_times:
                    log._database.execute("DELETE FROM times WHERE revision > ?", (log._committed,))
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


def _read_times(database: sqlite3.Connection) -> list[tuple[float, int]]:
    if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'times'").fetchone() is None:
        return []
    return list(database.execute("SELECT time, revision FROM times ORDER BY revision"))


def _name(error: sqlite3.Error) -> str:
    """Return SQLite's name of the error, such as SQLITE_FULL."""
    return getattr(error, "sqlite_errorname", None) or ""
