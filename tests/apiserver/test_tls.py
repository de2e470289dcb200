"""Private keys: file permissions and representation."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path

import pytest

from kubewright.apiserver.http.server import serve
from kubewright.tls.certificates import CertificateAuthority, write_private


def test_a_key_is_not_in_the_repr_of_its_pair() -> None:
    assert "PRIVATE" not in repr(CertificateAuthority.create().pair)


def test_private_files_are_readable_by_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("old")
    path.chmod(0o666)
    write_private(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600


def test_existing_links_are_not_written_to(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f".key.{os.getpid()}").symlink_to(victim)
    write_private(tmp_path / "key", b"secret")
    assert victim.read_text() == "mine"


def test_failed_write_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "key").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_private(tmp_path / "key", b"secret")
    assert [each.name for each in tmp_path.iterdir()] == ["key"]


async def test_clients_with_an_older_tls_version_are_rejected(new_server) -> None:
    server = new_server()
    async with serve(server, tls_min_version=ssl.TLSVersion.TLSv1_3) as https:
        for version, works in ((ssl.TLSVersion.TLSv1_2, False), (ssl.TLSVersion.TLSv1_3, True)):
            context = ssl.create_default_context(cadata=https.authority_pem.decode())
            context.maximum_version = version
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", https.port, ssl=context)
                writer.close()
                connected = True
            except OSError:
                connected = False
            assert connected is works
