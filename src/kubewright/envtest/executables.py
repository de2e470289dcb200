"""The executables that Go's envtest starts: `kube-apiserver`, `etcd` and `kubectl` in one directory.

The first two are shell scripts that run modules of this package with the current interpreter; `kubectl` is a
link to the installed one. Files that Kubewright has not written are not replaced.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import kubewright

MODULES = {"kube-apiserver": "kubewright.envtest.kube_apiserver", "etcd": "kubewright.envtest.etcd"}
"""Executables with the modules that they run."""

VERSION_VARIABLE = "KUBEWRIGHT_KUBERNETES_VERSION"
"""Environment variable with the version of Kubernetes that a server has."""

_MARK = "# Written by `kubewright envtest`."


@dataclass(frozen=True, slots=True)
class Executables:
    """What `write_executables` has written."""

    directory: Path
    """The directory, for `KUBEBUILDER_ASSETS`."""
    written: tuple[Path, ...]
    kubectl: Path | None
    """The kubectl that the link refers to, if one was found."""


class ForeignFile(Exception):
    """A file exists that was not written by Kubewright."""


def write_executables(
    directory: Path, *, kubectl: Path | None = None, overwrite: bool = False, kubernetes_version: str = ""
) -> Executables:
    """Write the executables to a directory, which is created; raises `ForeignFile` or `OSError`.

    `kubectl` is searched on the path by default. `overwrite` also replaces files of other programs.
    `kube-apiserver` serves the API of `kubernetes_version`, by default the newest.
    """
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    if kubectl is None:
        found = shutil.which("kubectl", path=_path_without(directory))
        kubectl = Path(found) if found else None
    paths = [directory / name for name in MODULES]
    if not overwrite:
        for path in paths:
            if not _is_own(path):
                raise ForeignFile(f"{path} exists and was not written by Kubewright")
    for path in paths:
        _write(path, script(MODULES[path.name], kubernetes_version))
    link = directory / "kubectl"
    if kubectl is not None and (link.is_symlink() or not link.exists() or overwrite):
        link.unlink(missing_ok=True)
        link.symlink_to(kubectl.resolve())
        paths.append(link)
    return Executables(directory, tuple(paths), kubectl)


def script(module: str, kubernetes_version: str = "") -> str:
    """Return the shell script that runs a module.

    The path of an interpreter can be too long for a `#!` line, or contain spaces; hence the shell.
    `-P` keeps the directory of the test, which is the working directory, out of the import path.
    """
    root = str(Path(kubewright.__file__).resolve().parent.parent)
    installed = {os.path.realpath(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    path = ""
    if root not in installed:
        path = f'PYTHONPATH={shlex.quote(root)}"${{PYTHONPATH:+:$PYTHONPATH}}" '
    if kubernetes_version:
        path += f"{VERSION_VARIABLE}={shlex.quote(kubernetes_version)} "
    command = f'{path}exec {shlex.quote(sys.executable)} -P -m {module} "$@"'
    return f"#!/bin/sh\n{_MARK}\n{command}\n"


def _is_own(path: Path) -> bool:
    if not path.exists() and not path.is_symlink():
        return True
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return _MARK.encode() in file.read(256)


def _write(path: Path, text: str) -> None:
    """Replace a file atomically: a test that is starting sees the old or the new script."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.chmod(0o755)
    temporary.replace(path)


def _path_without(directory: Path) -> str:
    """Return the search path without a directory, so that a link is not made to itself."""
    parts = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(part for part in parts if Path(part or ".").resolve() != directory.resolve())
