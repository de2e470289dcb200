"""Audit events in a file, one per line, with rotation.

A file that would grow over the maximum size is renamed to `NAME-TIME.EXT`; old files are deleted by number
and age, and compressed if configured. Lines are written with one system call each, so that a line is complete
or missing after a crash.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import logging
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kubewright.api.values.times import wall_time

from .event import AuditEvent

logger = logging.getLogger("kubewright.apiserver.audit")

FORMATS: Final = ("json", "legacy")
_MEGABYTE = 1024 * 1024
_DAY = 86_400.0
_TIME = "%Y-%m-%dT%H-%M-%S"


class LogBackend:
    """Writes events to a file, or to the standard output with the path `-`."""

    name = "log"

    def __init__(
        self,
        path: str | Path,
        *,
        format: str = "json",
        max_size: float = 100,
        max_backups: int = 0,
        max_age: int = 0,
        compress: bool = False,
        clock: Callable[[], float] = wall_time,
    ) -> None:
        """`max_size` is in megabytes, `max_age` in days; 0 means 100 megabytes, and no other limit."""
        if format not in FORMATS:
            raise ValueError(f"invalid audit log format {format}, allowed formats are {', '.join(FORMATS)}")
        for option, value in (("age", max_age), ("backups", max_backups), ("size", max_size)):
            if value < 0:
                raise ValueError(f"the maximum {option} of the audit log {value} can't be a negative number")
        self._path = Path(path)
        self._format = format
        self._limit = int((max_size or 100) * _MEGABYTE)
        self._max_backups = max_backups
        self._max_age = max_age
        self._compress = compress
        self._clock = clock
        self._file: int | None = None
        self._size = 0
        self._cleaning: asyncio.Future[None] | None = None
        self._rotated_at: float | None = None
        """Time of the last rotation during the current cleanup, which may not have seen its file."""

    async def start(self) -> None:
        """Open the file; raises `OSError`."""
        self._open()

    async def stop(self) -> None:
        """Close the file."""
        while self._cleaning is not None:
            await asyncio.wait({self._cleaning})
        if self._file is not None and self._file != sys.stdout.fileno():
            os.close(self._file)
        self._file = None

    def process(self, events: Sequence[AuditEvent]) -> bool:
        """Write events; false if the file cannot be written."""
        lines = [event.encode() if self._format == "json" else event.to_text().encode() for event in events]
        data = b"\n".join(lines) + b"\n"
        try:
            self._write(data)
        except OSError as error:
            logger.error(
                "cannot write audit log",
                extra={"path": str(self._path), "error": error.strerror or str(error)},
            )
            return False
        return True

    def _open(self) -> None:
        if str(self._path) == "-":
            self._file = sys.stdout.fileno()
            self._limit = sys.maxsize
            return
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._file).st_size

    def _write(self, data: bytes) -> None:
        if self._file is None:
            self._open()
        if self._size and self._size + len(data) > self._limit:
            self._rotate()
        assert self._file is not None
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            if len(rest) < len(data) and self._limit != sys.maxsize:
                # The next line must not continue a line that is not complete.
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, self._size)
            raise
        self._size += len(data)

    def _rotate(self) -> None:
        """Rename the file, open a new one, and delete old ones in a thread."""
        assert self._file is not None
        now = self._clock()
        moment = datetime.fromtimestamp(now, UTC)
        stamp = f"{moment.strftime(_TIME)}.{moment.microsecond // 1000:03d}"
        target = self._path.with_name(f"{self._path.stem}-{stamp}{self._path.suffix}")
        try:
            os.rename(self._path, target)
        except OSError as error:
            logger.error(
                "cannot rotate audit log",
                extra={"path": str(self._path), "error": error.strerror or str(error)},
            )
            if not isinstance(error, FileNotFoundError):
                return
        file, self._file = self._file, None
        os.close(file)
        self._open()
        if self._cleaning is None:
            self._start_cleaning(now)
        else:
            self._rotated_at = now

    def _start_cleaning(self, now: float) -> None:
        self._cleaning = asyncio.get_running_loop().run_in_executor(None, self._clean, now)
        self._cleaning.add_done_callback(self._cleaned)

    def _cleaned(self, cleaning: asyncio.Future[None]) -> None:
        self._cleaning = None
        rotated_at, self._rotated_at = self._rotated_at, None
        if rotated_at is not None and not cleaning.cancelled():
            self._start_cleaning(rotated_at)

    def backups(self) -> list[Path]:
        """Return the rotated files, the newest first."""
        return [path for _, path in self._backups()]

    def _backups(self) -> list[tuple[float, Path]]:
        """Return the rotated files and when they were rotated, which their names say, the newest first."""
        stem, suffix = self._path.stem, self._path.suffix
        found = []
        for path in self._path.parent.glob(f"{stem}-*{suffix}*"):
            text = path.name.removesuffix(".gz").removesuffix(suffix).removeprefix(f"{stem}-")
            try:
                moment = datetime.strptime(text.partition(".")[0], _TIME).replace(tzinfo=UTC)
            except ValueError:
                continue
            found.append((moment.timestamp(), path))
        return sorted(found, key=lambda each: each[1].name, reverse=True)

    def _clean(self, now: float) -> None:
        """Delete and compress rotated files."""
        try:
            for position, (rotated_at, path) in enumerate(self._backups()):
                old = self._max_age and now - rotated_at > self._max_age * _DAY
                if old or (self._max_backups and position >= self._max_backups):
                    path.unlink()
                elif self._compress and path.suffix != ".gz":
                    _compress(path)
        except OSError as error:
            logger.error(
                "cannot clean up audit logs",
                extra={"path": str(self._path.parent), "error": error.strerror or str(error)},
            )


def _compress(path: Path) -> None:
    target = path.with_name(path.name + ".gz")
    with path.open("rb") as source, gzip.open(target, "wb") as file:
        shutil.copyfileobj(source, file)
    shutil.copystat(path, target)
    path.unlink()
