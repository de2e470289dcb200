"""Servers to test against: ours in this process, ours over TLS, or a real kube-apiserver.

    with start_kube_apiserver() as config: ...            kube-apiserver and etcd from $KUBEBUILDER_ASSETS
    async with served("tls") as server: ...      a `TestServer`: `server.client()`, `server.config`

`choose()` says which ones a test run is about: the real one when `KUBEBUILDER_ASSETS` is set, else ours both
ways.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kubewright.client import Client, ClusterConfig, PEMData, load_config
from kubewright.client.transport.interface import Transport

ServerKind = Literal["in-process", "tls", "real"]
START_TIMEOUT = 90.0


@dataclass(slots=True)
class TestServer:
    """A running server and the way to it, as an administrator."""

    __test__ = False

    which: ServerKind
    config: ClusterConfig | None
    """Where it is on the network; `None` in process."""
    transport: Transport
    plane: Any = None
    """The `ControlPlane`, if it is ours."""

    def client(self, **options: Any) -> Client:
        """A client for it; closing it leaves the server alone."""
        return Client.from_transport(self.transport, **options)


def server_kinds(environ: dict[str, str] | None = None) -> tuple[ServerKind, ...]:
    """The servers that this run tests."""
    return ("real",) if (environ or os.environ).get("KUBEBUILDER_ASSETS") else ("in-process", "tls")


@asynccontextmanager
async def start_test_server(
    which: ServerKind, config: ClusterConfig | None = None, **options: Any
) -> AsyncIterator[TestServer]:
    """A server of this kind; `config` is the real one's, `options` are for our `ControlPlane`."""
    from kubewright.client.transport.http import HTTPTransport

    if which == "real":
        assert config is not None
        transport = HTTPTransport(config)
        try:
            yield TestServer(which, config, transport)
        finally:
            await transport.aclose()
        return
    from kubewright.apiserver.in_process import InProcessTransport
    from kubewright.controlplane import ControlPlane

    plane = ControlPlane(port=None if which == "in-process" else 0, **options)
    async with plane:
        if which == "in-process":
            yield TestServer(which, None, InProcessTransport(plane.server), plane)
            return
        found = load_config(plane.kubeconfig)
        transport = HTTPTransport(found)
        try:
            yield TestServer(which, found, transport, plane)
        finally:
            await transport.aclose()


@contextmanager
def start_kube_apiserver(assets: str | os.PathLike[str] | None = None) -> Iterator[ClusterConfig]:
    """Start etcd and kube-apiserver from a directory, ready and with an administrator's token."""
    where = Path(assets or os.environ["KUBEBUILDER_ASSETS"])
    for name in ("etcd", "kube-apiserver"):
        if not (where / name).exists():
            raise FileNotFoundError(f"{where / name} does not exist; KUBEBUILDER_ASSETS names its directory")
    scratch = Path(tempfile.mkdtemp(prefix="kubewright-real-"))
    processes: list[subprocess.Popen[bytes]] = []
    try:
        config, commands = _prepare(where, scratch)
        for name, command in commands.items():
            with (scratch / f"{name}.log").open("wb") as log:
                processes.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=scratch))  # noqa: S603
        _wait_ready(config, processes, scratch)
        yield config
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(scratch, ignore_errors=True)


def _prepare(assets: Path, scratch: Path) -> tuple[ClusterConfig, dict[str, list[str]]]:
    from kubewright.apiserver.http.tls import CertificateAuthority

    authority = CertificateAuthority.create("kubewright-test-ca")
    hosts = ("127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc")
    authority.issue("kube-apiserver", hosts=hosts, server=True).write(
        scratch / "tls.crt", scratch / "tls.key"
    )
    (scratch / "sa.key").write_bytes(_signing_key())
    token = secrets.token_hex(16)
    (scratch / "tokens.csv").write_text(f'{token},kubernetes-admin,admin,"system:masters"\n')
    client_port, peer_port, secure_port = _free_ports(3)
    etcd, peer = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
    commands = {
        "etcd": [
            str(assets / "etcd"),
            f"--data-dir={scratch / 'etcd'}",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
        ],
        "kube-apiserver": [
            str(assets / "kube-apiserver"),
            f"--etcd-servers={etcd}",
            f"--cert-dir={scratch / 'certs'}",
            f"--tls-cert-file={scratch / 'tls.crt'}",
            f"--tls-private-key-file={scratch / 'tls.key'}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={secure_port}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            f"--token-auth-file={scratch / 'tokens.csv'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={scratch / 'sa.key'}",
            f"--service-account-signing-key-file={scratch / 'sa.key'}",
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
        ],
    }
    config = ClusterConfig(
        server=f"https://127.0.0.1:{secure_port}",
        ca=PEMData(data=authority.certificate),
        token=token,
        source="the kube-apiserver of this test run",
    )
    return config, commands


def _signing_key() -> bytes:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def _free_ports(count: int) -> list[int]:
    with contextmanager(_open_sockets)(count) as sockets:
        return [each.getsockname()[1] for each in sockets]


def _open_sockets(count: int) -> Iterator[list[socket.socket]]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        yield sockets
    finally:
        for each in sockets:
            each.close()


def _wait_ready(config: ClusterConfig, processes: list[subprocess.Popen[bytes]], scratch: Path) -> None:
    assert config.ca is not None
    context = ssl.create_default_context(cadata=config.ca.read().decode())
    request = urllib.request.Request(  # noqa: S310
        f"{config.server}/readyz", headers={"Authorization": f"Bearer {config.token}"}
    )
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        if any(process.poll() is not None for process in processes):
            break
        try:
            with urllib.request.urlopen(request, context=context, timeout=5) as answer:  # noqa: S310
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    said = "\n".join(
        f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}" for log in sorted(scratch.glob("*.log"))
    )
    raise RuntimeError(f"the real API server did not become ready:\n{said}")


__all__ = ["TestServer", "server_kinds", "start_kube_apiserver", "start_test_server"]
