"""Cgroups of containers, where this process can create them: the kernel kills all processes of one together.

Only version 2 is used, below the cgroup of this process. Without it, or without permission, the supervisors
of containers find the processes.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from .process_tree import remove_cgroup, write_file

PREFIX: Final = "kubewright-"


def own_cgroup() -> Path | None:
    """Return the directory of the cgroup of this process; `None` without version 2."""
    try:
        groups = Path("/proc/self/cgroup").read_text().splitlines()
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return None
    path = next((line[3:] for line in groups if line.startswith("0::")), None)
    for line in mounts:
        fields, _, source = line.partition(" - ")
        if path is not None and source.startswith("cgroup2 "):
            root, mounted = fields.split()[3:5]
            below = os.path.relpath(path, root)
            return None if below.startswith("..") else Path(mounted, below)
    return None


def create_cgroup(name: str) -> Path | None:
    """Create a cgroup for the containers of a run; return `None` if that is not possible."""
    parent = own_cgroup()
    if parent is None:
        return None
    path = parent / f"{PREFIX}{name}"
    try:
        path.mkdir()
    except OSError:
        return None
    # Since Linux 5.14.
    if (path / "cgroup.kill").exists():
        return path
    path.rmdir()
    return None


def end_cgroup(path: Path) -> None:
    """Kill the processes of a cgroup that `create_cgroup` has returned, and remove it."""
    if not path.name.startswith(PREFIX) or not (path / "cgroup.kill").exists():
        return
    write_file(str(path / "cgroup.kill"), "1")
    with contextlib.suppress(OSError):
        for child in [each for each in path.iterdir() if each.is_dir()]:
            remove_cgroup(str(child))
    remove_cgroup(str(path))
