"""`SpilledStore`: a store whose objects are in a file instead of in memory.

    operator.settings.kinds[Widget] = KindOptions(spill="/var/cache/operator")

Memory holds the name, the revision and the position of each object; a read reads its bytes from the file,
usually from the page cache of the kernel, which the kernel can drop when memory is short. Index values stay
in memory.

The file is private to the process: it has mode 0600 and is unlinked as soon as it is open, so nothing is left
on disk when the process ends, however it ends. Its contents are not needed after a restart, because a cache
begins with a list.

An entry owns its block of the file, which is reused when the last reference to the entry is dropped. So an
entry stays readable as long as it is referenced, also after the store has a newer version. If less than half
of a file is in use, its objects are moved to another file, some with every change.

If a write fails, for example because the disk is full, the object is stored in memory, and the failure is
logged. The next change of the object is written to the file again.
"""

from __future__ import annotations

import errno
import logging
import os
import tempfile
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from kubewright.cache.errors import CacheError

from .store import CacheEntry, ObjectKey, Store

logger = logging.getLogger(__name__)

MIN_COMPACTED_BYTES = 4 << 20
"""Files below this size are not compacted."""
MOVED_PER_CHANGE = 64
"""How many objects are moved to the new file with each change of the store."""
_ALIGNMENT = 64
_SIZE_BITS = 27
"""A location is the number of a 64-byte unit of the file and, in the lower bits, the size of the object."""
_SIZE_MASK = (1 << _SIZE_BITS) - 1
_FILESYSTEMS_IN_MEMORY = ("tmpfs", "ramfs")


