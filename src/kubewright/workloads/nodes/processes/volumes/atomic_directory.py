"""Files that change together, as in volumes of ConfigMaps and Secrets.

    ..data -> ..2026_11_15_12_00_00.000000001      replaced by one rename
    key    -> ..data/key

Programs that watch `..data`, or read files while they change, see either all old or all new files.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

DATA: Final = "..data"
_NEW_DATA: Final = "..data_tmp"


class FileContent(NamedTuple):
    """Content and mode of one file."""

    data: bytes
    mode: int = 0o644


class AtomicDirectory:
    """A directory whose files are replaced together."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: dict[str, FileContent] | None = None

    def write(self, files: Mapping[str, FileContent]) -> bool:
        """Replace the files, by relative path; return whether something has changed."""
        if self._files == files:
            return False
        self.path.mkdir(mode=0o755, parents=True, exist_ok=True)
        os.chmod(self.path, 0o755)  # noqa: S103 - as in a container
        stamp = datetime.now(UTC).strftime("..%Y_%m_%d_%H_%M_%S.")
        folder = Path(tempfile.mkdtemp(prefix=stamp, dir=self.path))
        os.chmod(folder, 0o755)  # noqa: S103
        for name, content in files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.data)
            file.chmod(content.mode)
        data, new = self.path / DATA, self.path / _NEW_DATA
        old = self.path / os.readlink(data) if data.is_symlink() else None
        new.unlink(missing_ok=True)
        new.symlink_to(folder.name)
        new.replace(data)
        self._link({name.split("/", 1)[0] for name in files})
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)
        self._files = dict(files)
        return True

    def _link(self, names: set[str]) -> None:
        """Create and remove the visible links."""
        for name in names:
            link = self.path / name
            if not link.is_symlink():
                link.symlink_to(f"{DATA}/{name}")
        for entry in list(self.path.iterdir()):
            if not entry.name.startswith("..") and entry.name not in names and entry.is_symlink():
                entry.unlink()
