"""Containers that respond to exec and cp with what harms the client: archives, endless output."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.security.examples import examples

from kubewright.client.errors import ResponseTooLarge
from kubewright.client.streams import exec as exec_module
from kubewright.client.streams.exec import RemoteProcess
from kubewright.client.streams.tar_archive import unpack

FILE, LINK, HARD_LINK = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
TYPES = (FILE, tarfile.DIRTYPE, LINK, HARD_LINK, tarfile.FIFOTYPE, tarfile.CHRTYPE)
names = st.sampled_from(
    [
        "data",
        "data/a",
        "data/link",
        "data/link/b",
        "data/../evil",
        "/evil",
        "../evil",
        "data/a/../../evil",
        "other",
    ]
)
targets = st.sampled_from(
    ["", ".", "..", "../evil", "/", "/etc/passwd", "data", "data/link", "../../evil", "a"]
)
members = st.lists(st.tuples(names, st.sampled_from(TYPES), targets), min_size=1, max_size=6)


def archive(entries: list[tuple[str, bytes, str]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for name, kind, target in entries:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.mode = kind, target, 0o6777
            content = b"hostile" if kind == tarfile.REGTYPE else b""
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def listing(directory: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }


@given(entries=members, is_file=st.booleans())
@example(entries=[("data/link", LINK, ".."), ("data/link/b", FILE, "")], is_file=False)
@example(entries=[("data", LINK, "../evil"), ("data", FILE, "")], is_file=True)
@example(entries=[("data/a", HARD_LINK, "/etc/passwd")], is_file=False)
@settings(max_examples=examples(150), deadline=None)
def test_an_archive_writes_only_to_its_destination(
    entries: list[tuple[str, bytes, str]], is_file: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("cp")
    home = directory / "home"
    home.mkdir()
    (home / "kept").write_bytes(b"kept")
    (directory / "evil").write_bytes(b"before")
    destination = home / "received"
    try:
        unpack(archive(entries), "data", destination)
    except (tarfile.TarError, OSError, KeyError):
        pass
    assert (directory / "evil").read_bytes() == b"before"
    assert set(directory.iterdir()) == {home, directory / "evil"}
    assert (home / "kept").read_bytes() == b"kept"
    assert {each.name for each in home.iterdir()} <= {"kept", "received"}
    for path in home.rglob("*"):
        if path.is_symlink():
            # `Path.resolve` raises for a link to itself before Python 3.13.
            assert Path(os.path.realpath(path)).is_relative_to(destination)
            continue
        mode = path.lstat().st_mode
        assert stat.S_ISREG(mode) or stat.S_ISDIR(mode), "no device or pipe"
        assert not (stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID))


class EndlessOutput:
    """A connection to a command that never stops writing."""

    protocol = "v5.channel.k8s.io"

    def __init__(self) -> None:
        self.received = 0

    async def receive(self) -> bytes:
        self.received += 1
        return b"\x01" + b"y\n" * 1000

    async def send(self, data: bytes | str) -> None:
        """Accept input."""

    async def close(self, *arguments: Any) -> None:
        """Close."""


async def test_endless_output_is_not_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exec_module, "MAX_OUTPUT_BYTES", 1 << 20)
    connection = EndlessOutput()
    with pytest.raises(ResponseTooLarge, match="read its output in parts"):
        await RemoteProcess(connection).communicate()
    assert connection.received < 1000
