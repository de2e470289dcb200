"""The highest acknowledged revision, in a file beside the database.

The mark is written after every commit and before the writers receive their responses. SQLite repairs a
damaged write-ahead log by discarding its end, silently; a database whose revision is below the mark has
lost acknowledged changes. The mark is flushed to the disk once a second and when the store is closed: after
a loss of power it may be older than the database, never newer. It is flushed when it is created, so that a
database that was opened for writing has one.
"""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from pathlib import Path

from kubewright.storage.contract import StorageError

_FLUSH_INTERVAL = 1.0
"""Seconds between flushes to the disk."""


class HighWaterMark:
    """A file that holds one revision and its checksum."""

    def __init__(self, path: Path, *, fsync: bool = True) -> None:
        self.path = path
        self._fsync = fsync
        self._file: int | None = None
        self._flushed = 0.0

    def read(self) -> int | None:
        """Return the revision, `None` if the file does not exist. Raises `StorageError` if it is damaged."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot read {self.path}: {error.strerror}") from error
        if not text:
            return None
        digits, _, checksum = text.partition(b" ")
        if checksum.strip() != _checksum(digits):
            raise StorageError(
                f"the high-water mark {self.path} is damaged; check the database with "
                "'kubewright backup', then delete the mark or start with --accept-data-loss"
            )
        return int(digits)

    def create(self, revision: int) -> bool:
        """Record a revision and flush the file and its directory; returns whether that succeeded."""
        self.write(revision)
        try:
            if self._file is None or os.fstat(self._file).st_size == 0:
                return False
            if self._fsync:
                os.fsync(self._file)
                directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    os.fsync(directory)
                finally:
                    os.close(directory)
        except OSError:
            return False
        return True

    def write(self, revision: int) -> None:
        """Record a revision. A mark that cannot be written stays lower: detection is weaker, not wrong."""
        digits = b"%020d" % revision
        with contextlib.suppress(OSError):
            if self._file is None:
                self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.pwrite(self._file, digits + b" " + _checksum(digits) + b"\n", 0)
            now = time.monotonic()
            if self._fsync and now - self._flushed >= _FLUSH_INTERVAL:
                self._flushed = now
                os.fdatasync(self._file)

    def close(self) -> None:
        """Flush the mark and close the file."""
        if self._file is not None:
            if self._fsync:
                with contextlib.suppress(OSError):
                    os.fsync(self._file)
            os.close(self._file)
            self._file = None


def _checksum(digits: bytes) -> bytes:
    return b"%08x" % zlib.crc32(digits)
