"""Sets up the mount namespace of a container, and executes its command, in a child of the supervisor.

Only the standard library is used, and little of it: the program starts with every container.

A mount path that exists is covered by the volume. For one that does not exist, the directories above it are
replaced by directories in memory with the same content, so that the path can be created without changing the
file system of the machine.
"""

from __future__ import annotations

import ctypes
import os
import signal
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:  # the module typing takes longer to import than all others here
    from typing import Any, TypeAlias

    Mount: TypeAlias = dict[str, Any]
    Spec: TypeAlias = dict[str, Any]


CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWUSER = 0x00020000, 0x04000000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x1, 0x20, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
PR_SET_PDEATHSIG = 1
TIOCSCTTY = 0x540E
DEVICES = frozenset(
    (
        *("null", "zero", "full", "random", "urandom", "tty", "ptmx", "console", "pts", "shm", "mqueue"),
        *("fd", "stdin", "stdout", "stderr"),
    )
)
"""The entries of /dev in a container, if a volume is mounted below it."""

_libc = ctypes.CDLL(None, use_errno=True)


def _call(function: str, *arguments: object) -> None:
    if getattr(_libc, function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """Call mount(2)."""
    texts = [text.encode() if text is not None else None for text in (source, target, kind)]
    _call("mount", *texts, ctypes.c_ulong(flags), options.encode() if options is not None else None)


def bind(source: str, target: str) -> None:
    """Show a file or directory at another path, with the file systems below it."""
    mount(source, target, None, MS_BIND | MS_REC)


def make_readonly(target: str) -> None:
    """Make a bind mount read-only; nosuid, nodev, noexec and noatime, which may be locked, are kept."""
    kept = os.statvfs(target).f_flag & (2 | 4 | 8 | 1024 | 2048)
    mount(None, target, None, MS_BIND | MS_REMOUNT | MS_RDONLY | kept)


def unshare(*, user: bool) -> None:
    """Enter new namespaces for mounts and the host name and, with `user`, one for users that allows them."""
    uid, gid = os.geteuid(), os.getegid()
    _call("unshare", (CLONE_NEWUSER if user else 0) | CLONE_NEWNS | CLONE_NEWUTS)
    if user:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    mount(None, "/", None, MS_REC | MS_PRIVATE)


def create_root(scratch: str, mounts: list[Mount]) -> None:
    """Make a root directory of the machine's directories and the mounts, and change to it."""
    mount("kubewright", scratch, "tmpfs", 0, "mode=755")
    targets: list[tuple[str, Mount]] = []
    expanded = {"/"}
    for each in mounts:
        target = os.path.realpath(each["target"])
        targets.append((target, each))
        above = target
        while not os.path.lexists(above):
            above = os.path.dirname(above)
            if os.path.isdir(above):
                while above != "/":
                    expanded.add(above)
                    above = os.path.dirname(above)
    _copy_entries("/", scratch, expanded)
    for target, each in sorted(targets, key=lambda pair: len(pair[0])):
        path = scratch + target
        _create(path, directory=os.path.isdir(each["source"]))
        bind(each["source"], path)
        if each.get("readonly"):
            try:
                make_readonly(path)
            except OSError:
                pass
    os.chdir(scratch)
    _call("pivot_root", b".", b".")
    _call("umount2", b".", MNT_DETACH)
    os.chdir("/")


def _copy_entries(directory: str, copy: str, expanded: set[str]) -> None:
    for name in os.listdir(directory):
        path, target = os.path.join(directory, name), os.path.join(copy, name)
        if directory == "/dev" and name not in DEVICES:
            continue
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(path), target)
        elif path in expanded:
            os.mkdir(target)
            _copy_entries(path, target, expanded)
        else:
            _create(target, directory=stat.S_ISDIR(mode))
            try:
                bind(path, target)
            except OSError:
                pass


def _create(path: str, *, directory: bool) -> None:
    if os.path.lexists(path):
        return
    os.makedirs(path if directory else os.path.dirname(path), exist_ok=True)
    if not directory:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o666))


def join(process: int, *, user: bool) -> None:
    """Enter the namespaces of the main process of a container."""
    names = ("user", "uts", "mnt") if user else ("uts", "mnt")
    files = [os.open(f"/proc/{process}/ns/{name}", os.O_RDONLY) for name in names]
    for file in files:
        _call("setns", file, 0)
        os.close(file)


def find_program(name: str, path: str) -> str:
    """Return the path of a program; raise `OSError` with the message of a container runtime."""
    if "/" in name:
        if not os.path.exists(name):
            raise OSError(f'exec: "{name}": stat {name}: no such file or directory')
        candidates = [name]
    else:
        candidates = [os.path.join(each or ".", name) for each in path.split(":")]
    for candidate in candidates:
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    if "/" in name:
        raise OSError(f'exec: "{name}": permission denied')
    raise OSError(f'exec: "{name}": executable file not found in $PATH')


def launch(spec: Spec, parent: int) -> None:
    """Set up the namespace and execute the command; returns only by an exception.

    `spec` has the fields of `launch.LaunchSpec`. The process ends with `parent`.
    """
    user = spec["namespaces"] == "user"
    if spec["join"]:
        join(spec["join"], user=user)
    elif spec["namespaces"]:
        unshare(user=user)
        hostname = spec["hostname"].encode()
        _call("sethostname", hostname, len(hostname))
        create_root(spec["scratch"], spec["mounts"])
    if spec["tty"]:
        import fcntl

        fcntl.ioctl(0, TIOCSCTTY, 0)
    try:
        os.chdir(spec["directory"])
    except OSError as error:
        raise OSError(f'chdir to cwd ("{spec["directory"]}"): {error.strerror}') from None
    # After the namespaces: a change of credentials clears the signal.
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(137)
    environment = spec["environment"]
    program = find_program(spec["command"][0], environment.get("PATH", os.defpath))
    os.umask(0o022)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(program, spec["command"], environment)  # noqa: S606
    except OSError as error:
        raise OSError(f'exec: "{program}": {error.strerror}') from None
