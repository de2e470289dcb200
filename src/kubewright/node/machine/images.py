"""Images in containerd: import of archives, and removal of everything that runs, through the program ctr."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path

NAMESPACE = "k8s.io"
"""Namespace of containerd that kubelets use."""


class ImageError(Exception):
    """containerd has rejected a command; the message is its last line."""


async def ctr(program: Path | str, socket: Path | str, *arguments: str) -> str:
    """Run a command of ctr and return its output; raises `ImageError`."""
    process = await asyncio.create_subprocess_exec(
        str(program),
        "--address",
        str(socket),
        "--namespace",
        NAMESPACE,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    if process.returncode:
        lines = errors.decode(errors="replace").strip().splitlines() or [f"exit code {process.returncode}"]
        raise ImageError(lines[-1].removeprefix("ctr: "))
    return output.decode(errors="replace")


async def import_image(program: Path | str, socket: Path | str, archive: Path) -> list[str]:
    """Import an archive (of docker save, or OCI) and return the names of its images; raises `ImageError`."""
    before = set(await image_names(program, socket))
    output = await ctr(program, socket, "images", "import", "--all-platforms", "--no-unpack", str(archive))
    named = [line.split()[1] for line in output.splitlines() if line.startswith("unpacking ")]
    return named or sorted(set(await image_names(program, socket)) - before) or [archive.name]


async def image_names(program: Path | str, socket: Path | str) -> list[str]:
    """Return the names of the images of containerd."""
    found = (await ctr(program, socket, "images", "ls", "-q")).split()
    return [each for each in found if not each.startswith("sha256:")]


async def remove_containers(program: Path | str, socket: Path | str) -> None:
    """Kill and delete all containers of the kubelet."""
    for name in (await ctr(program, socket, "tasks", "ls", "-q")).split():
        await _ignore(ctr(program, socket, "tasks", "rm", "--force", name))
    for name in (await ctr(program, socket, "containers", "ls", "-q")).split():
        await _ignore(ctr(program, socket, "containers", "rm", name))


async def _ignore(call: Awaitable[str]) -> None:
    try:
        await call
    except ImageError:
        return
