"""Test servers: the embedded control plane in this process or over TLS, or a real kube-apiserver.

    async with start_test_server("tls") as server:     # a `TestServer`: `server.client()`, `server.config`
        ...
    with start_kube_apiserver() as config:              # kube-apiserver and etcd from $KUBEBUILDER_ASSETS
        ...

`server_kinds()` returns the servers of a test run: the real one if `KUBEBUILDER_ASSETS` is set, else the
embedded one in both forms.
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
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kubewright.client import Client, ClusterConfig, PEMData, load_config
from kubewright.client.transport.interface import Transport
from kubewright.controlplane.options import ControlPlaneOptions
from kubewright.options.model import accepts_options

if TYPE_CHECKING:
    from kubewright.client.rest.metrics import ClientMetrics
    from kubewright.controlplane import ControlPlane
    from kubewright.workloads.nodes.pods.pod_control import PodControl
    from kubewright.workloads.nodes.simulation import SimulatedNodes

ServerKind = Literal["in-process", "tls", "real"]
START_TIMEOUT = 90.0


@dataclass(frozen=True)
class TestServerOptions(ControlPlaneOptions):
    """A kind of server, and the options of the embedded control plane."""

    __test__ = False

    kind: ServerKind
    config: ClusterConfig | None = None
    """The configuration of a real server."""


@dataclass(slots=True)
class TestServer:
    """A running server, and a connection to it as an administrator."""

    __test__ = False

    kind: ServerKind
    config: ClusterConfig | None
    """Network configuration; `None` for an in-process server."""
    transport: Transport
    _plane: ControlPlane | None = None

    @property
    def plane(self) -> ControlPlane:
        """The embedded control plane. Raises `RuntimeError` for a real kube-apiserver."""
        if self._plane is None:
            raise RuntimeError("a real kube-apiserver has no embedded control plane")
        return self._plane

    @property
    def nodes(self) -> SimulatedNodes:
        """The simulated nodes: `server.nodes.fail("node-0")`. Raises `RuntimeError` without nodes."""
        workloads = self.plane.workloads
        if workloads is None or workloads.simulated_nodes is None:
            raise RuntimeError("this server has no simulated nodes; start it with nodes=1 or more")
        return workloads.simulated_nodes

    @property
    def pods(self) -> PodControl:
        """Steers the pods on simulated nodes: `server.pods.crash("app=web")`."""
        return self.nodes.pods

    def client(
        self,
        *,
        namespace: str = "default",
        user_agent: str = "",
        on_warning: Callable[[str], None] | None = None,
        metrics: ClientMetrics | None = None,
    ) -> Client:
        """Return a client with administrator permissions. Closing it does not stop the server."""
        return Client.from_transport(
            self.transport, namespace=namespace, user_agent=user_agent, on_warning=on_warning, metrics=metrics
        )


def server_kinds(environ: dict[str, str] | None = None) -> tuple[ServerKind, ...]:
    """Return the servers of this test run."""
    return ("real",) if (environ or os.environ).get("KUBEBUILDER_ASSETS") else ("in-process", "tls")


@accepts_options(TestServerOptions)
@asynccontextmanager
async def start_test_server(options: TestServerOptions) -> AsyncIterator[TestServer]:
    """Start a server: `start_test_server(kind, config=None, **options)`.

    `config` is for a real one; the other keyword arguments are those of `ControlPlane`. With `nodes`, pods
    run on simulated nodes that a test can steer: `server.nodes`, `server.pods`.
    """
    from kubewright.client.transport.http import HTTPTransport

    kind, config = options.kind, options.config
    if kind == "real":
        assert config is not None
        transport = HTTPTransport(config)
        try:
            yield TestServer(kind, config, transport)
        finally:
            await transport.aclose()
        return
    from kubewright.apiserver.in_process import InProcessTransport
    from kubewright.controlplane import ControlPlane

    options = replace(options, port=None if kind == "in-process" else options.port)
    plane = ControlPlane.from_options(options)
    async with plane:
        if plane.workloads is not None and plane.workloads.registration is not None:
            await plane.workloads.start_nodes()
        if kind == "in-process":
            yield TestServer(kind, None, InProcessTransport(plane.server), plane)
            return
        found = load_config(plane.kubeconfig)
        transport = HTTPTransport(found)
        try:
            yield TestServer(kind, found, transport, plane)
        finally:
            await transport.aclose()


@dataclass(frozen=True, slots=True)
class KubeAPIServer:
    """A running kube-apiserver with its etcd."""

    config: ClusterConfig
    """Configuration with an admin token."""
    etcd: str
    """Address of etcd, `HOST:PORT`."""
    processes: tuple[subprocess.Popen[bytes], ...]


@contextmanager
def start_kube_apiserver(assets: str | os.PathLike[str] | None = None) -> Iterator[ClusterConfig]:
    """Start etcd and kube-apiserver from a directory, and return a configuration with an admin token."""
    with run_kube_apiserver(assets) as server:
        yield server.config


@contextmanager
def run_kube_apiserver(assets: str | os.PathLike[str] | None = None) -> Iterator[KubeAPIServer]:
    """Start etcd and kube-apiserver from a directory, by default that of `KUBEBUILDER_ASSETS`."""
    where = Path(assets or os.environ["KUBEBUILDER_ASSETS"])
    for name in ("etcd", "kube-apiserver"):
        if not (where / name).exists():
            raise FileNotFoundError(f"{where / name} does not exist; set KUBEBUILDER_ASSETS to its directory")
    scratch = Path(tempfile.mkdtemp(prefix="kubewright-real-"))
    processes: list[subprocess.Popen[bytes]] = []
    try:
        config, etcd, commands = _prepare(where, scratch)
        for name, command in commands.items():
            with (scratch / f"{name}.log").open("wb") as log:
                processes.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=scratch))  # noqa: S603
        _wait_ready(config, processes, scratch)
        yield KubeAPIServer(config, etcd, tuple(processes))
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(scratch, ignore_errors=True)


def _prepare(assets: Path, scratch: Path) -> tuple[ClusterConfig, str, dict[str, list[str]]]:
    from kubewright.tls.certificates import CertificateAuthority

    authority = CertificateAuthority.create("kubewright-test-ca")
    hosts = ("127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc")
    authority.issue("kube-apiserver", hosts=hosts, server=True).write(
        scratch / "tls.crt", scratch / "tls.key"
    )
    (scratch / "sa.key").write_bytes(_signing_key())
    # For extension API servers: the certificate with which kube-apiserver forwards requests to them.
    front_proxy = CertificateAuthority.create("kubewright-test-front-proxy-ca")
    front_proxy.issue("front-proxy-client").write(scratch / "proxy.crt", scratch / "proxy.key")
    (scratch / "proxy-ca.crt").write_bytes(front_proxy.certificate)
    token = secrets.token_hex(16)
    (scratch / "tokens.csv").write_text(f'{token},kubernetes-admin,admin-uid,"system:masters"\n')
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
            # An address of the documentation network: kube-apiserver 1.37 rejects loopback addresses.
            "--advertise-address=192.0.2.1",
            f"--secure-port={secure_port}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            f"--token-auth-file={scratch / 'tokens.csv'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={scratch / 'sa.key'}",
            f"--service-account-signing-key-file={scratch / 'sa.key'}",
            f"--requestheader-client-ca-file={scratch / 'proxy-ca.crt'}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={scratch / 'proxy.crt'}",
            f"--proxy-client-key-file={scratch / 'proxy.key'}",
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
        ],
    }
    config = ClusterConfig(
        server=f"https://127.0.0.1:{secure_port}",
        ca=PEMData(data=authority.certificate),
        token=token,
        source="kube-apiserver of this test run",
    )
    return config, f"127.0.0.1:{client_port}", commands


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
            with urllib.request.urlopen(request, context=context, timeout=5) as response:  # noqa: S310
                if response.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    output = "\n".join(
        f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}" for log in sorted(scratch.glob("*.log"))
    )
    raise RuntimeError(f"kube-apiserver did not become ready within {START_TIMEOUT:g} s:\n{output}")
