"""`FakeSQL`: a replicated database with the protocol of PostgreSQL and the SQL of SQLite.

    database = FakeSQL("db", replicas=3)
    connection = await asyncpg.connect(host="db-primary", user="app")

The first replica is the primary. A write on the primary is applied on all replicas that accept connections;
with `lag`, that many writes later. Writes on another replica fail (25006), as on a hot standby. What
operators of databases call:

| statement | effect |
|---|---|
| `SELECT pg_is_in_recovery()` | whether the replica is not the primary |
| `SELECT pg_last_wal_replay_lsn()` | number of writes that the replica has applied |
| `SELECT pg_promote()` | the replica becomes the primary; the others follow it, and lose other writes |
| `SELECT pg_basebackup()` | the replicas are synced from the primary |

A replica that restarts without persistent data has no tables and no writes until it is synced from the
primary. A primary that restarts so is empty, and the next write on it empties the others.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from .application import CallFailed, FakeApplication, FakeReplica

PRIMARY: Final = "primary"
STANDBY: Final = "replica"
_READ: Final = re.compile(r"\s*(?:select|show|values|with|explain)\b", re.IGNORECASE)
_IGNORED: Final = re.compile(
    r"\s*(?:begin|commit|rollback|set|discard|reset|deallocate|listen|unlisten|close)\b", re.I
)
_PARAMETER: Final = re.compile(r"\$(\d+)(?:::\w+)?")
_CAST: Final = re.compile(r"::[a-z_]+\d*", re.IGNORECASE)
_FUNCTION: Final = re.compile(
    r"\s*select\s+(?:pg_catalog\.)?(pg_\w+|version)\(\)\s*(?:as\s+\w+)?\s*;?\s*", re.I
)
READ_ONLY: Final = "25006"
"""SQLSTATE of a write on a replica."""


class SQLError(CallFailed):
    """A statement failed, with the code of PostgreSQL."""

    def __init__(self, message: str, code: str = "42601") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class SQLResult:
    """The rows of a statement."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    tag: str
    """What was done, such as `INSERT 0 1`."""


