"""`StateDirectory`: the files of all containers, and what an earlier run has left behind.

The directory of a run is named after its process. The supervisors of containers end with this process and
kill the processes of their containers. If a supervisor was killed as well, the processes are found by their
cgroup, where containers have one, and by a variable with the directory of their container.

Cgroups of containers, where this process can create them: the kernel kills all processes of one together.
Only version 2 is used, below the cgroup of this process. Without it, or without permission, the supervisors
of containers find the processes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .process_tree import remove_cgroup, write_file

logger = logging.getLogger(__name__)

VARIABLE: Final = "KUBEWRIGHT_STATE_DIRECTORY"
"""The variable with the directory of their container, in all processes of containers."""
_CGROUP_FILE: Final = "cgroup"


class StateDirectory:
    """A directory that exists as long as the runtime. Only its user can read it."""

    def __init__(self, parent: Path | None = None) -> None:
        """`parent` is a directory per user below /var/tmp unless given."""
        # Not in /tmp, which pods often mount a volume to.
        base = Path("/var/tmp") if os.path.isdir("/var/tmp") else Path(tempfile.gettempdir())  # noqa: S108
        self.parent = parent if parent is not None else base / f"kubewright-{os.getuid()}"
        self.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.parent.stat().st_uid != os.getuid():
            raise PermissionError(f"{self.parent} belongs to another user; remove it")
        owner = f"{os.getpid()}.{_start_time(os.getpid())}.{_process_namespace()}."
        self.path = Path(tempfile.mkdtemp(prefix=owner, dir=self.parent))
        self.scratch = self.path / "root"
        """Mount point of the root directories of containers, in their mount namespaces."""
        self.scratch.mkdir()
        self._cgroup = create_cgroup(self.path.name)
        if self._cgroup is not None:
            (self.path / _CGROUP_FILE).write_text(str(self._cgroup))

    def remove_stale(self) -> None:
        """Kill the processes and delete the files of runs that have ended without `close`."""
        for folder in list(self.parent.iterdir()):
            parts = folder.name.split(".")
            if len(parts) != 4 or not parts[0].isdecimal() or parts[2] != _process_namespace():
                continue
            if _is_running(int(parts[0]), parts[1]):
                continue
            with contextlib.suppress(OSError):
                end_cgroup(Path((folder / _CGROUP_FILE).read_text()))
            killed = kill_processes(folder)
            logger.info(
                "removed containers of an earlier run", extra={"directory": str(folder), "processes": killed}
            )
            _remove(folder)

    def pod(self, uid: str) -> Path:
        """Return the directory of a pod."""
        return self.path / "pods" / uid

    def container(self, uid: str, name: str) -> Path:
        """Return the directory of a container, the home and working directory of its processes."""
        return self.pod(uid) / "containers" / name

    def log(self, uid: str, name: str, attempt: int) -> Path:
        """Return the directory of the log files of one run of a container."""
        return self.pod(uid) / "logs" / name / str(attempt)

    def cgroup(self, name: str) -> str:
        """Return the cgroup of a container; empty without cgroups."""
        return str(self._cgroup / name) if self._cgroup is not None else ""

    def remove_log(self, uid: str, name: str, attempt: int) -> None:
        """Delete the log files of one run of a container."""
        shutil.rmtree(self.log(uid, name, attempt), ignore_errors=True)

    def remove_pod(self, uid: str) -> None:
        """Delete the files of a pod."""
        _remove(self.pod(uid))

    def close(self) -> None:
        """Kill the processes that are left and delete all files."""
        if self._cgroup is not None:
            end_cgroup(self._cgroup)
        kill_processes(self.path)
        _remove(self.path)


def kill_processes(directory: Path) -> int:
    """Kill the processes of the containers below a directory; return their number."""
    wanted = f"\0{VARIABLE}={directory}/".encode()
    killed: set[int] = set()
    while True:
        # Repeated, because a process may start another one in the meantime.
        found = set()
        for process in _processes():
            with contextlib.suppress(OSError):
                if wanted in b"\0" + Path(f"/proc/{process}/environ").read_bytes().replace(b"\0", b"/\0"):
                    os.kill(process, signal.SIGKILL)
                    found.add(process)
        if found <= killed:
            return len(killed)
        killed |= found


def _processes() -> Iterator[int]:
    with contextlib.suppress(OSError):
        yield from (int(name) for name in os.listdir("/proc") if name.isdecimal())


def _start_time(process: int) -> str:
    """Return the start time of a process, which tells processes of one number apart; 0 if not known."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "0"


def _process_namespace() -> str:
    """Return the namespace of process numbers; those of another container have another meaning."""
    try:
        return "".join(sign for sign in os.readlink("/proc/self/ns/pid") if sign.isdecimal())
    except OSError:
        return "0"


def _is_running(process: int, started: str) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _start_time(process) == started


def _remove(folder: Path) -> None:
    # Volumes may contain directories without write permission.
    for parent, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):
            os.chmod(parent, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


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
