"""Rows of the table of changes: their layout, their checksums, and the state that they add up to.

One row is one change. Its checksum covers all its columns, so that a bit that was flipped on the disk is
detected when the file is opened. `replay` turns the rows, in revision order, into the current state and the
history.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kubewright.storage.contract import KeyValue, StorageEvent

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS changes (revision INTEGER PRIMARY KEY, key TEXT NOT NULL,"
    " create_revision INTEGER NOT NULL, expires REAL, value BLOB, checksum INTEGER)",
)

TIMES = "CREATE TABLE IF NOT EXISTS times (revision INTEGER PRIMARY KEY, time REAL NOT NULL)"
"""When a revision was written; the table exists if the store has had a history with times."""

FORMAT = 2
"""Number of the layout that this version writes. Format 1 has no checksums."""


class Row(NamedTuple):
    """One change as stored; a deletion has no value."""

    revision: int
    key: str
    create_revision: int
    expires: float | None
    value: bytes | None


class LogContents(NamedTuple):
    """Contents of a file when it was opened."""

    live: dict[str, KeyValue]
    events: list[StorageEvent]
    expiries: list[tuple[float, int, str]]
    revision: int
    compacted: int
    obsolete: list[int]
    """Rows that a compaction interrupted by a crash did not remove."""
    times: list[tuple[float, int]] = []
    """Times of revisions, if the file has them."""


def row_checksum(row: Row) -> int:
    """Return the CRC-32 of all columns of a row."""
    revision, key, create_revision, expires, value = row
    head = zlib.crc32(f"{revision}\0{key}\0{create_revision}\0{expires!r}\0{value is None}".encode())
    return head if value is None else zlib.crc32(value, head)


def facts_checksum(facts: Mapping[str, int]) -> int:
    """Return the CRC-32 of the facts."""
    text = ",".join(f"{name}={value}" for name, value in sorted(facts.items()) if name != "checksum")
    return zlib.crc32(text.encode())


def write_facts(database: sqlite3.Connection, **changes: int) -> None:
    """Replace facts and their checksum, in the transaction of the caller."""
    facts: dict[str, int] = dict(database.execute("SELECT name, value FROM facts"))
    facts.update(changes)
    facts["checksum"] = facts_checksum(facts)
    database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())


def insert_rows(database: sqlite3.Connection, rows: Iterable[Row]) -> None:
    """Append rows with their checksums, in the transaction of the caller."""
    database.executemany(
        "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?)", ((*row, row_checksum(row)) for row in rows)
    )


def read_rows(
    database: sqlite3.Connection, version: int, damaged: list[Row], *, descending: bool = False
) -> Iterator[Row]:
    """Yield the rows in revision order; rows whose checksum differs are added to `damaged` instead."""
    checksum = "checksum" if version >= FORMAT else "NULL"
    query = f"SELECT revision, key, create_revision, expires, value, {checksum} FROM changes"  # noqa: S608
    query += " ORDER BY revision DESC" if descending else " ORDER BY revision"
    verified = version >= FORMAT
    crc32 = zlib.crc32
    # A key or value of another type, or a key that is not UTF-8, fails the comparison of checksums.
    database.text_factory = _decode
    for revision, key, create_revision, expires, value, stored in database.execute(query):
        row = Row(revision, key, create_revision, expires, value)
        if verified:
            head = crc32(
                f"{revision}\0{key}\0{create_revision}\0{expires!r}\0{value is None}".encode(errors="replace")
            )
            if (
                not isinstance(value, bytes | None)
                or (head if value is None else crc32(value, head)) != stored
            ):
                damaged.append(row)
                continue
        yield row


def _decode(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode(errors="backslashreplace")


def replay(rows: Iterable[Row], facts: Mapping[str, int]) -> LogContents:
    """Return the state that results from rows in revision order."""
    compacted = facts.get("compacted", 0)
    revision = facts.get("revision", 0)
    live: dict[str, KeyValue] = {}
    expires_at: dict[str, tuple[float, int]] = {}
    events: list[StorageEvent] = []
    obsolete: list[int] = []
    for row in rows:
        previous = live.pop(row.key, None)
        expires_at.pop(row.key, None)
        if row.revision <= compacted:
            if previous is not None:
                obsolete.append(previous.mod_revision)
            if row.value is None:
                obsolete.append(row.revision)
        elif row.value is None:
            events.append(StorageEvent("delete", row.key, None, previous, row.create_revision, row.revision))
        else:
            events.append(
                StorageEvent("put", row.key, row.value, previous, row.create_revision, row.revision)
            )
        if row.value is not None:
            live[row.key] = KeyValue(row.key, row.value, row.create_revision, row.revision)
            if row.expires is not None:
                expires_at[row.key] = (row.expires, row.revision)
        revision = max(revision, row.revision)
    expiries = [(expires, changed, key) for key, (expires, changed) in expires_at.items()]
    return LogContents(live, events, expiries, revision, compacted, obsolete)
