"""Tar archives of files and directories that are copied into and out of containers."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from pathlib import Path


def pack(source: Path, name: str) -> bytes:
    """Return an archive of a file or directory, under another name."""
    if not source.exists():
        raise FileNotFoundError(f"{source} does not exist")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        archive.add(source, arcname=name or source.name)
    return buffer.getvalue()


def unpack(data: bytes, name: str, destination: Path) -> None:
    """Write the file or directory `name` of an archive as `destination`, and nothing outside of it.

    The `data` filter rejects members that lead out of the extraction directory. That directory is never the
    parent of `destination`: a link to a sibling, and a file through that link, would be inside it.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        members = []
        for member in archive:
            path = _relative_path(member.name, name)
            if path is None:
                continue
            if path == "." and not member.isdir():
                if not member.isreg():
                    # As a link, `destination` would be another file or directory of the client.
                    raise tarfile.ReadError(f"{name} is not a file or directory; copy the target of the link")
                with tempfile.TemporaryDirectory(dir=destination.parent, prefix=".kubewright-") as scratch:
                    member.name = destination.name
                    archive.extract(member, scratch, filter="data")
                    os.replace(Path(scratch, destination.name), destination)
                return
            member.name = path
            if member.islnk():
                member.linkname = _relative_path(member.linkname, name) or member.linkname
            members.append(member)
        if members:
            destination.mkdir(exist_ok=True)
            archive.extractall(destination, members=members, filter="data")


def _relative_path(path: str, name: str) -> str | None:
    """Return a path of the archive relative to `name`; `None` if it is not below it."""
    if path.rstrip("/") == name:
        return "."
    if name == ".":
        return path.removeprefix("./")
    return path.removeprefix(f"{name}/") if path.startswith(f"{name}/") else None
