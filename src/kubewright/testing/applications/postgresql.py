"""The wire protocol of PostgreSQL (version 3.0), as far as drivers need it for statements.

Start without TLS and without a password, simple and extended queries, text and binary values of bool, int8,
float8 and text. Parameters are text unless the statement casts them (`$1::int`). Statements are described by
executing reads without parameters, so that numbers have their type; other columns are text.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import struct
from collections.abc import Sequence
from typing import Any, Final

from .application import CallFailed, FakeReplica
from .sql import FakeSQL, SQLResult

_BOOL, _INT8, _TEXT, _FLOAT8 = 16, 20, 25, 701
_SSL_REQUEST, _GSS_REQUEST, _CANCEL = 80877103, 80877104, 80877102
_MAX_MESSAGE: Final = 16 << 20
_PARAMETER: Final = re.compile(r"\$(\d+)(?:::(\w+))?")
_CASTS: Final = {
    **dict.fromkeys(("int", "int2", "int4", "int8", "bigint", "integer", "smallint"), _INT8),
    **dict.fromkeys(("float", "float4", "float8", "real", "numeric"), _FLOAT8),
    **dict.fromkeys(("bool", "boolean"), _BOOL),
}
_SETTINGS: Final = {
    "server_version": "16.0",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "DateStyle": "ISO, MDY",
    "TimeZone": "UTC",
}


class _Statement:
    """A prepared statement, or a portal with its values."""

    def __init__(self, text: str) -> None:
        self.text = text
        casts: dict[int, str] = {}
        for number, cast in _PARAMETER.findall(text):
            casts[int(number)] = cast.lower() or casts.get(int(number), "")
        self.types = [_CASTS.get(casts.get(each, ""), _TEXT) for each in range(1, max(casts, default=0) + 1)]
        self.values: list[Any] = []
        self.formats: list[int] = []
        self.columns: list[tuple[str, int]] | None = None


class _Connection:
    """One connection after its start."""

    def __init__(
        self, database: FakeSQL, replica: FakeReplica, process: object, writer: asyncio.StreamWriter
    ) -> None:
        self._database = database
        self._replica = replica
        self._process = process
        self._writer = writer
        self._statements: dict[str, _Statement] = {}
        self._portals: dict[str, _Statement] = {}
        self._has_failed = False

    def send(self, kind: bytes, body: bytes = b"") -> None:
        """Send a message."""
        self._writer.write(kind + struct.pack("!i", len(body) + 4) + body)

    def ready(self) -> None:
        """Send that the next statement is expected."""
        self.send(b"Z", b"I")

    async def handle(self, kind: bytes, body: bytes) -> None:
        """Handle a message."""
        if kind == b"S":
            self._has_failed = False
            self.ready()
            return
        if self._has_failed:
            return  # until the next Sync
        try:
            await self._handlers[kind](self, body)
        except KeyError:
            self._fail(f"unknown message {kind!r}", "08P01")
        except CallFailed as error:
            self._fail(str(error), getattr(error, "code", "57P01"))
        if kind == b"Q":
            self._has_failed = False
            self.ready()

    def _fail(self, message: str, code: str) -> None:
        fields = ((b"S", "ERROR"), (b"V", "ERROR"), (b"C", code), (b"M", message))
        self.send(b"E", b"".join(name + text.encode() + b"\0" for name, text in fields) + b"\0")
        self._has_failed = True

    async def _run(self, statement: _Statement) -> SQLResult:
        return await self._database.execute(
            self._replica, statement.text, statement.values, process=self._process
        )

    # Messages

    async def _query(self, body: bytes) -> None:
        text = body.rstrip(b"\0").decode()
        if not text.strip(" ;"):
            self.send(b"I")
            return
        for part in filter(str.strip, text.split(";")):
            statement = _Statement(part)
            result = await self._run(statement)
            if result.columns:
                self._describe(_columns(result))
            self._rows(result, _columns(result), [])
            self.send(b"C", result.tag.encode() + b"\0")

    async def _parse(self, body: bytes) -> None:
        name, text, _ = body.split(b"\0", 2)
        self._statements[name.decode()] = _Statement(text.decode())
        self.send(b"1")

    async def _describe_message(self, body: bytes) -> None:
        name = body[1:].rstrip(b"\0").decode()
        statement = (self._statements if body[:1] == b"S" else self._portals)[name]
        if body[:1] == b"S":
            count = len(statement.types)
            self.send(b"t", struct.pack(f"!h{count}i", count, *statement.types))
        if statement.columns is None:
            values = [None] * len(statement.types)
            result = self._database.describe(self._replica, statement.text, values)
            statement.columns = _columns(result) if result is not None else []
        if statement.columns:
            self._describe(statement.columns)
        else:
            self.send(b"n")

    async def _bind(self, body: bytes) -> None:
        portal, name, rest = body.split(b"\0", 2)
        statement = self._statements[name.decode()]
        bound = _Statement(statement.text)
        bound.columns = statement.columns
        formats, rest = _shorts(rest)
        (count,) = struct.unpack_from("!h", rest)
        rest = rest[2:]
        for index in range(count):
            (size,) = struct.unpack_from("!i", rest)
            rest = rest[4:]
            if size < 0:
                bound.values.append(None)
                continue
            is_binary = bool(formats) and formats[index if len(formats) > 1 else 0] == 1
            bound.values.append(_decode(rest[:size], statement.types[index], is_binary))
            rest = rest[size:]
        bound.formats, _ = _shorts(rest)
        self._portals[portal.decode()] = bound
        self.send(b"2")

    async def _execute(self, body: bytes) -> None:
        statement = self._portals[body.split(b"\0", 1)[0].decode()]
        result = await self._run(statement)
        self._rows(result, statement.columns or _columns(result), statement.formats)
        self.send(b"C", result.tag.encode() + b"\0")

    async def _close(self, body: bytes) -> None:
        (self._statements if body[:1] == b"S" else self._portals).pop(body[1:].rstrip(b"\0").decode(), None)
        self.send(b"3")

    async def _flush(self, body: bytes) -> None:
        pass

    _handlers: Final = {
        b"Q": _query,
        b"P": _parse,
        b"D": _describe_message,
        b"B": _bind,
        b"E": _execute,
        b"C": _close,
        b"H": _flush,
    }

    # Rows

    def _describe(self, columns: Sequence[tuple[str, int]]) -> None:
        fields = b"".join(
            name.encode() + b"\0" + struct.pack("!ihihih", 0, 0, kind, -1 if kind == _TEXT else 8, -1, 0)
            for name, kind in columns
        )
        self.send(b"T", struct.pack("!h", len(columns)) + fields)

    def _rows(self, result: SQLResult, columns: Sequence[tuple[str, int]], formats: Sequence[int]) -> None:
        for row in result.rows:
            parts = [struct.pack("!h", len(row))]
            for index, (value, (_, kind)) in enumerate(zip(row, columns, strict=True)):
                if value is None:
                    parts.append(struct.pack("!i", -1))
                    continue
                is_binary = bool(formats) and formats[index if len(formats) > 1 else 0] == 1
                encoded = _encode(value, kind, is_binary)
                parts.append(struct.pack("!i", len(encoded)) + encoded)
            self.send(b"D", b"".join(parts))


def _shorts(data: bytes) -> tuple[list[int], bytes]:
    (count,) = struct.unpack_from("!h", data)
    return list(struct.unpack_from(f"!{count}h", data, 2)), data[2 + 2 * count :]


def _columns(result: SQLResult) -> list[tuple[str, int]]:
    """Return the names and types of the columns of a result, by the values of its first row."""
    first = result.rows[0] if result.rows else [""] * len(result.columns)
    types = {bool: _BOOL, int: _INT8, float: _FLOAT8}
    return [(name, types.get(type(value), _TEXT)) for name, value in zip(result.columns, first, strict=True)]


def _encode(value: Any, kind: int, is_binary: bool) -> bytes:
    if kind == _BOOL:
        return (b"\1" if value else b"\0") if is_binary else (b"t" if value else b"f")
    if kind == _INT8 and is_binary:
        return struct.pack("!q", int(value))
    if kind == _FLOAT8 and is_binary:
        return struct.pack("!d", float(value))
    return value if isinstance(value, bytes) else str(value).encode()


def _decode(data: bytes, kind: int, is_binary: bool) -> Any:
    if kind == _BOOL:
        return data == b"\1" if is_binary else data in (b"t", b"true", b"1")
    if kind == _INT8:
        return struct.unpack("!q", data)[0] if is_binary else int(data)
    if kind == _FLOAT8:
        return struct.unpack("!d", data)[0] if is_binary else float(data)
    return data.decode()


async def serve_connection(
    database: FakeSQL,
    replica: FakeReplica,
    process: object,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Serve a connection until it ends."""
    connection = _Connection(database, replica, process, writer)
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while True:
            size, code = struct.unpack("!ii", await reader.readexactly(8))
            if not 8 <= size <= _MAX_MESSAGE:
                break
            await reader.readexactly(size - 8)
            if code in (_SSL_REQUEST, _GSS_REQUEST):
                writer.write(b"N")
                continue
            if code == _CANCEL:
                break
            connection.send(b"R", struct.pack("!i", 0))
            for name, value in _SETTINGS.items():
                connection.send(b"S", f"{name}\0{value}\0".encode())
            connection.send(b"K", struct.pack("!ii", 1, 1))
            connection.ready()
            while True:
                kind = await reader.readexactly(1)
                (size,) = struct.unpack("!i", await reader.readexactly(4))
                if kind == b"X" or not 4 <= size <= _MAX_MESSAGE:
                    break
                await connection.handle(kind, await reader.readexactly(size - 4))
            break
    writer.close()
