"""What the supervisor of a container executes, and the start of the supervisor."""

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
from typing import IO, Final, Literal

Namespaces = Literal["", "mount", "user"]
"""How containers get mount namespaces: not at all, as root, or with user namespaces."""

_FOLDER: Final = str(Path(__file__).parent)
_SUPERVISOR: Final = f"""
import sys
sys.path.insert(0, {_FOLDER!r})
import supervisor
sys.path.pop(0)
supervisor.main()
"""
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
    """A command of a container: the main one, or one of exec, probes and hooks."""

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


@dataclass(slots=True, kw_only=True)
class SupervisorSpec:
    """What the supervisor of a container needs."""

    command: LaunchSpec
    """The main command."""
    log: str
    """Directory of the log files."""
    log_size: int
    log_files: int
    cgroup: str = ""
    """The cgroup of the container, which the supervisor creates; empty without."""
    terminal: int = -1
    """Descriptor of the terminal of the main command, if it has one."""
    parent: int = field(default_factory=os.getpid)


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
        program = _PROBE.format(folder=_FOLDER, user=namespaces == "user", scratch=scratch)
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


async def start_supervisor(spec: SupervisorSpec, *, stdin: int, control: int) -> asyncio.subprocess.Process:
    """Start the supervisor of a container in a session of its own; `control` is its end of the socket."""
    passed = (control, *([spec.terminal] if spec.terminal >= 0 else ()))
    with spec_file(spec) as file:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            "-c",
            _SUPERVISOR,
            str(control),
            str(file.fileno()),
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            pass_fds=(*passed, file.fileno()),
            start_new_session=True,
            env={"PATH": os.defpath},
            cwd="/",
        )


def spec_file(spec: SupervisorSpec | LaunchSpec) -> IO[bytes]:
    """Return a file in memory with a spec: variables may come from secrets."""
    file: IO[bytes]
    if hasattr(os, "memfd_create"):
        file = os.fdopen(os.memfd_create("kubewright-launch"), "w+b")
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115
    file.write(json.dumps(asdict(spec)).encode())
    file.flush()
    return file
