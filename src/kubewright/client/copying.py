"""Files and directories as tar archives, on their way into and out of containers."""

from __future__ import annotations

import io
import tarfile
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
    """Write the file or directory `name` of an archive as `destination`, and nothing elsewhere."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        members = []
        for member in archive:
            if member.name == name:
                member.name = destination.name
            elif name == "." or member.name.startswith(f"{name}/"):
                member.name = f"{destination.name}/{member.name.removeprefix(f'{name}/').removeprefix('./')}"
            else:
                continue
            members.append(member)
        destination.parent.mkdir(parents=True, exist_ok=True)
        # The `data` filter refuses links and paths that lead outside.
        archive.extractall(destination.parent, members=members, filter="data")


__all__ = ["pack", "unpack"]
