"""Writes the output of a container to files, in the format of container runtimes.

    2026-11-16T19:13:00.123456789Z stdout F a complete line
    2026-11-16T19:13:00.123456789Z stdout P the beginning of a long line, which the next record continues

The files of one run of a container are numbered; the highest number is the current file. A file that would
exceed the maximum size is followed by the next one, and the oldest are deleted, so that the bytes of a log
never exceed size times number. Used by the supervisor of a container, so it imports little.
"""

from __future__ import annotations

import os
import time

MAX_RECORD = 16 * 1024
"""A line without an end is written in parts of at least this many bytes."""


def timestamp(nanoseconds: int) -> bytes:
    """Return a date with nine digits of the second, so that dates compare as texts."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode() + b".%09dZ" % rest


def numbered_files(directory: str) -> list[int]:
    """Return the numbers of the files of a log, ascending."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    return sorted(int(name[:-4]) for name in names if name.endswith(".log") and name[:-4].isdecimal())


def file_path(directory: str, number: int) -> str:
    """Return the path of a file of a log."""
    return f"{directory}/{number}.log"


class LogWriter:
    """The files of one run of a container. Output that cannot be written (full disk) is lost."""

    def __init__(self, directory: str, max_size: int, max_files: int) -> None:
        self._directory = directory
        self._max_size, self._max_files = max_size, max_files
        self._number = 0
        self._file = -1
        self._partial: dict[str, bytes] = {}

    def write(self, data: bytes, stream: str) -> None:
        """Add output of a stream; a line is written when it is complete, or long."""
        lines, newline, rest = (self._partial.get(stream, b"") + data).rpartition(b"\n")
        head = b"%s %s " % (timestamp(time.time_ns()), stream.encode())
        record = b""
        if newline:
            full = head + b"F "
            record = full + lines.replace(b"\n", b"\n" + full) + b"\n"
        if len(rest) >= MAX_RECORD:
            record += head + b"P " + rest + b"\n"
            rest = b""
        self._partial[stream] = rest
        if record:
            self._append(record)

    def close(self) -> None:
        """Write the last lines, if they have no end."""
        for stream, rest in self._partial.items():
            if rest:
                self._append(b"%s %s F %s\n" % (timestamp(time.time_ns()), stream.encode(), rest))
        self._partial.clear()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _append(self, records: bytes) -> None:
        while records:
            end = len(records)
            if end > self._max_size:
                end = records.rfind(b"\n", 0, self._max_size) + 1 or self._max_size
            try:
                self._write(records[:end])
            except OSError:
                return
            records = records[end:]

    def _write(self, records: bytes) -> None:
        # The size is read, because the server appends to the file, too.
        if self._file < 0 or os.fstat(self._file).st_size + len(records) > self._max_size:
            self._rotate()
        while records:
            records = records[os.write(self._file, records) :]

    def _rotate(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._number += 1
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        self._file = os.open(file_path(self._directory, self._number), flags, 0o600)
        for number in numbered_files(self._directory)[: -self._max_files]:
            os.unlink(file_path(self._directory, number))
