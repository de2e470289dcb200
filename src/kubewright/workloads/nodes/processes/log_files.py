"""`FileLog`: the log files of one run of a container that is a process, and the requests for their lines.

As kubelets do, requests read the current file; those that follow the log continue with the next file. Files
are read in small parts, so that other requests are served in between.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kubewright.workloads.nodes.containers.container_log import LogOptions

from .log_writer import file_path, numbered_files

CHUNK: Final = 64 * 1024
FOLLOW_SECONDS: Final = (0.01, 0.25)
"""First and longest interval in which a file is checked for new lines, while it does not change."""
_STAMP_LENGTH: Final = len("2026-11-16T19:13:00.123456789Z")


@dataclass(frozen=True, slots=True)
class LogLimits:
    """Limits of the log of one run of a container, as in the configuration of kubelets."""

    max_size: int = 10 * 1024 * 1024
    """`containerLogMaxSize`: bytes of one file."""
    max_files: int = 5
    """`containerLogMaxFiles`."""


def format_stamp(date: datetime) -> bytes:
    """Return a date as records have it."""
    return date.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z").encode()


class FileLog:
    """The log files of one run. The supervisor of the container writes them."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = str(directory)
        Path(file_path(self._directory, 1)).touch(mode=0o600)
        self._closed = False

    def write(self, text: str | bytes, date: datetime, stream: str = "stdout") -> None:
        """Append lines that the container has not written."""
        data = text.encode() if isinstance(text, str) else text
        head = b"%s %s F " % (format_stamp(date), stream.encode())
        numbers = numbered_files(self._directory)
        if data and numbers:
            records = [head + line + b"\n" for line in data.removesuffix(b"\n").split(b"\n")]
            with open(file_path(self._directory, numbers[-1]), "ab", buffering=0) as file:
                file.write(b"".join(records))

    def close(self) -> None:
        """End the log: clients that follow it receive the remaining lines and stop."""
        self._closed = True

    def last_lines(self, count: int) -> list[bytes]:
        """Return the last lines of the current file, without line breaks."""
        numbers = numbered_files(self._directory)
        if not numbers:
            return []
        with open(file_path(self._directory, numbers[-1]), "rb", buffering=0) as file:
            file.seek(_tail_position(file.fileno(), count))
            records = file.read().removesuffix(b"\n")
        text = _Selection(LogOptions()).select(records) if records else b""
        return text.removesuffix(b"\n").split(b"\n") if text else []

    async def read(self, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield the selected lines; with `follow`, also those that are written later."""
        selection = _Selection(options)
        left = options.limit_bytes
        async for records in self._records(options):
            data = selection.select(records)
            if left is not None:
                data, left = data[:left], left - len(data)
            if data:
                yield data
            if left is not None and left <= 0:
                return

    async def _records(self, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield complete records of the current file and, with `follow`, of the files after it."""
        number, file, rest = 0, -1, b""
        interval = FOLLOW_SECONDS[0]
        try:
            while True:
                # Before the file is read: at its end, all that was written to it until now has been read.
                is_closed = self._closed
                newer = [each for each in numbered_files(self._directory) if each > number]
                if file >= 0 and (data := os.read(file, CHUNK)):
                    records, newline, rest = (rest + data).rpartition(b"\n")
                    interval = FOLLOW_SECONDS[0]
                    if newline:
                        yield records
                    await asyncio.sleep(0)
                elif newer and (file < 0 or options.follow):
                    if file >= 0:
                        os.close(file)
                    # First the current file, then the oldest of those that were not read yet.
                    number, rest = newer[0] if number else newer[-1], b""
                    file = self._open(number)
                    if file >= 0 and options.tail_lines is not None:
                        os.lseek(file, _tail_position(file, options.tail_lines), os.SEEK_SET)
                        options = replace(options, tail_lines=None)
                elif is_closed or not options.follow:
                    return
                else:
                    await asyncio.sleep(interval)
                    interval = min(interval * 1.5, FOLLOW_SECONDS[1])
        finally:
            if file >= 0:
                os.close(file)

    def _open(self, number: int) -> int:
        """Open a file; return -1 if it was deleted."""
        try:
            return os.open(file_path(self._directory, number), os.O_RDONLY)
        except FileNotFoundError:
            return -1


class _Selection:
    """Selects and formats records."""

    def __init__(self, options: LogOptions) -> None:
        self._since = format_stamp(options.since) if options.since is not None else b""
        self._stream = b"" if options.stream == "All" else options.stream.lower().encode()
        self._timestamps = options.timestamps
        self._continues = False
        """Whether the last record was the beginning of a line."""

    def select(self, records: bytes) -> bytes:
        """Return the selected lines of records, which are separated by line breaks."""
        lines = []
        for record in records.split(b"\n"):
            parts = record.split(b" ", 3)
            if len(parts) < 4 or len(parts[0]) != _STAMP_LENGTH:
                # A record that was cut, for example by a full disk.
                lines.append(record + b"\n")
                continue
            stamp, stream, tag, text = parts
            if stamp < self._since or (self._stream and stream != self._stream):
                continue
            if self._timestamps and not self._continues:
                lines.append(stamp + b" ")
            self._continues = tag == b"P"
            lines.append(text if self._continues else text + b"\n")
        return b"".join(lines)


def _tail_position(descriptor: int, lines: int) -> int:
    """Return the position of the last lines of a file."""
    end = os.fstat(descriptor).st_size
    # The line break at the end of the last line is not the one before it.
    position, missing = end, lines + 1
    while position > 0:
        start = max(0, position - CHUNK)
        block = os.pread(descriptor, position - start, start)
        count = block.count(b"\n")
        if count >= missing:
            found = len(block)
            for _ in range(missing):
                found = block.rfind(b"\n", 0, found)
            return start + found + 1
        missing -= count
        position = start
    return 0 if lines else end
