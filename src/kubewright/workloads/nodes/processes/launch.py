"""Starts commands through the launcher, in or out of mount namespaces."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Final, Literal, NamedTuple

Namespaces = Literal["", "mount", "user"]
"""How containers get mount namespaces: not at all, as root, or with user namespaces."""

LAUNCHER: Final = str(Path(__file__).with_name("launcher.py"))
_PROBE: Final = """
import sys
sys.path.insert(0, {folder!r})
import launcher
launcher.unshare(user={user})
launcher.create_root({scratch!r}, [{{"source": "/proc", "target": "/kubewright-probe/proc"}}])
"""


@dataclass(frozen=True, slots=True)
class BindMount:
    """A volume, or a part of it, in a container."""

    source: str
    target: str
    readonly: bool = False


@dataclass(slots=True, kw_only=True)
class LaunchSpec:
    """What the launcher executes."""

    command: list[str]
    environment: dict[str, str]
    directory: str
    namespaces: Namespaces = ""
    mounts: list[BindMount] = field(default_factory=list)
    scratch: str = ""
    """Directory that the root directory of the container is mounted to."""
    join: int = 0
    """Process whose namespaces to enter, instead of new ones."""
    hostname: str = ""
    tty: bool = False
    parent: int = field(default_factory=os.getpid)


class Launched(NamedTuple):
    """A process that was started, and the reason that its command could not be executed."""

    process: asyncio.subprocess.Process
    error: asyncio.Task[str]
    """Done when the command is executed (with an empty text), or could not be."""


def detect_namespaces() -> Namespaces:
    """Return how mount namespaces can be created by this process; it takes some milliseconds."""
    if os.geteuid() == 0 and is_supported("mount"):
        return "mount"
    return "user" if is_supported("user") else ""


@cache
def is_supported(namespaces: Namespaces) -> bool:
    """Whether this process can create namespaces."""
    if sys.platform != "linux":
        return False
    with tempfile.TemporaryDirectory(prefix="kubewright-") as scratch:
        program = _PROBE.format(folder=str(Path(LAUNCHER).parent), user=namespaces == "user", scratch=scratch)
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-I", "-S", "-c", program],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    return done.returncode == 0


def inherited_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables of this process that containers get: where programs and modules are found."""
    names = ("PATH", "VIRTUAL_ENV", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
    found = {name: environ[name] for name in names if name in environ}
    if modules := environ.get("PYTHONPATH"):
        found["PYTHONPATH"] = os.pathsep.join(
            str(Path(each).absolute()) for each in modules.split(os.pathsep)
        )
    programs = str(Path(sys.executable).parent)
    paths = found.get("PATH", os.defpath).split(os.pathsep)
    if programs not in paths:
        paths.insert(0, programs)
    found["PATH"] = os.pathsep.join(paths)
    return found


def uncovered(paths: Iterable[str], mounts: Iterable[BindMount]) -> list[BindMount]:
    """Return mounts that show directories again which other mounts would cover."""
    targets = [os.path.realpath(each.target).rstrip("/") + "/" for each in mounts]
    return [
        BindMount(path, path, readonly=False)
        for path in dict.fromkeys(os.path.realpath(each) for each in paths if each)
        if os.path.isdir(path) and any(path.startswith(target) for target in targets)
    ]


async def spawn(
    spec: LaunchSpec,
    *,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes] = subprocess.DEVNULL,
    stderr: int | IO[bytes] = subprocess.DEVNULL,
) -> Launched:
    """Start the launcher in a session of its own."""
    status_read, status_write = os.pipe()
    try:
        with _spec_file(spec) as file:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-S",
                LAUNCHER,
                str(file.fileno()),
                str(status_write),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(file.fileno(), status_write),
                start_new_session=True,
                env={"PATH": os.defpath},
                cwd="/",
            )
    except BaseException:
        os.close(status_read)
        raise
    finally:
        os.close(status_write)
    return Launched(process, asyncio.create_task(_read_error(status_read)))


def _spec_file(spec: LaunchSpec) -> IO[bytes]:
    # In memory: variables may come from secrets.
    file: IO[bytes]
    if hasattr(os, "memfd_create"):
        file = os.fdopen(os.memfd_create("kubewright-launch"), "w+b")
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115
    file.write(json.dumps(asdict(spec)).encode())
    file.flush()
    return file


async def _read_error(descriptor: int) -> str:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        return (await reader.read()).decode(errors="replace")
    finally:
        transport.close()


__all__ = [
    "BindMount",
    "LaunchSpec",
    "Launched",
    "Namespaces",
    "detect_namespaces",
    "inherited_environment",
    "is_supported",
    "spawn",
    "uncovered",
]