class FakeSQL(FakeApplication):
    """A replicated database."""

    default_port = 5432

    def __init__(self, service: str, *, lag: int = 0, **options: Any) -> None:
        """`lag` is the number of writes by which replicas are behind; other options: `FakeApplication`."""
        super().__init__(service, **options)
        self.lag = lag
        self.reset()

    @property
    def primary(self) -> FakeReplica:
        """The primary."""
        return next(each for each in self.replicas if each.role == PRIMARY)

    def reset(self) -> None:
        """Return to the state at the beginning."""
        super().reset()
        for each in self.replicas:
            each.role = PRIMARY if each.index == 0 else STANDBY

    def lose_data(self, replica: FakeReplica) -> None:
        """Forget all writes: the data of a replica is the list of its writes."""
        replica.data = {"writes": []}

    def promote(self, replica: FakeReplica) -> None:
        """Make a replica the primary; others follow it when they accept connections."""
        for each in self.replicas:
            each.role = PRIMARY if each is replica else STANDBY
        self.sync()

    def sync(self) -> None:
        """Bring the replicas that accept connections to the state of the primary, but for the lag."""
        primary = self.primary
        if primary.is_rejecting:
            return
        writes = primary.data["writes"]
        for each in self.replicas:
            if each is not primary and not each.is_rejecting:
                each.data["writes"] = list(writes[: max(len(writes) - self.lag, 0)])

    def load(self, *statements: str) -> None:
        """Execute statements on all replicas, without a call: data that existed before."""
        for each in self.replicas:
            each.data["writes"] += [(text, ()) for text in statements]

    def observed(self) -> dict[str, Any]:
        """Return the content of all tables of the primary: what an application would read."""
        with self._database(self.primary) as database:
            names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            return {
                str(name): sorted(map(repr, database.execute(f'SELECT * FROM "{name}"').fetchall()))  # noqa: S608
                for (name,) in names
            }

    # Statements

    async def execute(
        self, replica: FakeReplica, statement: str, parameters: Sequence[Any] = (), process: object = None
    ) -> SQLResult:
        """Execute a statement on a replica; raise `SQLError`."""
        is_read = _READ.match(statement) is not None
        operation = f"{replica.role}: {' '.join(statement.split())[:120]}"
        async with self.call(replica, operation, is_read=is_read, process=process):
            return self._statement(replica, statement, parameters, is_read=is_read)

    def _statement(
        self, replica: FakeReplica, statement: str, parameters: Sequence[Any], *, is_read: bool
    ) -> SQLResult:
        if _IGNORED.match(statement):
            return SQLResult((), (), statement.split()[0].upper().rstrip(";"))
        function = _FUNCTION.fullmatch(statement)
        if function is not None:
            return self._function(replica, function[1].lower())
        if self.state != "ready":
            raise SQLError(f"the database system is {self.state}", "57P03")
        if not is_read and replica.role != PRIMARY:
            raise SQLError("cannot execute the statement in a read-only transaction", READ_ONLY)
        with replica.access(is_read=is_read):
            result = self._execute(replica, statement, parameters, is_read=is_read)
        if not is_read and not replica.is_lying:
            self.sync()
        return result

    def describe(
        self, replica: FakeReplica, statement: str, parameters: Sequence[Any] = ()
    ) -> SQLResult | None:
        """Return the columns of a statement without a call; `None` if it returns no rows."""
        function = _FUNCTION.fullmatch(statement)
        if function is not None and function[1].lower() not in ("pg_promote", "pg_basebackup"):
            return self._function(replica, function[1].lower())
        if function is not None:
            return SQLResult((function[1],), ((True,),), "")
        if _READ.match(statement) is None:
            return None
        return self._execute(replica, statement, parameters, is_read=True)

    def _function(self, replica: FakeReplica, name: str) -> SQLResult:
        if name == "pg_promote":
            self.promote(replica)
        elif name == "pg_basebackup":
            self.sync()
        values: dict[str, Any] = {
            "pg_is_in_recovery": replica.role != PRIMARY,
            "pg_last_wal_replay_lsn": len(replica.data["writes"]),
            "pg_current_wal_lsn": len(replica.data["writes"]),
            "pg_promote": True,
            "pg_basebackup": True,
            "version": "PostgreSQL 16.0 (kubewright fake)",
        }
        if name not in values:
            raise SQLError(f"function {name}() does not exist", "42883")
        return SQLResult((name,), ((values[name],),), "SELECT 1")

    def _execute(
        self, replica: FakeReplica, statement: str, parameters: Sequence[Any], *, is_read: bool
    ) -> SQLResult:
        text = _CAST.sub("", _PARAMETER.sub(r"?\1", statement))
        database = self._database(replica)
        try:
            before = database.position()
            cursor = database.execute(text, tuple(parameters))
            rows = cursor.fetchall()
            is_changed = database.position() != before
        except sqlite3.Error as error:
            raise _sql_error(error) from None
        finally:
            database.close()
        columns = tuple(each[0] for each in cursor.description or ())
        if is_changed:
            replica.data["writes"].append((text, tuple(parameters)))
        verb = statement.split()[0].upper().rstrip(";")
        count = len(rows) if columns else max(cursor.rowcount, 0)
        tag = f"INSERT 0 {count}" if verb == "INSERT" else verb
        return SQLResult(columns, rows, f"{verb} {count}" if verb in ("SELECT", "UPDATE", "DELETE") else tag)

    def _database(self, replica: FakeReplica) -> _Database:
        """Return a database with all writes of a replica: fakes are small, and copies are simple."""
        database = sqlite3.connect(":memory:", factory=_Database)
        for text, parameters in replica.data["writes"]:
            database.execute(text, parameters)
        return database

    def protocol(self, replica: FakeReplica, process: object = None) -> asyncio.BaseProtocol:
        """Return the protocol of a new connection."""
        from .postgresql import serve_connection

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            replica.connections.add(writer.transport)
            try:
                await serve_connection(self, replica, process, reader, writer)
            finally:
                replica.connections.discard(writer.transport)

        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), serve)


class _Database(sqlite3.Connection):
    """A connection that is closed at the end of a block."""

    def position(self) -> tuple[int, int]:
        """Return what differs after a statement that has changed something."""
        (schema,) = self.execute("PRAGMA schema_version").fetchone()
        return int(schema), self.total_changes

    def __exit__(self, *exc: object) -> None:  # type: ignore[override]
        self.close()


def _sql_error(error: sqlite3.Error) -> SQLError:
    text = str(error)
    if text.startswith("no such table: "):
        return SQLError(f'relation "{text.removeprefix("no such table: ")}" does not exist', "42P01")
    if "already exists" in text:
        return SQLError(text, "42P07")
    if isinstance(error, sqlite3.IntegrityError):
        return SQLError(text, "23505")
    return SQLError(text)
