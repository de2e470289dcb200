"""Write rendered files, and report what was done."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kubewright

from .errors import ScaffoldError
from .lock import LOCK_FILE, GeneratedFile, ScaffoldLock
from .source.python_edits import extend_source


@dataclass
class Changes:
    """The files that a command created, changed and kept, relative to the directory of the project."""

    directory: Path
    created: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    next: list[str] = field(default_factory=list)
    """Commands to run next."""

    def to_json(self) -> dict[str, Any]:
        """Return the changes as JSON."""
        return {
            "directory": str(self.directory),
            "created": self.created,
            "changed": self.changed,
            "removed": self.removed,
            "kept": self.kept,
            "moved": self.moved,
            "warnings": self.warnings,
            "next": self.next,
        }


class FileWriter:
    """Collects the files of one command, then writes all of them and the lock.

    Nothing is written before `commit`, so that an error leaves the project as it was.
    """

    def __init__(self, directory: Path, lock: ScaffoldLock) -> None:
        self.directory = directory
        self.lock = lock
        self.changes = Changes(directory)
        self._texts: dict[str, str] = {}
        self._deleted: list[str] = []

    def read(self, name: str) -> str | None:
        """Return the text of a file as it will be, or `None`."""
        if name in self._texts:
            return self._texts[name]
        path = self.directory / name
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise ScaffoldError(f"cannot read {name}: {error}") from None

    def create(self, name: str, text: str, templates: str) -> None:
        """Add a file that must not exist."""
        if self.read(name) is not None:
            raise ScaffoldError(f"{name} already exists; nothing was written")
        self._record(name, text, templates)
        self._texts[name] = text
        self.changes.created.append(name)

    def keep_or_create(self, name: str, text: str, templates: str) -> None:
        """Add a file unless it exists."""
        if self.read(name) is not None:
            self.changes.kept.append(name)
        else:
            self.create(name, text, templates)

    def extend(self, name: str, text: str, templates: str) -> None:
        """Add a module, or the imports and definitions of `text` that an existing module does not have."""
        existing = self.read(name)
        if existing is None:
            self.create(name, text, templates)
            return
        base = self.lock.files.get(name)
        if base is not None:
            self._record(name, self._extend(base.base, name, text), templates)
        self.replace(name, self._extend(existing, name, text))

    def _extend(self, existing: str, name: str, text: str) -> str:
        return extend_source(existing, text, name=name, first_party=self.lock.project.package)

    def replace(self, name: str, text: str) -> None:
        """Change the text of an existing file."""
        if text == self.read(name):
            return
        self._texts[name] = text
        if name not in self.changes.created and name not in self.changes.changed:
            self.changes.changed.append(name)

    def replace_base(self, name: str, text: str) -> None:
        """Change the recorded text of a generated file."""
        found = self.lock.files[name]
        self.lock.files[name] = GeneratedFile(found.version, found.templates, text)

    def move(self, old: str, new: str, text: str) -> None:
        """Write a file under another name."""
        if (self.directory / new).exists():
            raise ScaffoldError(f"cannot move {old}: {new} already exists; nothing was written")
        self._texts[new] = text
        self._deleted.append(old)
        self.changes.moved[old] = new
        if old in self.lock.files:
            self.lock.files[new] = self.lock.files.pop(old)

    def delete(self, name: str) -> None:
        """Delete a generated file if the user has not changed it."""
        recorded = self.lock.files.pop(name, None)
        if recorded is not None and recorded.base == self.read(name):
            self._deleted.append(name)

    def _record(self, name: str, text: str, templates: str) -> None:
        self.lock.files[name] = GeneratedFile(kubewright.__version__, templates, text)

    def commit(self, *, with_lock: bool = True) -> Changes:
        """Write all files, and the lock if the project has one."""
        try:
            for name, text in self._texts.items():
                _write(self.directory / name, text)
            for name in self._deleted:
                path = self.directory / name
                path.unlink()
                if not any(each.name != "__pycache__" for each in path.parent.iterdir()):
                    shutil.rmtree(path.parent)
            if with_lock:
                _write(self.directory / LOCK_FILE, self.lock.render())
        except OSError as error:
            raise ScaffoldError(f"cannot write {error.filename}: {error.strerror}") from None
        return self.changes


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():  # write the target, and keep the link
        path = path.resolve()
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
