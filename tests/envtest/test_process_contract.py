"""The steps of Go's envtest, played against the executables that `kubewright envtest` writes.

controller-runtime reads `--help` of both, starts etcd, polls `/health`, starts kube-apiserver, polls
`/healthz` without credentials, uses certificates of its own client CA, and stops both with SIGTERM.
"""

from __future__ import annotations

import http.client
import json
import re
import signal
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.ports import reserve_ports

from kubewright.envtest.executables import write_executables
from kubewright.tls.certificates import CertificateAuthority


@pytest.fixture(scope="module")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of `KUBEBUILDER_ASSETS`; its name has a space."""
    return write_executables(tmp_path_factory.mktemp("assets") / "with space").directory


class Process:
    """A started executable with the health check that envtest polls."""

    def __init__(self, path: Path, *arguments: str, port: int, health: str, log: Path) -> None:
        self.port = port
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen([path, *arguments], stdout=output, stderr=output)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                if self.get(health)[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.02)
        self._process.kill()
        pytest.fail(f"{path.name} did not start: {log.read_text()}")

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def get(self, path: str) -> tuple[int, bytes]:
        return self.request("GET", path)

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        connection = self.connection()
        try:
            content = json.dumps(body).encode() if body is not None else None
            connection.request(method, path, content, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def signal(self) -> None:
        """Send SIGTERM."""
        self._process.send_signal(signal.SIGTERM)

    def terminate(self) -> int:
        """Send SIGTERM; return the exit code."""
        self.signal()
        return self._process.wait(60)


class EtcdProcess(Process):
    def __init__(self, assets: Path, data: Path, port: int) -> None:
        url = f"http://127.0.0.1:{port}"
        super().__init__(
            assets / "etcd",
            f"--advertise-client-urls={url}",
            f"--data-dir={data}",
            f"--listen-client-urls={url}",
            "--listen-peer-urls=http://127.0.0.1:0",
            "--unsafe-no-fsync=true",
            port=port,
            health="/health",
            log=data.parent / "etcd.log",
        )


class APIServerProcess(Process):
    """kube-apiserver with the default arguments of envtest, and a client of its administrator."""

    def __init__(self, assets: Path, certificates: Path, port: int, etcd_port: int, *extra: str) -> None:
        self._anonymous = ssl._create_unverified_context()
        self._context: ssl.SSLContext | None = None
        self._certificates = certificates
        self._write_certificates()
        super().__init__(
            assets / "kube-apiserver",
            "--allow-privileged=true",
            "--authorization-mode=RBAC",
            "--bind-address=127.0.0.1",
            f"--cert-dir={certificates}",
            f"--client-ca-file={certificates / 'client-cert-auth-ca.crt'}",
            "--disable-admission-plugins=ServiceAccount",
            f"--etcd-servers=http://127.0.0.1:{etcd_port}",
            f"--secure-port={port}",
            f"--service-account-issuer=https://127.0.0.1:{port}/",
            f"--service-account-key-file={certificates / 'sa-signer.crt'}",
            f"--service-account-signing-key-file={certificates / 'sa-signer.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            *extra,
            port=port,
            health="/healthz",
            log=certificates.parent / "kube-apiserver.log",
        )
        self._context = ssl.create_default_context(cafile=certificates / "serving-ca.crt")
        self._context.load_cert_chain(certificates / "admin.crt", certificates / "admin.key")

    def _write_certificates(self) -> None:
        """Write what envtest writes to the certificate directory before it starts the process."""
        directory = self._certificates
        if directory.exists():
            return
        directory.mkdir()
        serving, clients, accounts = (CertificateAuthority.create(name) for name in ("a", "b", "c"))
        (directory / "serving-ca.crt").write_bytes(serving.certificate)
        serving.issue("envtest", hosts=("localhost", "127.0.0.1"), server=True).write(
            directory / "apiserver.crt", directory / "apiserver.key"
        )
        (directory / "client-cert-auth-ca.crt").write_bytes(clients.certificate)
        clients.issue("admin", groups=("system:masters",)).write(
            directory / "admin.crt", directory / "admin.key"
        )
        accounts.pair.write(directory / "sa-signer.crt", directory / "sa-signer.key")

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPSConnection(
            "127.0.0.1", self.port, context=self._context or self._anonymous, timeout=60
        )


CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"a": "1"}}
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def test_help_texts_have_the_flags_that_envtest_looks_for(assets: Path) -> None:
    def has_flag(name: str, flag: str) -> bool:
        done = subprocess.run([assets / name, "--help"], capture_output=True, check=True)
        return re.search(rf"(?m)^\s*--{flag}\b", (done.stdout + done.stderr).decode()) is not None

    assert has_flag("etcd", "unsafe-no-fsync")
    assert has_flag("kube-apiserver", "etcd-servers")
    assert not has_flag("kube-apiserver", "insecure-port")


@pytest.fixture
def ports() -> Iterator[list[int]]:
    with reserve_ports(3) as reserved:
        yield reserved


def test_data_survives_restarts_of_each_process(assets: Path, tmp_path: Path, ports: list[int]) -> None:
    data, certificates = tmp_path / "etcd", tmp_path / "certs"
    etcd_port, api_port, other_port = ports
    etcd = EtcdProcess(assets, data, etcd_port)
    api = APIServerProcess(assets, certificates, api_port, etcd_port)
    assert api.get("/api/v1/namespaces/default")[0] == 200
    assert api.request("POST", CONFIG_MAPS, CONFIG_MAP)[0] == 201
    assert (
        api.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "a"}})[0]
        == 201
    )
    token = {"spec": {"audiences": [], "expirationSeconds": 600}}
    status, body = api.request("POST", "/api/v1/namespaces/default/serviceaccounts/a/token", token)
    assert status == 201
    assert json.loads(body)["status"]["token"]
    assert (certificates / "kubewright.kubeconfig").stat().st_mode & 0o777 == 0o600

    started = time.monotonic()
    assert api.terminate() == 0
    assert time.monotonic() - started < 20, "envtest kills the process after this time"
    api = APIServerProcess(assets, certificates, api_port, etcd_port, "--shutdown-delay-duration=10ms")
    status, body = api.get(f"{CONFIG_MAPS}/kept")
    assert status == 200
    first = json.loads(body)["metadata"]

    # etcd stops first: the API server still stops on SIGTERM.
    assert etcd.terminate() == -signal.SIGTERM
    assert api.terminate() == 0
    etcd = EtcdProcess(assets, data, etcd_port)
    api = APIServerProcess(assets, certificates, api_port, etcd_port, "--etcd-prefix=/registry")
    assert json.loads(api.get(f"{CONFIG_MAPS}/kept")[1])["metadata"] == first
    other = APIServerProcess(assets, certificates, other_port, etcd_port, "--etcd-prefix=/other")
    assert other.get(f"{CONFIG_MAPS}/kept")[0] == 404
    for process in (other, api, etcd):
        process.terminate()
    assert "Warning" not in api.log.read_text()


def test_requests_are_served_until_the_end_of_the_shutdown_delay(
    assets: Path, tmp_path: Path, ports: list[int]
) -> None:
    etcd = EtcdProcess(assets, tmp_path / "etcd", ports[0])
    api = APIServerProcess(assets, tmp_path / "certs", ports[1], ports[0], "--shutdown-delay-duration=1h")
    assert api.get("/readyz")[0] == 200
    watch, kept = api.connection(), api.connection()
    watch.request("GET", f"{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name%3Dkept")
    events = watch.getresponse()
    kept.request("GET", "/livez")
    assert kept.getresponse().read() == b"ok"
    api.signal()
    deadline = time.monotonic() + 60
    while api.get("/readyz")[0] != 500:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert b"[-]shutdown failed: reason withheld" in api.get("/readyz")[1]
    for path in ("/livez", "/healthz", "/api/v1/namespaces/default"):
        assert api.get(path)[0] == 200
    kept.request("POST", CONFIG_MAPS, json.dumps(CONFIG_MAP), {"Content-Type": "application/json"})
    response = kept.getresponse()
    assert (response.status, response.headers["Connection"]) == (201, None), "connections stay open"
    response.read()
    event = json.loads(events.readline())
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "kept")
    assert api.terminate() == 0, "another signal ends the delay"
    assert events.read() == b"", "the watch has ended"
    etcd.terminate()
