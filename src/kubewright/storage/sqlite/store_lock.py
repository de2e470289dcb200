"""The lock of a SQLite store: one server at a time has the file open.

Two files are locked: one beside the database, which contains the ID of the process for error messages, and
the database itself, so that deleting the first does not let a second server start. Where the directory cannot
be written there is nothing to lock; the lock is acquired when a write is possible later.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from contextlib import suppress
from pathlib import Path

from kubewright.storage.contract import StorageError

_open_files: set[tuple[int, int]] = set()
"""Device and inode of the databases that this process has open. Locks do not exclude the same process, and
closing a second descriptor would drop the locks that SQLite holds."""


class StoreInUse(StorageError):
    """Another server has the file open."""


class StoreLock:
    """The lock of a database file, held by this process from `acquire` to `release`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: int | None = None
        self._database_lock: int | None = None
        self._identity: tuple[int, int] | None = None

    @property
    def is_held(self) -> bool:
        """Whether the lock file is locked."""
        return self._lock is not None

    def acquire(self) -> None:
        """Lock the file, unless it cannot be written; raises `StoreInUse`."""
        lock = self._path.with_name(self._path.name + ".lock")
        try:
            self._lock = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno == errno.EROFS or (error.errno == errno.EACCES and self._path.exists()):
                return  # The file cannot be written here, so that there is nothing to lock.
            raise StorageError(f"cannot open the store {self._path}: {error.strerror} ({lock})") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.lock_database()
        except BlockingIOError as error:
            owner = os.read(self._lock, 32).decode(errors="replace").strip()
            os.close(self._lock)
            self._lock = None
            by = f" by process {owner}" if owner else ""
            raise StoreInUse(
                f"the store {self._path} is already in use{by}: stop that server, or use another path"
            ) from error
        with suppress(OSError):  # On a full disk the lock holds too, only without the ID of its owner.
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)

    def lock_database(self) -> None:
        """Lock the database itself, also after it was replaced by another file.

        Only Linux has `flock` locks that do not interfere with the locks of SQLite.
        """
        self._unlock_database()
        make_private(self._path)
        try:
            status = self._path.stat()
        except OSError:
            return  # SQLite reports the reason.
        identity = (status.st_dev, status.st_ino)
        if identity in _open_files:
            raise BlockingIOError(errno.EWOULDBLOCK, "open in this process")
        if sys.platform == "linux":
            try:
                descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                raise
            self._database_lock = descriptor
        _open_files.add(identity)
        self._identity = identity

    def _unlock_database(self) -> None:
        if self._database_lock is not None:
            os.close(self._database_lock)
            self._database_lock = None
        if self._identity is not None:
            _open_files.discard(self._identity)
            self._identity = None

    def release(self) -> None:
        """Unlock both files."""
        self._unlock_database()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def make_private(path: Path) -> None:
    """Create a new file readable by its owner only; SQLite gives the files beside it the same mode."""
    with suppress(OSError):  # It exists, or SQLite reports the reason.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
