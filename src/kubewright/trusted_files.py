"""Files that carry trust: whether another user of the machine could have written them.

A store, its high-water mark, a private key or a kubeconfig of an administrator can be trusted as far as every
user who can write it. `check_file` raises `UntrustedFile` unless

- the file belongs to this user or to root (after `sudo`, also to the user who ran it), unless `named`;
- no other user has write permission: not everyone, and not a group with other members;
- no other user can replace it: its directory is not writable by others, unless it is sticky, as /tmp is.

`named` is for files that an administrator names in an option or a configuration: the owner was chosen, as of
files that are mounted into a container. `exclusive` is for files whose presence is a command, such as the
request for a restore: sticky directories, links and directories of other users are rejected, too.

`KUBEWRIGHT_ALLOW_SHARED_FILES=true` disables the checks, except `exclusive` ones. It is for machines where
permissions mean nothing: a container with one user whose files are writable by everyone, or a file system
without owners.
"""

from __future__ import annotations

import errno
import os
import stat
from functools import lru_cache
from pathlib import Path

ALLOW_SHARED_FILES = "KUBEWRIGHT_ALLOW_SHARED_FILES"
"""Environment variable that disables the checks."""


class UntrustedFile(PermissionError):
    """Another user could have written a file; `strerror` has the reason and the remedy."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(errno.EPERM, reason, str(path))

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


def check_file(path: str | os.PathLike[str], *, named: bool = False, exclusive: bool = False) -> None:
    """Raise `UntrustedFile` if another user could have written the file; one that does not exist is checked
    for its directory only."""
    if _allows_shared_files() and not exclusive:
        return
    path = Path(path)
    try:
        found = path.lstat() if exclusive else path.stat()
    except FileNotFoundError:
        found = None
    if found is not None:
        if not named and (link := path.lstat()).st_uid not in _trusted_users():
            found = link  # A symbolic link of another user leads to any file of this one.
        if exclusive and (not stat.S_ISREG(found.st_mode) or found.st_nlink > 1):
            raise UntrustedFile(path, "is a link or not a regular file; delete it")
        if not named and found.st_uid not in _trusted_users():
            raise UntrustedFile(
                path,
                f"belongs to {_user(found.st_uid)}; delete it, change its owner, or run as that user",
            )
        if writers := _other_writers(found):
            raise UntrustedFile(path, f"is writable by {writers}; remove the permission with 'chmod go-w'")
    check_directory(path, exclusive=exclusive)


def read_named_file(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file that an administrator named; raises `OSError`, also `UntrustedFile`."""
    check_file(path, named=True)
    return Path(path).read_bytes()


def check_directory(path: str | os.PathLike[str], *, exclusive: bool = False) -> None:
    """Raise `UntrustedFile` if another user could replace a file, which need not exist."""
    if _allows_shared_files() and not exclusive:
        return
    path = Path(path)
    directory = path.parent if exclusive else Path(os.path.realpath(path)).parent
    try:
        found = directory.stat()
    except FileNotFoundError:
        return  # Opening the file reports it.
    if exclusive and found.st_uid not in _trusted_users():
        raise UntrustedFile(path, f"is in a directory of {_user(found.st_uid)}; use a directory of your own")
    if (exclusive or not found.st_mode & stat.S_ISVTX) and (writers := _other_writers(found)):
        raise UntrustedFile(
            path,
            f"is in a directory that is writable by {writers}; use another directory, or remove the "
            f"permission with 'chmod go-w {directory}'",
        )


def _allows_shared_files() -> bool:
    return os.environ.get(ALLOW_SHARED_FILES, "").lower() in ("1", "true", "yes")


def _trusted_users() -> set[int]:
    """Return the user IDs of this process, of root and, as root after `sudo`, of the user who ran it."""
    user = os.geteuid()
    sudo = os.environ.get("SUDO_UID", "") if user == 0 else ""
    return {0, user, *((int(sudo),) if sudo.isascii() and sudo.isdecimal() else ())}


def _other_writers(found: os.stat_result) -> str:
    """Return who has write permission besides the owner and root; empty without other writers."""
    if found.st_mode & stat.S_IWOTH:
        return "every user"
    if found.st_mode & stat.S_IWGRP:
        others = _members(found.st_gid) - _trusted_users() - {found.st_uid}
        if others:
            return f"group {found.st_gid} with {_user(min(others))}"
    return ""


@lru_cache(maxsize=64)
def _members(group: int) -> frozenset[int]:
    """Return the users of a group. A private group has one, a group that only processes have has none."""
    import grp
    import pwd

    users = {each.pw_uid for each in pwd.getpwall() if each.pw_gid == group}
    try:
        names = grp.getgrgid(group).gr_mem
    except KeyError:
        names = []
    for name in names:
        try:
            users.add(pwd.getpwnam(name).pw_uid)
        except KeyError:
            continue
    return frozenset(users)


def _user(number: int) -> str:
    import pwd

    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"