class SpillFile:
    """An unlinked temporary file with blocks that are allocated and freed.

    `write` and `read` are called from the event loop's thread, `free` from any thread.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        """Create the file in a directory; by default, in that for temporary files (`TMPDIR`).

        Raises `OSError` if the directory does not exist or is not writable.
        """
        self._fd = -1
        self._fd, path = tempfile.mkstemp(prefix="kubewright-", suffix=".spill", dir=directory)
        os.unlink(path)
        self.size = 0
        """Size of the file in bytes."""
        self.used = 0
        """Bytes of the blocks that are in use."""
        self._free: dict[int, list[int]] = {}
        """Units of free blocks, by the size of the block."""
        self._freed: deque[int] = deque()
        """Locations that were freed since the last call of `reclaim`."""

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def write(self, raw: bytes) -> int:
        """Write an object; return its location. Raises `OSError`, after which the file is unchanged."""
        self.reclaim()
        size = len(raw)
        if size > _SIZE_MASK:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        block = _block_size(size)
        free = self._free.get(block)
        unit = free[-1] if free else self.size // _ALIGNMENT
        if os.pwrite(self._fd, raw, unit * _ALIGNMENT) != size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if free:
            free.pop()
        else:
            self.size += block
        self.used += block
        return unit << _SIZE_BITS | size

    def read(self, location: int) -> bytes:
        """Read an object. Raises `CacheError` if the disk fails."""
        size = location & _SIZE_MASK
        try:
            raw = os.pread(self._fd, size, (location >> _SIZE_BITS) * _ALIGNMENT)
        except OSError as error:
            raise CacheError(f"cannot read a cached object from the spill file: {error}") from error
        if len(raw) != size:
            raise CacheError("cannot read a cached object from the spill file: the file is incomplete")
        return raw

    def free(self, location: int) -> None:
        """Allow the block of an object to be reused."""
        # Only appended, because an entry can be destroyed in any thread, and within `write`.
        self._freed.append(location)

    def reclaim(self) -> None:
        """Make the freed blocks available."""
        freed = self._freed
        while freed:
            location = freed.popleft()
            block = _block_size(location & _SIZE_MASK)
            self._free.setdefault(block, []).append(location >> _SIZE_BITS)
            self.used -= block


def _block_size(size: int) -> int:
    """Return the size of the block for an object: at most an eighth larger, so that few sizes exist."""
    step = max(_ALIGNMENT, 1 << max(0, size.bit_length() - 4))
    return max(1, -(-size // step)) * step


def filesystem_of(directory: str | os.PathLike[str]) -> str:
    """Return the type of the file system of a directory, such as `ext4`; empty if it is not known."""
    device = os.stat(directory).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        mounts = Path("/proc/self/mountinfo").read_text()
    except OSError:
        return ""
    for fields in map(str.split, mounts.splitlines()):
        if fields[2] == number:
            return fields[fields.index("-") + 1]
    return ""


class SpilledEntry(CacheEntry, gc=False, frozen=True, eq=False):
    """An entry whose bytes are in a file."""

    revision: int
    file: SpillFile
    location: int

    @property
    def raw(self) -> bytes:
        """The bytes, read from the file."""
        return self.file.read(self.location)

    @property
    def uid(self) -> str:
        """The uid, decoded from the bytes."""
        return self.header().metadata.uid or ""

    @property
    def size(self) -> int:
        """Number of bytes, without reading them."""
        return self.location & _SIZE_MASK

    def __del__(self) -> None:
        self.file.free(self.location)


class SpilledStore(Store):
    """A store that keeps the bytes of its objects in a file."""

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        """Create the file in a directory; by default, in that for temporary files.

        Raises `CacheError` if that is not possible.
        """
        super().__init__()
        self._directory = Path(directory) if directory is not None else None
        try:
            self._file = SpillFile(self._directory)
        except OSError as error:
            shown = self._directory or tempfile.gettempdir()
            raise CacheError(
                f"cannot create a spill file in {shown}: {error.strerror or error}; "
                "choose a writable directory with KindOptions(spill=...)"
            ) from error
        directory = self._directory or tempfile.gettempdir()
        if (filesystem := filesystem_of(directory)) in _FILESYSTEMS_IN_MEMORY:
            logger.warning(
                "spill directory is in memory, spilled objects save none",
                extra={"directory": str(directory), "filesystem": filesystem},
            )
        self._to_move: Iterator[ObjectKey] | None = None
        """Objects that may still be in an earlier file."""
        self._is_failing = False
        self._can_compact = True

    @property
    def spilled_bytes(self) -> int:
        """Size of the file."""
        return self._file.size

    def put(self, key: ObjectKey, entry: CacheEntry) -> CacheEntry | None:
        """Write an entry to the file; return the previous one. Indexes are computed from memory."""
        old = super().put(key, entry)
        self._namespaces[key.namespace][key.name] = self._written(entry)
        del entry
        self._compact()
        return old

    def pop(self, key: ObjectKey) -> CacheEntry | None:
        """Remove an entry; return it."""
        old = super().pop(key)
        self._compact()
        return old

    def _written(self, entry: CacheEntry) -> CacheEntry:
        """Return an entry in the file, or the same one if it cannot be written."""
        try:
            location = self._file.write(entry.raw)
        except OSError as error:
            if not self._is_failing:
                self._is_failing = True
                logger.warning(
                    "cannot write to the spill file, storing objects in memory",
                    extra={"directory": str(self._directory or ""), "error": str(error)},
                )
            return entry
        if self._is_failing:
            self._is_failing = False
            logger.info("spill file is writable again", extra={"directory": str(self._directory or "")})
        return SpilledEntry(entry.revision, self._file, location)

    def _compact(self) -> None:
        """Move some objects to a new file if most of the current one is not in use."""
        file = self._file
        if self._to_move is None:
            if file.size < MIN_COMPACTED_BYTES:
                return
            file.reclaim()
            if file.used * 2 >= file.size or not self._can_compact:
                return
            try:
                self._file = SpillFile(self._directory)
            except OSError as error:
                self._can_compact = False
                logger.warning(
                    "cannot create another spill file, continuing with the current one",
                    extra={"directory": str(self._directory or ""), "error": str(error)},
                )
                return
            self._to_move = iter([key for key, _ in self.entries()])
        moved = 0
        for key in islice(self._to_move, MOVED_PER_CHANGE):
            moved += 1
            entry = self.get(key)
            if isinstance(entry, SpilledEntry) and entry.file is not self._file:
                self._namespaces[key.namespace][key.name] = self._written(entry)
        if moved < MOVED_PER_CHANGE:
            self._to_move = None
