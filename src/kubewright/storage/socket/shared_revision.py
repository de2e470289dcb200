"""A revision that several processes of a machine share.

The value is an aligned 64-bit integer in a file that each process maps into its memory. One process writes
it; a read or write is one machine instruction, so no reader sees a part of a write.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path


class SharedRevision:
    """The mapped file; `cell[0]` is the value."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL if create else os.O_RDONLY
        descriptor = os.open(path, flags, 0o600)
        try:
            if create:
                os.ftruncate(descriptor, mmap.PAGESIZE)
            access = mmap.ACCESS_WRITE if create else mmap.ACCESS_READ
            self._map = mmap.mmap(descriptor, mmap.PAGESIZE, access=access)
        finally:
            os.close(descriptor)
        self._bytes = memoryview(self._map)
        self.cell: memoryview[int] = self._bytes.cast("Q")

    def close(self) -> None:
        """Remove the mapping; `cell` cannot be used afterwards."""
        self.cell.release()
        self._bytes.release()
        self._map.close()
