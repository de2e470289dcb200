"""The descendants of a process, and their cgroup. Used by supervisors, so it imports little."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def become_subreaper() -> None:
    """Adopt orphaned descendants, and receive a signal when the server ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def signal_descendants(number: int, seen: set[int]) -> bool:
    """Send a signal to all descendants that are not in `seen`; return whether there were any."""
    found = False
    parents = [os.getpid()]
    while parents:
        parent = parents.pop()
        for child in children_of(parent):
            if child not in seen:
                found = True
                seen.add(child)
                try:
                    os.kill(child, number)
                except OSError:
                    pass
            parents.append(child)
    return found


def children_of(process: int) -> list[int]:
    """Return the children of a process."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/children", "rb") as file:
                found.extend(int(each) for each in file.read().split())
    except OSError as error:
        if error.errno == errno.ENOENT and os.path.exists(f"/proc/{process}/stat"):
            return _children_by_scan(process)
    return found


def _children_by_scan(process: int) -> list[int]:
    """Return the children of a process, on kernels without lists of children."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat") as file:
                    if int(file.read().rpartition(")")[2].split()[1]) == process:
                        found.append(int(name))
            except OSError:
                pass
    return found


def write_file(path: str, text: str) -> None:
    """Write to a file of the kernel; errors are ignored."""
    try:
        file = os.open(path, os.O_WRONLY)
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)
    except OSError:
        pass


def remove_cgroup(path: str) -> None:
    """Remove a cgroup whose processes have been killed; the kernel may still end them."""
    for _ in range(100):
        try:
            os.rmdir(path)
            return
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.01)
