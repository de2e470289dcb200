"""Files and directories as tar archives, on their way into and out of containers."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from pathlib import Path


def pack(source: Path, name: str) -> bytes:
    """An archive of a file or directory under another name."""
    if not source.exists():
        raise FileNotFoundError(f"{source} does not exist")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        archive.add(source, arcname=name or source.name)
    return buffer.getvalue()


def unpack(data: bytes, name: str, destination: Path) -> None:
    """Write the file or directory `name` of an archive as `destination`, and nothing elsewhere.

    The `data` filter refuses what leads out of the directory that is extracted to. That directory is never
    the parent of `destination`: a link to a neighbour, and then a file through it, would be inside.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        members = []
        for member in archive:
            place = _below(member.name, name)
            if place is None:
                continue
            if place == "." and not member.isdir():
                with tempfile.TemporaryDirectory(dir=destination.parent, prefix=".kubewright-") as scratch:
                    member.name = destination.name
                    archive.extract(member, scratch, filter="data")
                    os.replace(Path(scratch, destination.name), destination)
                return
            member.name = place
            if member.islnk():
                member.linkname = _below(member.linkname, name) or member.linkname
            members.append(member)
        if members:
            destination.mkdir(exist_ok=True)
            archive.extractall(destination, members=members, filter="data")


def _below(path: str, name: str) -> str | None:
    """A path of the archive as seen from `name`; `None` if it is not below it."""
    if path.rstrip("/") == name:
        return "."
    if name == ".":
        return path.removeprefix("./")
    return path.removeprefix(f"{name}/") if path.startswith(f"{name}/") else None


__all__ = ["pack", "unpack"]
