"""The etcd stand-in over TLS, what it serves, and the choice between it and a real etcd."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from kubewright.envtest.etcd import start
from kubewright.envtest.etcd_connection import EtcdClientOptions, EtcdUnavailable, open_etcd
from kubewright.envtest.flags import FlagError
from kubewright.storage.etcd.storage import EtcdStorage
from kubewright.storage.sqlite.storage import SQLiteStorage
from kubewright.tls.certificates import CertificateAuthority


async def get(url: str) -> tuple[int, str]:
    def read() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(url, timeout=60) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    return await asyncio.to_thread(read)


async def test_health_and_version_are_served(tmp_path: Path, reserved_port: int) -> None:
    url = f"http://127.0.0.1:{reserved_port}"
    start([f"--data-dir={tmp_path / 'data'}", "--listen-client-urls", url, "--log-level=error"])
    assert await get(f"{url}/health") == (200, '{"health":"true","reason":""}')
    assert json.loads((await get(f"{url}/version"))[1])["etcdserver"]
    assert await get(f"{url}/readyz") == (200, "ok\n")
    assert (await get(f"{url}/metrics"))[0] == 404
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


async def test_the_store_is_found_over_tls_with_a_client_certificate(
    tmp_path: Path, reserved_port: int
) -> None:
    authority = CertificateAuthority.create("etcd-ca")
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    authority.issue("etcd", hosts=("127.0.0.1",), server=True).write(tmp_path / "s.crt", tmp_path / "s.key")
    authority.issue("apiserver").write(tmp_path / "c.crt", tmp_path / "c.key")
    url = f"https://127.0.0.1:{reserved_port}"
    start(
        [
            f"--data-dir={tmp_path / 'data'}",
            f"--listen-client-urls={url}",
            f"--cert-file={tmp_path / 's.crt'}",
            f"--key-file={tmp_path / 's.key'}",
            f"--trusted-ca-file={tmp_path / 'ca.crt'}",
            "--client-cert-auth",
        ]
    )
    options = EtcdClientOptions(
        servers=(url,),
        cafile=str(tmp_path / "ca.crt"),
        certfile=str(tmp_path / "c.crt"),
        keyfile=str(tmp_path / "c.key"),
    )
    storage = await open_etcd(options, timeout=60.0)
    assert isinstance(storage, SQLiteStorage)
    without = EtcdClientOptions(servers=(url,), cafile=str(tmp_path / "ca.crt"))
    with pytest.raises(EtcdUnavailable):
        await open_etcd(without, timeout=0.0)


async def test_a_server_without_the_path_of_the_stand_in_is_a_real_etcd() -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        storage = await open_etcd(EtcdClientOptions(servers=(f"http://127.0.0.1:{port}",)))
    assert isinstance(storage, EtcdStorage)
    assert storage.options.endpoints == (f"127.0.0.1:{port}",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--listen-client-urls=unix:///tmp/x"], "'unix:///tmp/x' is not a URL such as"),
        (["--listen-client-urls=https://127.0.0.1:0"], "https:// URLs need --cert-file and --key-file"),
        (["--no-such-flag"], "unknown flag: --no-such-flag"),
    ],
)
def test_errors_name_the_flag(arguments: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(FlagError, match=message):
        start([f"--data-dir={tmp_path}", *arguments])
