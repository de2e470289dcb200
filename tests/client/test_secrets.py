"""Secrets in messages, empty CAs, files outside the destination of a copy."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
import yaml

from kubewright.client import ClusterConfig, ConfigError, ExecPlugin, PEMData, load_config
from kubewright.client.config.credentials import make_context
from kubewright.client.config.kubeconfig import Kubeconfig
from kubewright.client.config.oidc import OIDCToken
from kubewright.client.streams.tar_archive import unpack
from kubewright.client.transport.proxy import parse_proxy

SECRET = "hunter2"


def _kubeconfig(cluster: dict[str, object]) -> str:
    return yaml.safe_dump(
        {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": {"server": "https://x", **cluster}}],
            "users": [{"name": "x", "user": {"token": SECRET, "password": SECRET}}],
        }
    )


@pytest.mark.parametrize(
    "thing",
    [
        PEMData(data=SECRET.encode()),
        ExecPlugin(api_version="v1", command="c", args=(SECRET,), env=(("TOKEN", SECRET),)),
        ClusterConfig(server="https://x", token=SECRET, password=SECRET, oidc={"client-secret": SECRET}),
        ClusterConfig(server="https://x", proxy_url=f"http://me:{SECRET}@proxy:1"),
        ClusterConfig(server="https://x", client_key=PEMData(data=SECRET.encode())),
        parse_proxy(f"http://me:{SECRET}@proxy:1", "here"),
        Kubeconfig.parse(_kubeconfig({})),
    ],
)
def test_reprs_do_not_contain_secrets(thing: object) -> None:
    assert SECRET not in f"{thing!r} {thing}"


def test_errors_do_not_contain_secrets() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_proxy(f"ftp://me:{SECRET}@proxy:1", "here")
    assert SECRET not in str(caught.value)
    assert "ftp://proxy:1" in str(caught.value)
    with pytest.raises(ConfigError, match="<kubeconfig>:1: not YAML") as caught:
        Kubeconfig.parse(f"token: '{SECRET}' {SECRET}")
    assert SECRET not in str(caught.value)


def test_empty_ca_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="empty"):
        make_context(ClusterConfig(server="https://x", ca=PEMData(data=b"\n")))
    empty = tmp_path / "ca.crt"
    empty.touch()
    with pytest.raises(ConfigError, match="empty"):
        make_context(ClusterConfig(server="https://x", ca=PEMData(file=str(empty))))


async def test_empty_ca_of_oidc_provider_is_rejected(tmp_path: Path) -> None:
    empty = tmp_path / "ca.crt"
    empty.touch()
    settings = {
        "idp-issuer-url": "https://127.0.0.1:1",
        "client-id": "x",
        "refresh-token": SECRET,
        "idp-certificate-authority": str(empty),
    }
    with pytest.raises(ConfigError, match="not valid PEM"):
        await OIDCToken(settings).token()


def test_ca_with_insecure_skip_tls_verify_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(_kubeconfig({"insecure-skip-tls-verify": True, "certificate-authority-data": "eA=="}))
    with pytest.raises(ConfigError, match="insecure-skip-tls-verify"):
        load_config(path)


def _archive(*members: tuple[str, bytes, str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, kind, link, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, link, len(content)
            info.mode = 0o755
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "members",
    [
        [("d", tarfile.DIRTYPE, "", b""), ("d/../neighbour", tarfile.REGTYPE, "", b"evil")],
        [("d/l", tarfile.SYMTYPE, "../neighbour", b""), ("d/l", tarfile.REGTYPE, "", b"evil")],
        [("d/l", tarfile.SYMTYPE, "..", b""), ("d/l/neighbour", tarfile.REGTYPE, "", b"evil")],
        [("d/l", tarfile.LNKTYPE, "neighbour", b""), ("d/l", tarfile.REGTYPE, "", b"evil")],
        [("d/l", tarfile.LNKTYPE, "d/../neighbour", b""), ("d/l", tarfile.REGTYPE, "", b"evil")],
        [("d", tarfile.SYMTYPE, "neighbour", b""), ("d", tarfile.REGTYPE, "", b"evil")],
    ],
)
def test_copy_does_not_change_siblings(tmp_path: Path, members: list[tuple[str, bytes, str, bytes]]) -> None:
    neighbour = tmp_path / "neighbour"
    neighbour.write_bytes(b"mine")
    try:
        unpack(_archive(*members), "d", tmp_path / "copy")
    except (tarfile.TarError, OSError, KeyError):
        pass
    assert neighbour.read_bytes() == b"mine"


def test_links_within_a_copy_work(tmp_path: Path) -> None:
    data = _archive(
        ("./", tarfile.DIRTYPE, "", b""),
        ("./a", tarfile.REGTYPE, "", b"text"),
        ("./soft", tarfile.SYMTYPE, "a", b""),
        ("./hard", tarfile.LNKTYPE, "./a", b""),
    )
    unpack(data, ".", tmp_path / "copy")
    assert {path.name: path.read_bytes() for path in (tmp_path / "copy").iterdir()} == {
        "a": b"text",
        "soft": b"text",
        "hard": b"text",
    }


def test_copied_file_replaces_a_link(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / "copy").symlink_to(tmp_path / "mine")
    unpack(_archive(("f", tarfile.REGTYPE, "", b"new")), "f", tmp_path / "copy")
    assert (tmp_path / "mine").read_bytes() == b"mine"
    assert (tmp_path / "copy").read_bytes() == b"new"
